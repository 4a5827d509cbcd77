"""Compares the speed of DeBERTa's encoder with transformers' DebertaV2Model, with the same weights, in turns.

Prints one line of JSON for each length and mode (training: forward and backward with dropout as given;
scoring: forward alone). All rows are full, unless `--texts` names a file of JSON lines: then each paragraph
is a text, truncated to the length. transformers pads the batch to its longest text; electra packs the same
texts into rows. Rates count the tokens of the texts. With one thread, times are processor times.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from transformers import DebertaV2Config, DebertaV2Model

from electra.exchange.configs import read_config
from electra.exchange.weight_names import from_transformers
from electra.model.deberta import DebertaEncoder

SIZES = {"tiny": (4, 128, 2), "xsmall": (12, 384, 6), "small": (6, 768, 12), "base": (12, 768, 12)}


def networks(size: str, layers: int | None, dropout: float) -> tuple[DebertaEncoder, DebertaV2Model]:
    own_layers, hidden, heads = SIZES[size]
    config = DebertaV2Config(
        vocab_size=8192, hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden,
        num_hidden_layers=layers or own_layers, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout, relative_attention=True, position_buckets=256,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False,
    )  # fmt: skip
    reference = DebertaV2Model(config)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        shape = replace(read_config(Path(folder)).encoder, dropout=dropout, attention_dropout=dropout)
    ours = DebertaEncoder(shape)
    tensors = {f"deberta.{name}": tensor for name, tensor in reference.state_dict().items()}
    template = {f"encoder.{name}": tensor for name, tensor in ours.state_dict().items()}
    state, unused = from_transformers(tensors, template, "deberta", "encoder", "memory")
    assert not unused
    ours.load_state_dict({name.removeprefix("encoder."): tensor for name, tensor in state.items()})
    return ours, reference


def full_rows(tokens: int, length: int) -> list[int]:
    return [length] * max(1, tokens // length)


def paragraphs(path: Path, tokens: int, length: int) -> list[int]:
    """Lengths in words and punctuation marks of the first paragraphs, `tokens` of them in all."""
    lengths: list[int] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        for paragraph in json.loads(line)["text"].split("\n"):
            count = len(re.findall(r"\w+|[^\w\s]", paragraph))
            if count and sum(lengths) < tokens:
                lengths.append(min(count, length))
    return lengths


def padded(lengths: list[int]) -> Tensor:
    """The attention mask of one batch."""
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def packed(lengths: list[int], length: int) -> Tensor | None:
    """Document ids of the rows into which the texts are packed, in their order; None if each fills a row."""
    if set(lengths) == {length}:
        return None
    rows: list[list[int]] = [[]]
    for number, count in enumerate(lengths):
        if len(rows[-1]) + count > length:
            rows.append([])
        rows[-1] += [number] * count
    return torch.tensor([row + [-1] * (length - len(row)) for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--tokens", type=int, default=1024, help="tokens per batch")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--texts", type=Path, help="JSON lines with a field `text`")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dropout", type=float, default=0.1)
    arguments = parser.parse_args()
    ours, reference = networks(arguments.size, arguments.layers, arguments.dropout)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter

    def timed(run: Callable[[], Tensor], training: bool) -> float:
        began = clock()
        if training:
            run().sum().backward()  # type: ignore[no-untyped-call]
        else:
            with torch.inference_mode():
                run()
        return clock() - began

    for length in arguments.lengths:
        if arguments.texts:
            texts = paragraphs(arguments.texts, arguments.tokens, length)
        else:
            texts = full_rows(arguments.tokens, length)
        mask, document_ids = padded(texts), packed(texts, length)
        ids = torch.randint(5, 8192, mask.shape)
        rows = torch.randint(5, 8192, mask.shape if document_ids is None else document_ids.shape)

        def electra(rows: Tensor = rows, document_ids: Tensor | None = document_ids) -> Tensor:
            return ours(rows, document_ids=document_ids)  # type: ignore[no-any-return]

        def transformers(ids: Tensor = ids, mask: Tensor = mask) -> Tensor:
            return reference(ids, mask).last_hidden_state  # type: ignore[no-any-return]

        runs = {"electra": electra, "transformers": transformers}
        for training in (True, False):
            ours.train(training), reference.train(training)
            times: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(arguments.rounds + 1):
                for name, run in runs.items():
                    times[name].append(timed(run, training))
                    ours.zero_grad()
                    reference.zero_grad()
            took = {name: statistics.median(values[1:]) for name, values in times.items()}
            print(json.dumps({
                "size": arguments.size, "layers": ours.config.num_layers, "length": length,
                "mode": "training" if training else "scoring", "dropout": arguments.dropout,
                "texts": len(texts), "positions": {"electra": rows.numel(), "transformers": ids.numel()},
                "threads": torch.get_num_threads(),
                "tokens_per_second": {name: round(sum(texts) / value) for name, value in took.items()},
                "times_as_fast": round(took["transformers"] / took["electra"], 2),
            }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
