"""How much of a correction's gain is kept if only the texts, or lines, that need it most are sent?

    python benchmarks/worst_pages.py score tiny-en DATA.jsonl.gz SCORES.npz [--units 40]
    python benchmarks/worst_pages.py table DATA.jsonl.gz SCORES.npz CLEAN.jsonl.zst [--half 1] [--out OUT]

DATA: {"id", "ocr", "gold", "corrected": {team: text}} a line (HIPE-OCRepair 2026). Errors are those of the
task's scorer (hipe-ocrepair-scorer 0.9.9), in texts and in lines: the scan's, or pieces of 55 characters.
`table` prints each order's rank correlation with the true error rate and, for each team, the share of its
gain kept where half of the words are sent, and how many clean texts or lines were sent and spoiled. --half 1:
the units on which orders were chosen; --half 2: the others.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "results" / "wrong-words"))
SENT = 0.5  # of the words
CUT = 55  # characters of a line where the scan has none
BOOKS, CLEAN = 100, 30_000  # texts of clean text, and characters of each
NAMES = ("discriminator", "language-model", "both")


def read(path: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in gzip.decompress(Path(path).read_bytes()).splitlines()]
    teams = [team for team in rows[0]["corrected"] if all(team in row["corrected"] for row in rows)]
    return [row | {"corrected": {team: row["corrected"][team] for team in teams}} for row in rows]


def score(model: str, data: str, out: str, units: int) -> None:
    """Saves where each word is, and what each scorer of the model says of it."""
    import electra

    detector = electra.load(model).detector()
    texts = [row["ocr"].replace("\n", " ") for row in read(data)[:units]]
    found = [(unit, *each) for unit, each in enumerate(detector.words(texts))]
    rows = np.concatenate([rows for _, _, rows in found])
    np.savez_compressed(
        out,
        units=np.concatenate([[unit] * len(starts) for unit, starts, _ in found]),
        starts=np.concatenate([starts for _, starts, _ in found]),
        scores=np.stack([detector.scores(name, rows) for name in NAMES], 1),  # type: ignore[arg-type]
        rates=[detector.calibration.curves[name].false_alarms for name in NAMES],
        thresholds=[detector.calibration.curves[name].thresholds for name in NAMES],
    )


def cuts(text: str) -> list[int]:
    """Returns where the lines of a scan begin, and its end."""
    ends = [match.end() for match in re.finditer("\n", text)]
    if not ends:
        for match in re.finditer(" ", text):
            if match.end() - (ends[-1] if ends else 0) >= CUT:
                ends.append(match.end())
    return [0, *(end for end in ends if end < len(text)), len(text)]


def pieces(scan: str, other: str, at: Sequence[int]) -> list[str]:
    """Returns the parts of another text that are aligned with the lines of a scan."""
    from rapidfuzz.distance import Levenshtein

    ops, places = Levenshtein.opcodes(scan, other), [0]
    for cut in at[1:-1]:
        op = next(op for op in ops if op.src_start < cut <= op.src_end)
        places.append(op.dest_start + min(cut - op.src_start, op.dest_end - op.dest_start))
    places.append(len(other))
    return [other[start:end] for start, end in pairwise(places)]


def errors(gold: str, text: str) -> list[int]:
    """Returns hits, substitutions, deletions and insertions of characters, as the task counts them."""
    from hipe_ocrepair_scorer.ocrepair_eval import norm  # type: ignore[import-not-found]
    from jiwer import process_characters

    gold, text = norm(gold), norm(text)
    if not gold or not text:
        return [0, 0, len(gold), len(text)]
    found = process_characters(gold, text)
    return [found.hits, found.substitutions, found.deletions, found.insertions]


def parts(rows: list[dict[str, Any]], units: Sequence[int], by: str) -> list[dict[str, Any]]:
    """Returns units or lines: their place, words, and the errors of the scan and of each correction."""
    found = []
    for unit in units:
        scan, texts = rows[unit]["ocr"], rows[unit]["corrected"]
        at = cuts(scan) if by == "line" else [0, len(scan)]
        gold = pieces(scan, rows[unit]["gold"], at)
        others = {team: pieces(scan, text, at) for team, text in texts.items()}
        for i, (start, end) in enumerate(pairwise(at)):
            sent = {team: errors(gold[i], other[i]) for team, other in others.items()}
            part: dict[str, Any] = {
                "unit": unit,
                "start": start,
                "end": end,
                "words": len(scan[start:end].split()),
            }
            part |= {"text": scan[start:end], "ocr": errors(gold[i], scan[start:end])}
            found.append(part | {"sent": sent})
    return found


def orders(found: list[dict[str, Any]], scores: Any, clean: str) -> dict[str, Any]:
    """Returns the keys of each order, higher for more need."""
    from ngrams import KneserNey
    from scores import codes, plain

    position = scores["units"] * 10**6 + scores["starts"]
    places = [each["unit"] * 10**6 + np.array([each["start"], each["end"]]) for each in found]
    bounds = [np.searchsorted(position, each) for each in places]
    unit = np.array([each["unit"] for each in found])

    def mean(values: Any) -> Any:
        return np.array([values[a:b].mean() if b > a else 0.0 for a, b in bounds])

    keys: dict[str, Any] = {"chance": np.random.default_rng(0).random(len(found))}
    for i, name in enumerate(NAMES):
        p, rates, thresholds = scores["scores"][:, i], scores["rates"][i], scores["thresholds"][i]
        keys[f"{name}: marked at 1 %"] = mean(p >= np.interp(0.01, rates, thresholds))
        keys[f"{name}: score"] = mean(-np.log1p(-np.minimum(p, 1 - 1e-9)))
        own = mean(np.log(rates[-1]) - np.interp(-p, -thresholds, np.log(rates)))
        size = np.array([b - a for a, b in bounds])
        page = np.array([np.average(own[unit == u], weights=size[unit == u] + 1e-9) for u in unit])
        keys[f"{name}: suspicion"] = own
        keys[f"{name}: suspicion + page's"] = own + page
    text = plain(clean)
    seen, words = {*re.findall(r"\w+", text)}, [re.findall(r"\w+", plain(each["text"])) for each in found]
    unknown = [np.mean([word not in seen for word in each] or [False]) for each in words]
    keys["words that clean text lacks"] = np.array(unknown)
    model = KneserNey(codes(text), 6, 64)
    spelled = (codes(" " * 5 + plain(each["text"]) + " ") for each in found)
    keys["character 6-gram"] = np.array([-model.log_p(model.windows(each)).mean() for each in spelled])
    ocr = np.array([each["ocr"] for each in found])
    keys["true order"] = ocr[:, 1:].sum(1) / np.maximum(ocr.sum(1), 1)
    return keys


def gain(found: list[dict[str, Any]], keys: Any, team: str) -> tuple[float | None, int]:
    """Returns the share of a team's gain that is kept (None: it has none), and how many were spoiled."""
    ocr, new = np.array([[each["ocr"], each["sent"][team]] for each in found]).swapaxes(0, 1)
    order = np.argsort(-keys, kind="stable")
    words = np.array([each["words"] for each in found])
    is_sent = np.zeros(len(found), bool)
    is_sent[order[np.cumsum(words[order]) <= SENT * words.sum()]] = True

    def rate(mask: Any) -> float:
        total = np.where(mask[:, None], new, ocr).sum(0)
        return float(total[1:].sum() / total.sum())

    before, after = rate(~np.ones(len(found), bool)), rate(np.ones(len(found), bool))
    spoiled = is_sent & (ocr[:, 1:].sum(1) == 0) & (new[:, 1:].sum(1) > 0)
    return (before - rate(is_sent)) / (before - after) if before - after > 0.001 else None, int(spoiled.sum())


def table(data: str, path: str, clean: str, half: int, out: str) -> None:
    from scipy.stats import spearmanr

    from electra.data.tables.passages import read_passages

    rows, scores, records = read(data), np.load(path), {}
    known = {*scores["units"].tolist()}
    halves = np.array_split(np.random.default_rng(1).permutation(len(rows)), 2)
    units = [unit for unit in (halves[half - 1].tolist() if half else range(len(rows))) if unit in known]
    texts = islice((passage.text for passage in read_passages(Path(clean))), BOOKS)
    text = " ".join(each[:CLEAN] for each in texts)
    for by in ("unit", "line"):
        found = parts(rows, units, by)
        print(f"{by}s: {len(found)}; teams: {', '.join(found[0]['sent'])}")
        keys = orders(found, scores, text)
        for name, key in keys.items():
            kept = [gain(found, key, team) for team in found[0]["sent"]]
            rank = float(spearmanr(key, keys["true order"])[0])
            records[f"{by}: {name}"] = [rank, *kept]
            print(f"{name:36} {rank:.2f}", *(f"{'-' if k is None else f'{k:.0%}':>5} ({s})" for k, s in kept))
    if out:
        Path(out).write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["score", "table"])
    parser.add_argument("arguments", nargs=3)
    parser.add_argument("--units", type=int)
    parser.add_argument("--half", type=int, default=0)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    if options.what == "score":
        score(*[*options.arguments, options.units])
    else:
        table(*[*options.arguments, options.half, options.out])
