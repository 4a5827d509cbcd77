"""Write a coarse part of speech for each word of an OCR text: that of the word of the truth, by a linear tagger.

python tags.py OCR.jsonl.gz UD-FOLDER OUT.txt
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

sys.path.insert(0, str(Path(__file__).parent))
from aligned import SAME, read

COARSE = {
    "NOUN": "noun",
    "PROPN": "name",
    "VERB": "verb",
    "ADJ": "adjective or adverb",
    "ADV": "adjective or adverb",
    "NUM": "number",
}
FUNCTION, NONE = "function word", "none"  # none: the truth has no word there


def sentences(path: Path) -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = [[]]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            cells = line.rstrip("\n").split("\t")
            if len(cells) < 4:
                found.append([])
            elif cells[0].isdigit():
                found[-1].append((cells[1], cells[3]))
    return [sentence for sentence in found if sentence]


def features(words: list[str], i: int) -> list[str]:
    word, low = words[i], words[i].lower()
    shape = re.sub(r"(.)\1+", r"\1", re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "0", word))))
    parts = [f"w={low}", f"shape={shape}", f"p={low[:2]}", *(f"s{n}={low[-n:]}" for n in (1, 2, 3, 4))]
    for step in (-2, -1, 1, 2):
        near = words[i + step].lower() if 0 <= i + step < len(words) else "-"
        parts += [f"{step}={near}", f"{step}s={near[-3:]}"]
    return [*parts, f"-1w={words[i - 1].lower() if i else '-'} {low}"]


def main(data: Path, treebank: Path, out: Path) -> None:
    tagger = make_pipeline(FeatureHasher(2**20, input_type="string"), SGDClassifier(alpha=3e-6, random_state=0))
    parts = {part: sentences(treebank / f"{part}.conllu.gz") for part in ("train", "test")}
    rows = {
        part: (
            [features([w for w, _ in s], i) for s in found for i in range(len(s))],
            [t for s in found for _, t in s],
        )
        for part, found in parts.items()
    }
    tagger.fit(*rows["train"])
    print(f"accuracy on the treebank's test part: {tagger.score(*rows['test']):.3f}")
    _, truths, words = read(data)
    tag_at: list[dict[int, str]] = []
    for truth in truths:
        spans = [m.span() for m in re.finditer(r"[\w'-]+|[^\w\s]", truth.translate(SAME))]
        tokens = [truth[slice(*span)] for span in spans]
        found = tagger.predict([features(tokens, i) for i in range(len(tokens))])
        tag_at.append({i: tag for span, tag in zip(spans, found, strict=True) for i in range(*span)})
    tags = [NONE if w.truth_start < 0 else COARSE.get(tag_at[w.chunk].get(w.truth_start, ""), FUNCTION) for w in words]
    out.write_text("".join(f"{tag}\n" for tag in tags))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
