"""A toy world for fine-tuning: a word-level tokenizer, random encoders and learnable tasks."""

import random
from pathlib import Path

from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.finetuning.settings import Settings
from electra.model.networks import Networks
from electra.model.pair import build_networks
from electra.model.sizes import EncoderConfig

GOOD, BAD = ("fine", "bright", "kind"), ("grim", "dull", "cruel")
OTHER = tuple(str.split("the a film of night and its music was in my town with old new slow fast red"))
POSITIONS = 24


def tokenizer(folder: Path) -> Tokenizer:
    """Writes the toy vocabulary and loads it."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *OTHER, "."]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return Tokenizer.load(folder / "vocab.txt")


def save_encoder(folder: Path, architecture: str = "electra", hidden: int = 32) -> Path:
    """Writes a random discriminator as a Hugging Face folder and returns it."""
    toy_tokenizer = tokenizer(folder.with_name(folder.name + "-vocabulary"))
    config = EncoderConfig(
        architecture=architecture,  # type: ignore[arg-type]
        vocab_size=toy_tokenizer.vocab_size,
        embedding_size=hidden if architecture == "modern" else 16,
        hidden_size=hidden,
        num_layers=2,
        num_heads=2,
        intermediate_size=2 * hidden,
        max_positions=POSITIONS,
        norm_eps=1e-5 if architecture == "modern" else 1e-12,
        pad_id=toy_tokenizer.specials.pad,
    )
    network = build_networks(Networks.pair(config), seed=3, initialisation="fan_in").main
    assert network is not None
    export_network(folder, network, toy_tokenizer, Card(name="toy", kind="discriminator"))
    return folder


def sentence(draw: random.Random, label: int, longest: int = 10) -> str:
    """Returns a sentence of 1 to `longest` neutral words and a good (label 1) or bad (label 0) word."""
    words = [draw.choice(OTHER) for _ in range(draw.randint(1, longest))]
    words.insert(draw.randint(0, len(words)), draw.choice((BAD, GOOD)[label]))
    return " ".join(words)


def _write(folder: Path, splits: dict[str, list[str]], header: str, suffix: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, lines in splits.items():
        (folder / f"{split}.{suffix}").write_text("\n".join([header, *lines]) + "\n")
    return folder


def write_classification(folder: Path, train: int = 300, dev: int = 60, test: int = 0) -> Path:
    """Writes single sentences with labels 0 (a bad word) and 1 (a good word), in SST-2's layout."""
    rng = random.Random(1)
    sizes = {"train": train, "dev": dev}
    splits = {k: [f"{sentence(rng, i % 2)}\t{i % 2}" for i in range(n)] for k, n in sizes.items()}
    _write(folder, splits, "sentence\tlabel", "tsv")
    if test:
        lines = [f"{100 + i}\t{sentence(rng, i % 2)}" for i in range(test)]
        _write(folder, {"test": lines}, "index\tsentence", "tsv")
    return folder


def write_regression(folder: Path, train: int = 300, dev: int = 60) -> Path:
    """Writes pairs of sentences with a score from 1 to 6 that grows with the number of good words."""
    rng = random.Random(2)

    def line(a: int, b: int) -> str:
        return f'"{sentence(rng, a, 6)}",{sentence(rng, b, 6)},{1 + 2.5 * (a + b)}'

    sizes = {"train": train, "dev": dev}
    splits = {k: [line(i % 2, i // 2 % 2) for i in range(n)] for k, n in sizes.items()}
    return _write(folder, splits, "sentence1,sentence2,score", "csv")


def settings(out: Path, data: Path, task: str = "sst2", **changes: object) -> Settings:
    """Returns fast, deterministic fine-tuning settings for the CPU, with changes."""
    defaults: dict[str, object] = {"learning_rate": 2e-3, "layer_decay": 1.0, "epochs": 3, "batch_size": 16}
    defaults |= {"precision": "fp32", "device": "cpu", "baselines": False, "head": "transformers"}
    return Settings(task=task, data=data, out=out, **(defaults | changes))  # type: ignore[arg-type]


def write_tagging(folder: Path, train: int = 200, dev: int = 40) -> Path:
    """Writes columns of words and BIO tags.

    A good or bad word begins an entity, which extends over a following "film" or "music". Some sentences are
    long.
    """
    rng = random.Random(3)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in (("train", train), ("dev", dev)):
        blocks = []
        for i in range(size):
            words = sentence(rng, i % 2, 60 if i % 9 == 0 else 8).split()
            place = next(index for index, word in enumerate(words) if word in GOOD + BAD)
            words.insert(place + 1, rng.choice(("film", "music", "night")))
            tags = zip(words, tags_of(words), strict=True)
            blocks.append("".join(f"{word}\t{tag}\n" for word, tag in tags))
        (folder / f"{split}.tsv").write_text("\n".join(blocks))
    return folder


def tags_of(words: list[str]) -> list[str]:
    """Returns the BIO tags of the words."""
    tags: list[str] = []
    for word in words:
        kind = "good" if word in GOOD else "bad"
        continues = tags and tags[-1] != "O" and word in ("film", "music")
        tags.append(f"B-{kind}" if word in GOOD + BAD else tags[-1].replace("B-", "I-") if continues else "O")
    return tags
