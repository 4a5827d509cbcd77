"""In how many of 400 sentences of the Brown corpus a model finds the word that was replaced by a random one.

python replaced.py BROWN.jsonl.gz MODEL[@SCORER] ...

The replacement occurs 8 to 400 times in the corpus, like the word that it replaces.
"""

import gzip
import json
import random
import re
import sys
from collections import Counter

import electra

SENTENCES = 400


def replaced(path: str) -> list[tuple[str, str]]:
    """Returns sentences with a replaced word, and that word."""
    rng = random.Random(7)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentences = [line.split() for row in map(json.loads, file) for line in row["text"].split("\n")]
    counts = Counter(word for words in sentences for word in words if re.fullmatch("[a-z]{4,}", word))
    pool = sorted(word for word, count in counts.items() if 8 <= count <= 400)
    plain = [
        words
        for words in sentences
        if 6 <= len(words) <= 16 and words[-1] == "." and all(re.fullmatch(r"[A-Za-z]+|[.,]", word) for word in words)
    ]
    rng.shuffle(plain)
    chosen: list[tuple[str, str]] = []
    known = set(pool)
    for words in plain:
        places = [place for place, word in enumerate(words) if place and word in known]
        if not places:
            continue
        place, word = rng.choice(places), rng.choice(pool)
        if word in words:
            continue
        text = " ".join([*words[:place], word, *words[place + 1 :]])
        chosen.append((text.replace(" .", ".").replace(" ,", ","), word))
        if len(chosen) == SENTENCES:
            break
    return chosen


examples = replaced(sys.argv[1])
for name in sys.argv[2:]:
    source, _, scorer = name.partition("@")
    ranks = []
    detections = electra.load(source).detect([text for text, _ in examples], scorer=scorer or "auto")  # type: ignore[arg-type]
    for (_, word), found in zip(examples, detections, strict=True):
        words = sorted(found.words, key=lambda suspect: -suspect.p_replaced)
        ranks.append([suspect.text.lower().strip(".,") for suspect in words].index(word))
    first, two = (sum(rank < limit for rank in ranks) for limit in (1, 2))
    print(f"{name}: first {first}, first or second {two}, of {len(ranks)}", flush=True)
