"""What an encoder costs that runs through transformers, beside our modules and transformers' own loop.

    python benchmarks/adapter.py embed [--texts 200] [--rounds 2]
    python benchmarks/adapter.py train

A BERT of 6 x 384 with random weights reads texts of 3 to about 128 words, in fp32 with one thread, for their
vectors (embed) or gradients (train: forward and backward, without an optimizer).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from contest import Contender, compare, options, python

SIDES = ("own", "adapter", "transformers")
WORDS = (
    "the",
    "of",
    "and",
    "in",
    "that",
    "was",
    "with",
    "his",
    "have",
    "from",
    "had",
    "been",
    "which",
    "when",
)
LENGTH, ROWS = 128, 16


def write_model(folder: Path) -> None:
    import torch
    import transformers

    from electra.data.corpus.tokenizer import Tokenizer
    from electra.exchange.source import locate

    tokenizer = Tokenizer.load(locate("tiny-en") / "discriminator")
    torch.manual_seed(0)
    shape = {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536, "num_hidden_layers": 6}
    config = transformers.BertConfig(vocab_size=tokenizer.vocab_size, pad_token_id=tokenizer.specials.pad, **shape)
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save(folder)


def by_electra(folder: Path, texts: list[str], task: str) -> Callable[[], object]:
    import torch

    from electra.exchange.load import load
    from electra.inference.embedding import embed

    loaded = load(folder, "encoder")
    if task == "embed":
        return lambda: embed(loaded, texts)
    pad, ids, documents = loaded.tokenizer.specials.pad, list[list[int]](), list[list[int]]()
    for number, text in enumerate(texts):  # packed into rows
        encoded = loaded.tokenizer.encode(text).ids[:LENGTH]
        if not ids or len(ids[-1]) + len(encoded) > LENGTH:
            ids, documents = [*ids, []], [*documents, []]
        ids[-1] += encoded
        documents[-1] += [number] * len(encoded)
    rows = torch.tensor([row + [pad] * (LENGTH - len(row)) for row in ids])
    of = torch.tensor([row + [-1] * (LENGTH - len(row)) for row in documents])
    before = torch.arange(LENGTH).expand_as(of)
    starts = torch.where(torch.diff(of, prepend=of[:, :1] - 1, dim=1) != 0, before, 0).cummax(1).values

    def train() -> None:
        for batch in range(0, len(rows), ROWS):
            part = slice(batch, batch + ROWS)
            loaded.encoder(rows[part], (before - starts)[part], of[part]).sum().backward()

    loaded.encoder.train()
    return train


def by_transformers(folder: Path, texts: list[str], task: str) -> Callable[[], object]:
    import torch
    import transformers

    model = transformers.AutoModel.from_pretrained(folder)
    model.train(task == "train")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def run() -> None:
        for batch in range(0, len(texts), 32):
            given = {"padding": True, "truncation": True, "max_length": LENGTH if task == "train" else 512}
            inputs = tokenizer(texts[batch : batch + 32], return_tensors="pt", **given)
            with torch.inference_mode(task == "embed"):
                hidden = model(**inputs).last_hidden_state
                if task == "embed":
                    mask = inputs["attention_mask"][..., None]
                    (hidden * mask).sum(1) / mask.sum(1)
                else:
                    hidden.sum().backward()

    return run


def measure(side: str, task: str, folder: Path, count: int) -> None:
    import torch

    from electra.exchange import configs

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if side == "adapter":  # as if BERT were not one of our encoders
        configs.MODEL_TYPES = {name: ours for name, ours in configs.MODEL_TYPES.items() if name != "bert"}
    rng = random.Random(0)
    lengths = [max(3, int(rng.lognormvariate(3.4, 0.7))) for _ in range(count)]
    texts = [" ".join(rng.choice(WORDS) for _ in range(length)) for length in lengths]
    run = (by_transformers if side == "transformers" else by_electra)(folder, texts, task)
    run()
    began = time.process_time()
    run()
    seconds, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"words_per_cpu_s": sum(lengths) / seconds, "peak_mb": peak}))


def main() -> None:
    parser = options(__doc__, rounds=2)
    parser.add_argument("task", choices=["embed", "train"])
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        measure(given.side[0], given.task, Path(given.side[1]), given.texts)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        shared = (__file__, given.task, "--texts", given.texts, "--side")
        contenders = [Contender(side, python(*shared, side, folder)) for side in SIDES]
        how = {"rate": "words_per_cpu_s", "unit": "words/cpu-s", "baseline": "transformers"}
        found = compare(f"adapter-{given.task}", contenders, given, **how)
    for name, row in found["contenders"].items():
        print(f"{name}: peak {max(turn['peak_mb'] for turn in row['turns']):,.0f} MB")


if __name__ == "__main__":
    main()
