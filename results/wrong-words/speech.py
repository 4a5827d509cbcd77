"""Re-rank the n-best lists of a speech recogniser with scores of sentences.

python speech.py LISTS.jsonl.gz OUT NAME MODEL [language-model]    # writes OUT/NAME-*.txt: a score a hypothesis
python speech.py LISTS.jsonl.gz OUT ngrams TEXTS
python speech.py LISTS.jsonl.gz OUT table                          # prints word error rates

The first HYPOTHESES of each list are used. Weights are tuned on the utterances of half of the speakers; errors
are those of the other half.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

HYPOTHESES = 10
LEFT_OUT = ("1255-138279",)  # a chapter of one of the 100 novels
RESAMPLES = 1000


def utterances(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    kept = [row for row in rows if not row["id"].startswith(LEFT_OUT)]
    for row in kept:
        row["hyps"] = row["hyps"][:HYPOTHESES]
    return kept


def model_scores(name: str, kind: str, texts: list[str]) -> dict[str, list[float]]:
    from electra.exchange.load import load, load_language_model
    from electra.exchange.source import locate
    from electra.laboratory.analysis.scoring.scorers import sentence_scores

    loaded = (
        load(name)
        if kind == "discriminator"
        else load_language_model(locate(name)) or load(name, "generator")
    )
    readings = ["original-mean", "original"] if kind == "discriminator" else ["pll"]
    unique = sorted(set(texts))
    found = sentence_scores(loaded, unique, readings)
    at = {text: i for i, text in enumerate(unique)}
    index = [at[text] for text in texts]
    return {reading: list(values[index]) for reading, values in found.items()}


def ngram_scores(texts: list[str], folder: Path) -> dict[str, list[float]]:
    from scores import Language, codes

    language = Language(folder)
    model = language.characters
    characters = [model.log_p(model.windows(codes(" " * 5 + text + " "))).sum() for text in texts]
    words = [-language.trigrams(text.split()).sum() for text in texts]
    unknown = [
        sum(-language.spelling([word]).sum() for word in text.split() if word not in language.ids)
        for text in texts
    ]
    return {
        "6-gram": characters,
        "trigram": words,
        "spelled": [w + u for w, u in zip(words, unknown, strict=True)],
    }


def table(path: Path, out: Path) -> None:
    from electra.laboratory.analysis.measures import nbest

    rows = utterances(path)
    lists = nbest.make_lists([(row["ref"], [hyp["text"] for hyp in row["hyps"]]) for row in rows])
    ends = np.cumsum([len(row["hyps"]) for row in rows])[:-1]
    column = {
        name: nbest.pad([[hyp[name] for hyp in row["hyps"]] for row in rows])
        for name in ("score", "decoder", "ctc", "lm")
    }
    flat = {name: values[lists.present] for name, values in column.items()}
    mix = nbest.recogniser_weights(flat, "score")
    acoustic = mix["decoder"] * column["decoder"] + mix["ctc"] * column["ctc"]
    speakers = sorted({row["id"].split("-")[0] for row in rows})
    dev = np.array([row["id"].split("-")[0] in speakers[::2] for row in rows])
    scores = {f.stem: nbest.pad(np.split(np.loadtxt(f), ends)) for f in sorted(out.glob("*.txt"))}
    scores["recogniser's own language model"] = column["lm"]
    chosen = {"first hypothesis": lists.errors[:, 0].astype(float)}
    unit = {
        name: values / nbest.spread_within_lists(values, lists.present) for name, values in scores.items()
    }
    base = unit["recogniser's own language model"]
    for name, values in unit.items():
        if values is not base:
            for share in (0.25, 0.5, 1.0):
                scores[f"own language model + {share} {name}"] = base + share * values
    for name in [
        n
        for n in unit
        if "trigram" not in n and "spelled" not in n and "6-gram" not in n and unit[n] is not base
    ]:
        for share in (0.25, 0.5, 1.0) if "ngrams-spelled" in unit else ():
            scores[f"trigram + {share} {name}"] = unit["ngrams-spelled"] + share * unit[name]
    tuned = {}
    for name, score in {"no language model": None, **scores}.items():
        weights = nbest.tune(lists, acoustic, score, dev)
        total = acoustic + weights.word_bonus * lists.words + (0 if score is None else weights.score * score)
        chosen[name], tuned[name] = lists.chosen_errors(total), weights
    chosen["oracle"] = lists.oracle_errors().astype(float)
    draw, words = np.random.default_rng(0), lists.reference_words.astype(float)
    groups = np.array([row["id"].split("-")[0] for row in rows])
    test_speakers = sorted(set(groups[~dev]))
    per = {s: np.flatnonzero(groups == s) for s in test_speakers}
    sums = {n: np.array([e[per[s]].sum() for s in test_speakers]) for n, e in chosen.items()}
    total_words = np.array([words[per[s]].sum() for s in test_speakers])
    picks = draw.integers(len(test_speakers), size=(RESAMPLES, len(test_speakers)))
    reference = sums["no language model"]
    print(f"{path.name}: {int(dev.sum())} utterances to tune, {int((~dev).sum())} to test")
    for name, each in sums.items():
        dev_rate = 100 * chosen[name][dev].sum() / words[dev].sum()
        gains = 100 * (reference - each)[picks].sum(1) / total_words[picks].sum(1)
        low, high = np.quantile(gains, [0.025, 0.975])
        rate = 100 * each.sum() / total_words.sum()
        print(
            f"{name:45} dev {dev_rate:.2f} test {rate:.2f} gain {100 * (reference - each).sum() / total_words.sum():.2f} [{low:.2f}, {high:.2f}] {tuned.get(name, '')}"
        )


def main(path: Path, out: Path, name: str, *rest: str) -> None:
    if name == "table":
        return table(path, out)
    texts = [hyp["text"].lower() for row in utterances(path) for hyp in row["hyps"]]
    if name == "ngrams":
        found = ngram_scores(texts, Path(rest[0]))
    else:
        found = model_scores(rest[0], rest[1] if len(rest) > 1 else "discriminator", texts)
    out.mkdir(parents=True, exist_ok=True)
    for score, values in found.items():
        (out / f"{name}-{score}.txt").write_text("".join(f"{value:.3f}\n" for value in values))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
