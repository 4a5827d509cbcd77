"""What a model says of a text does not depend on the texts that are read with it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import electra
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.adapted_folders import encoder_config
from electra.exchange.load import load
from electra.model.adapted import AdaptedEncoder

SHAPE = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40, "pad_token_id": 0}
SHAPE |= {"hidden_size": 32, "max_position_embeddings": 80, "embedding_size": 32}
GROUPS = dict.fromkeys((f"{part}_groups" for part in ("q", "k", "v", "post_attention", "intermediate", "output")), 1)
FAMILIES: dict[str, tuple[bool, dict[str, Any]]] = {  # whether padding changes the states, and settings
    "ConvBert": (True, {"conv_kernel_size": 5, "head_ratio": 2}),
    "Nystromformer": (True, {"conv_kernel_size": 5}),
    "Yoso": (True, {"conv_window": 5}),
    "MobileBert": (True, {"intra_bottleneck_size": 32}),
    "SqueezeBert": (False, GROUPS),
    "Albert": (False, {}),
    "MPNet": (False, {}),
    "DebertaV2": (False, {"conv_kernel_size": 3, "relative_attention": True, "pos_att_type": "p2c|c2p"}),
    "RoFormer": (False, {}),
    "BigBird": (False, {"block_size": 2, "num_random_blocks": 1}),  # block_sparse above 14 tokens
}
TEXTS = ["a cafe", "the chef cooked the meal", "The Chef ate, (meals) cooked! " * 3, "meals", "the chef"]


def written(family: str, head: str, tokenizer: Tokenizer, folder: Path) -> None:
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(vocab_size=tokenizer.vocab_size, **SHAPE, **FAMILIES[family][1])
    model = getattr(transformers, f"{family}{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_alone_and_among_others(family: str, uncased: Tokenizer, tmp_path: Path) -> None:
    written(family, "Model", uncased, tmp_path)
    encoder = load(tmp_path, "encoder").encoder
    assert isinstance(encoder, AdaptedEncoder) and encoder.reads_padding == FAMILIES[family][0]
    model = electra.load(tmp_path)
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    np.testing.assert_allclose(model.embed(TEXTS), alone, atol=1e-5)
    ids = torch.randint(5, 60, (2, 12), generator=torch.Generator().manual_seed(0))
    packed = torch.tensor([[0] * 5 + [1] * 7, [0] * 3 + [-1] * 9])
    with torch.inference_mode():
        states = encoder.eval()(ids, document_ids=packed)
        for row, start, stop in ((0, 0, 5), (0, 5, 12), (1, 0, 3)):
            torch.testing.assert_close(
                states[row, start:stop], encoder(ids[row : row + 1, start:stop])[0], atol=1e-5, rtol=1e-5
            )


@pytest.mark.parametrize("family", ["BigBird", "RoFormer"])
def test_a_long_text_before_and_after_a_short_one(family: str) -> None:
    config = getattr(transformers, f"{family}Config")(vocab_size=60, **SHAPE, **FAMILIES[family][1])
    torch.manual_seed(1)
    encoder = AdaptedEncoder(encoder_config(config.to_dict())).eval()
    ids = torch.randint(5, 60, (1, 40))
    with torch.inference_mode():
        first, _, again = encoder(ids), encoder(ids[:, :6]), encoder(ids)
    assert torch.equal(first, again)
