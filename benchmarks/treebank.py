"""Tags, features and lemmas of a treebank: `--task ud` beside UDPipe 1 and spaCy, by one scorer.

    python benchmarks/treebank.py METHOD train.conllu test.conllu --size 500 --seed 0 [--encoder RUN]

METHOD is electra, udpipe (needs ufal.udpipe) or spacy. `--size` sentences of train are drawn by the seed
(0: all); spaCy and UDPipe hold a tenth of them out. Files may end in .gz. Scores are those of the CoNLL 2018
shared task with the words given: the share of words with the right UPOS, XPOS, universal features, all three,
and lemma. Prints a line of JSON: the scores, seconds, processor seconds, and the bytes of the model.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

UNIVERSAL = set(
    [
        "PronType",
        "NumType",
        "Poss",
        "Reflex",
        "Foreign",
        "Abbr",
        "Gender",
        "Animacy",
        "Number",
        "Case",
        "Definite",
        "Degree",
        "VerbForm",
        "Mood",
        "Tense",
        "Aspect",
        "Voice",
        "Evident",
        "Polarity",
        "Person",
        "Polite",
    ]
)
ID, FORM, LEMMA, UPOS, XPOS, FEATS = range(6)
UDPIPE = "iterations=20"
PATIENCE, EPOCHS, BATCH = 10, 60, 16  # of spaCy
Words = list[list[str]]


def read(path: Path) -> list[str]:
    """Returns the sentences of a CoNLL-U file."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [block for block in file.read().split("\n\n") if block.strip()]


def words(sentence: str) -> Words:
    """Returns the columns of each word, without multiword tokens and empty nodes."""
    rows = [line.split("\t") for line in sentence.splitlines() if line and line[0] != "#"]
    return [row for row in rows if row[ID].isdecimal()]


def universal(feats: str) -> str:
    """Returns the universal features, sorted."""
    return "|".join(sorted(each for each in feats.split("|") if each.split("=")[0] in UNIVERSAL))


def scores(found: list[Words], gold: list[Words]) -> dict[str, float]:
    """Returns the scores of predicted words."""
    pairs = [pair for a, b in zip(found, gold, strict=True) for pair in zip(a, b, strict=True)]
    right: dict[str, list[bool]] = {name: [] for name in ("UPOS", "XPOS", "UFeats", "AllTags", "Lemmas")}
    for a, b in pairs:
        same = a[UPOS] == b[UPOS], a[XPOS] == b[XPOS], universal(a[FEATS]) == universal(b[FEATS])
        values = (*same, all(same), b[LEMMA] in ("_", a[LEMMA]))
        for name, value in zip(right, values, strict=True):
            right[name].append(value)
    return {name: round(sum(values) / len(values), 4) for name, values in right.items()}


def stripped(sentence: str) -> str:
    """Returns a sentence with words and their numbers alone."""
    return "".join("\t".join([row[ID], row[FORM], *"________"]) + "\n" for row in words(sentence)) + "\n"


def electra(train: list[str], test: list[str], given: argparse.Namespace) -> tuple[list[Words], int]:
    """Fine-tunes and predicts by the commands; the head is the default unless given."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.conllu").write_text("\n\n".join(train) + "\n\n", encoding="utf-8")
        (folder / "test.conllu").write_text("".join(map(stripped, test)), encoding="utf-8")
        command = [str(Path(sys.executable).with_name("electra"))]
        options = ["--task", "ud", "--data", str(folder / "train.conllu"), "--head", given.head]
        options += ["--seed", str(given.seed), "--no-baselines", "--out", str(folder / "tuned")]
        subprocess.run([*command, "finetune", given.encoder, *options], check=True, stdout=sys.stderr)
        files = [str(folder / "tuned"), str(folder / "test.conllu"), "--out", str(folder / "out.conllu")]
        subprocess.run([*command, "predict", *files], check=True, stdout=sys.stderr)
        size = sum(path.stat().st_size for path in (folder / "tuned" / "model").rglob("*") if path.is_file())
        return [words(sentence) for sentence in read(folder / "out.conllu")], size


def udpipe(train: list[str], test: list[str], given: argparse.Namespace) -> tuple[list[Words], int]:
    """Trains the tagger of UDPipe 1 with its defaults; the best iteration on held-out sentences is kept."""
    from ufal import udpipe as ud  # type: ignore[import-not-found]

    def sentences(blocks: list[str]) -> Any:
        found, reader, error = ud.Sentences(), ud.InputFormat.newConlluInputFormat(), ud.ProcessingError()
        reader.setText("\n\n".join(blocks) + "\n\n")
        sentence = ud.Sentence()
        while reader.nextSentence(sentence, error):
            found.append(sentence)
            sentence = ud.Sentence()
        return found

    held_out, error = len(train) // 10, ud.ProcessingError()
    parts = sentences(train[held_out:]), sentences(train[:held_out])
    model = ud.Trainer.train("morphodita_parsito", *parts, "none", UDPIPE, "none", error)
    if error.occurred():
        raise SystemExit(error.message)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(model if isinstance(model, bytes) else model.encode("utf-8", "surrogateescape"))
        loaded = ud.Model.load(file.name)  # must live as long as the pipeline
        pipeline = ud.Pipeline(loaded, "conllu", "tag", "none", "conllu")
        tagged = pipeline.process("".join(map(stripped, test)))
        return [words(block) for block in tagged.split("\n\n") if block.strip()], Path(file.name).stat().st_size


def spacy(train: list[str], test: list[str], given: argparse.Namespace) -> tuple[list[Words], int]:
    """Trains a blank pipeline with the defaults of `spacy init config` for a CPU."""
    import spacy  # type: ignore[import-not-found]
    from spacy.cli.init_config import init_config  # type: ignore[import-not-found]
    from spacy.tokens import Doc  # type: ignore[import-not-found]
    from spacy.training import Example  # type: ignore[import-not-found]

    spacy.util.fix_random_seed(given.seed)
    pipes = ["tagger", "morphologizer", "trainable_lemmatizer"]
    config = init_config(lang="xx", pipeline=pipes, optimize="efficiency")
    nlp = spacy.util.load_model_from_config(config)

    def plain(rows: Words) -> Any:
        return Doc(nlp.vocab, words=[row[FORM] for row in rows])

    def annotated(rows: Words) -> Any:
        _, forms, lemmas, pos, tags, feats = ([row[i] for row in rows] for i in range(6))
        morphs = ["" if each == "_" else each for each in feats]
        return Doc(nlp.vocab, words=forms, tags=tags, pos=pos, morphs=morphs, lemmas=lemmas)

    def said(blocks: list[Words]) -> list[Words]:
        docs = nlp.pipe(map(plain, blocks))
        return [[["", w.text, w.lemma_, w.pos_, w.tag_, str(w.morph) or "_"] for w in doc] for doc in docs]

    rows = [words(sentence) for sentence in train]
    held_out, rest = rows[: len(rows) // 10], rows[len(rows) // 10 :]
    examples = [Example(plain(each), annotated(each)) for each in rest]
    optimizer = nlp.initialize(lambda: examples)
    best, best_epoch, kept = -1.0, 0, b""
    for epoch in range(EPOCHS):
        random.Random(epoch).shuffle(examples)
        for start in range(0, len(examples), BATCH):
            nlp.update(examples[start : start + BATCH], sgd=optimizer)
        found = scores(said(held_out), held_out)
        if (value := found["AllTags"] + found["Lemmas"]) > best:
            best, best_epoch, kept = value, epoch, nlp.to_bytes()
        if epoch - best_epoch >= PATIENCE:
            break
    nlp.from_bytes(kept)
    return said([words(sentence) for sentence in test]), len(kept)


METHODS = {"electra": electra, "udpipe": udpipe, "spacy": spacy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--encoder", default="")
    parser.add_argument("--head", default="auto")
    given = parser.parse_args()
    train, test = read(given.train), read(given.test)
    drawn = random.Random(given.seed).sample(train, given.size or len(train))
    began = time.monotonic()
    found, size = METHODS[given.method](drawn, test, given)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = {
        "seconds": time.monotonic() - began,
        "cpu": sum(each.ru_utime + each.ru_stime for each in used),
    }
    values = scores(found, [words(sentence) for sentence in test])
    record = {"method": given.method, "train": given.train.parts[-3], "size": given.size, "seed": given.seed}
    shown = {name: round(value, 1) for name, value in seconds.items()}
    print(json.dumps({**record, **values, **shown, "bytes": size}))


if __name__ == "__main__":
    main()
