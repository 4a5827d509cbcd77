"""spaCy's convolutional networks as the peer of a tagger, of entities or of a text classifier.

    python benchmarks/peers_spacy.py train.conll test.conll [--entities] [--seed N]
    python benchmarks/peers_spacy.py train.jsonl test.jsonl [--matthews]

Needs spacy, and nothing of this project: a blank pipeline with the defaults of `spacy init config` for a CPU,
trained on the rows until a tenth of them, held out, gains nothing for 10 epochs. The two texts of a pair are
joined. Prints a line of JSON: the score, the epochs, the bytes of the pipeline, and the seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import spacy  # type: ignore[import-not-found]
from crf import entities, read
from sklearn.metrics import accuracy_score, matthews_corrcoef
from spacy.cli.init_config import init_config  # type: ignore[import-not-found]
from spacy.tokens import Doc  # type: ignore[import-not-found]
from spacy.training import Example, biluo_tags_to_spans, iob_to_biluo  # type: ignore[import-not-found]

PATIENCE, EPOCHS, BATCH = 10, 60, 16


def documents(nlp: Any, path: Path, pipe: str) -> list[Any]:
    """Returns the rows of a file as annotated documents."""
    if pipe == "textcat":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        labels = sorted({row["label"] for row in rows})
        found = []
        for row in rows:
            doc = nlp.make_doc(" | ".join(text for name, text in row.items() if name != "label"))
            doc.cats = {label: float(label == row["label"]) for label in labels}
            found.append(doc)
        return found
    found = []
    for words, tags in read(path):
        doc = Doc(nlp.vocab, words=words, tags=tags if pipe == "tagger" else None)
        if pipe == "ner":
            doc.ents = biluo_tags_to_spans(doc, iob_to_biluo(tags))
        found.append(doc)
    return found


def tags_of(doc: Any) -> list[str]:
    """Returns the BIO tags of a document's entities."""
    return [word.ent_iob_ + f"-{word.ent_type_}" * (word.ent_iob_ != "O") for word in doc]


def score(nlp: Any, docs: list[Any], pipe: str, matthews: bool) -> float:
    """Returns the accuracy of tags or texts, the Matthews correlation, or the F1 of entities."""
    if pipe == "textcat":
        said = [max(doc.cats, key=doc.cats.get) for doc in nlp.pipe(doc.text for doc in docs)]
        gold = [max(doc.cats, key=doc.cats.get) for doc in docs]
        return float((matthews_corrcoef if matthews else accuracy_score)(gold, said))
    pairs = list(zip(nlp.pipe(Doc(nlp.vocab, words=[t.text for t in doc]) for doc in docs), docs, strict=True))
    if pipe == "tagger":
        same = [a.tag_ == b.tag_ for one, gold in pairs for a, b in zip(one, gold, strict=True)]
        return float(sum(same) / len(same))
    spans = [(entities(tags_of(one)), entities(tags_of(gold))) for one, gold in pairs]
    return 2 * sum(len(a & b) for a, b in spans) / max(1, sum(len(a) + len(b) for a, b in spans))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--entities", action="store_true")
    parser.add_argument("--matthews", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    spacy.util.fix_random_seed(given.seed)
    pipe = "textcat" if given.train.suffix == ".jsonl" else "ner" if given.entities else "tagger"
    nlp = spacy.util.load_model_from_config(init_config(lang="xx", pipeline=[pipe], optimize="efficiency"))
    docs, began = documents(nlp, given.train, pipe), time.monotonic()
    random.Random(given.seed).shuffle(docs)
    held_out, rest = docs[: len(docs) // 10], docs[len(docs) // 10 :]
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in rest]
    if pipe != "textcat":
        examples = [Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in rest]
    optimizer = nlp.initialize(lambda: examples)
    best, best_epoch, kept = -1.0, 0, b""
    for epoch in range(EPOCHS):
        random.Random(epoch).shuffle(examples)
        for start in range(0, len(examples), BATCH):
            nlp.update(examples[start : start + BATCH], sgd=optimizer)
        value = score(nlp, held_out, pipe, given.matthews)
        if value > best:
            best, best_epoch, kept = value, epoch, nlp.to_bytes()
        if epoch - best_epoch >= PATIENCE:
            break
    nlp.from_bytes(kept)
    result = score(nlp, documents(nlp, given.test, pipe), pipe, given.matthews)
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"score": round(result, 4), "epochs": epoch + 1, "bytes": len(kept), "seconds": seconds}))


if __name__ == "__main__":
    main()
