"""Re-rank the n-best lists of a speech recogniser with scores of sentences.

python speech.py LISTS.jsonl.gz OUT NAME MODEL [language-model]    # writes OUT/NAME-*.txt: a score a hypothesis
python speech.py LISTS.jsonl.gz OUT ngrams TEXTS
python speech.py LISTS.jsonl.gz OUT table                          # prints word error rates

The first HYPOTHESES of every other list are used. Weights are tuned on the utterances of half of the speakers; errors
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
from ngrams import Floats

HYPOTHESES = 5
EVERY = 2  # of the utterances
LEFT_OUT = ("1255-138279",)  # a chapter of one of the 100 novels
RESAMPLES = 1000
NONE, OWN = "no language model", "own language model"  # the recogniser's
SHARES = (0.0, 0.25, 0.5, 1.0)


def utterances(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    kept = [row for row in rows if not row["id"].startswith(LEFT_OUT)][::EVERY]
    for row in kept:
        row["hyps"] = row["hyps"][:HYPOTHESES]
    return kept


def model_scores(name: str, kind: str, texts: list[str]) -> dict[str, list[float]]:
    from electra.exchange.load import load, load_language_model
    from electra.exchange.source import locate
    from electra.laboratory.analysis.scoring.scorers import sentence_scores

    loaded = load(name) if kind == "discriminator" else load_language_model(locate(name)) or load(name, "generator")
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
        sum(-language.spelling([word]).sum() for word in text.split() if word not in language.ids) for text in texts
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
    scores[OWN] = column["lm"]
    words = lists.reference_words.astype(float)
    chosen = {"first hypothesis": lists.errors[:, 0].astype(float)}

    def decide(score: Floats | None) -> Floats:
        weights = nbest.tune(lists, acoustic, score, dev)
        total = acoustic + weights.word_bonus * lists.words + (0 if score is None else weights.score * score)
        return lists.chosen_errors(total)

    chosen[NONE] = decide(None)
    for name, score in scores.items():
        chosen[name] = decide(score)
    unit = {name: each / nbest.spread_within_lists(each, lists.present) for name, each in scores.items()}
    for name in [
        name for name in unit if name != OWN
    ]:  # beside the recogniser's own language model; the share is chosen on dev
        options = [decide(unit[OWN] + share * unit[name]) for share in SHARES]
        chosen[f"{name}, {OWN}"] = min(options, key=lambda errors: float(errors[dev].sum()))
    chosen["oracle"] = lists.oracle_errors().astype(float)
    groups = np.array([row["id"].split("-")[0] for row in rows])
    _, index = np.unique(groups[~dev], return_inverse=True)
    count = index.max() + 1
    weights = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)[:, index]
    print(f"{path.name}: {int(dev.sum())} utterances to tune on, {int((~dev).sum())} to test, {count} speakers")
    print("| chosen by | dev | test | gain over no language model |")
    for name, errors in chosen.items():
        at_dev, at_test = (100 * errors[part].sum() / words[part].sum() for part in (dev, ~dev))
        saved = (chosen[NONE] - errors)[~dev]
        low, high = np.quantile(100 * (weights @ saved) / (weights @ words[~dev]), [0.025, 0.975])
        gain = 100 * saved.sum() / words[~dev].sum()
        print(f"| {name} | {at_dev:.2f} | {at_test:.2f} | {gain:+.2f} [{low:+.2f}, {high:+.2f}] |")


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
