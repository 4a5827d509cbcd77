"""Compares the speed of scoring sentences with a discriminator with that of a padded transformers loop.

    python benchmarks/detect.py [MODEL] [--sentences 10000] [--rounds 3]

MODEL is a folder that both sides load, or tiny-en (default: ELECTRA-Small's shape with random weights, and a
vocabulary trained on such sentences). The sentences, of mixed length, are from Python's documentation, split
at full stops. Both sides start from text, compute in fp32, and return P(replaced) of every token. The largest
difference is printed, and how often both agree whether it is above 0.5. --onnx adds the same network as an
ONNX graph.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from contest import Contender, compare, options, python, timed


def read_sentences(count: int) -> list[str]:
    from electra.data.corpus.python_docs import documents

    parts = [part.strip() for text in documents() for part in re.split(r"(?<=[.?!])\s+|\n\n", text)]
    sentences = [" ".join(part.split()) for part in parts if 3 <= len(part.split()) <= 80]
    return [sentences[i] for i in np.random.default_rng(0).permutation(len(sentences))[:count]]


def fresh_model(folder: Path) -> Path:
    from electra.data.corpus.tokenizer import Tokenizer
    from electra.data.text_settings import TokenizerConfig
    from electra.exchange.card import Card
    from electra.exchange.huggingface import export_network
    from electra.model.networks import Networks
    from electra.model.pair import build_networks
    from electra.model.sizes import discriminator_config, resolve_size

    tokenizer = Tokenizer.train(read_sentences(10_000), TokenizerConfig(vocab_size=8192))
    shape = discriminator_config(
        resolve_size("small"),
        "electra",
        vocab_size=tokenizer.vocab_size,
        dropout=0.1,
        attention_dropout=0.1,
        pad_id=0,
    )
    network = build_networks(Networks.pair(shape), seed=1).main
    assert network is not None
    export_network(folder, network, tokenizer, Card("benchmark", "discriminator"))
    return folder


def ours(model: str, texts: list[str]) -> Callable[[], list[list[float]]]:
    from electra.exchange.load import load
    from electra.inference.detection import detect

    loaded = load(model, "discriminator")
    return lambda: [[token.p_replaced for token in results.tokens] for results in detect(loaded, texts)]


def graph(model: str, texts: list[str]) -> Callable[[], list[list[float]]]:
    from electra.exchange.onnx_graph import load_onnx
    from electra.inference.detection import detect

    loaded = load_onnx(Path(model), "discriminator")
    return lambda: [[token.p_replaced for token in results.tokens] for results in detect(loaded, texts)]


def reference(model: str, texts: list[str]) -> Callable[[], list[list[float]]]:
    import torch
    from transformers import (
        AutoConfig,
        AutoModelForTokenClassification,
        AutoTokenizer,
        ElectraForPreTraining,
    )

    modern = AutoConfig.from_pretrained(model).model_type == "modernbert"
    loader = AutoModelForTokenClassification if modern else ElectraForPreTraining
    tokenizer, network = AutoTokenizer.from_pretrained(model), loader.from_pretrained(model).float().eval()

    def score() -> list[list[float]]:
        scores = []
        for first in range(0, len(texts), 32):
            batch = tokenizer(texts[first : first + 32], padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                logits = network(**batch).logits
                probabilities = (logits[..., 1] - logits[..., 0] if modern else logits).sigmoid()
            lengths = batch["attention_mask"].sum(1).tolist()
            scores += [row[1 : length - 1].tolist() for row, length in zip(probabilities, lengths, strict=True)]
        return scores

    return score


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("model", nargs="?", default="")
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--scores", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    texts = read_sentences(arguments.sentences)
    if arguments.side:
        score = {"electra": ours, "transformers": reference}.get(arguments.side, graph)(arguments.model, texts)
        scores, timing = timed(score, len(texts))
        np.save(arguments.scores, np.concatenate([np.array(row) for row in scores]))
        print(json.dumps({**timing, "tokens": sum(map(len, scores))}))
        return
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or fresh_model(Path(folder) / "model")
        if model == "tiny-en":
            from electra.artifacts.included import included_model

            included = included_model(model)
            assert included is not None
            model = str(included / "discriminator")
        models = {"transformers": model, "electra": model}
        if arguments.onnx:
            from electra.exchange.load import load
            from electra.exchange.onnx_graph import write_onnx

            models["onnx"] = str(Path(folder) / "onnx")
            print(f"onnx: {write_onnx(load(model, 'discriminator'), Path(models['onnx']))}")
        contenders = [
            Contender(
                side,
                python(
                    __file__,
                    models[side],
                    f"--sentences={len(texts)}",
                    f"--side={side}",
                    f"--scores={folder}/{side}.npy",
                ),
            )
            for side in models
        ]
        rates = {"rate": "sentences_per_s", "unit": "sentences/s", "baseline": "transformers"}
        compare("detect", contenders, arguments, **rates)
        expected = np.load(f"{folder}/transformers.npy")
        for side in list(models)[1:]:
            other = np.load(f"{folder}/{side}.npy")
            if expected.shape != other.shape:
                print(f"{side}: the tokens differ")
                continue
            agreement, difference = (
                ((expected >= 0.5) == (other >= 0.5)).mean(),
                np.abs(expected - other).max(),
            )
            print(f"{side}: scores differ by at most {difference:.1e}; {agreement:.4%} of the marks agree")


if __name__ == "__main__":
    main()
