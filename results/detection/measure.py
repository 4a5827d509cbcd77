"""Fits and measures the scorers of `electra detect`; writes detection.json of the included models.

    python results/detection/measure.py fit MODEL brown.jsonl.gz    # prints the record
    python results/detection/measure.py score MODEL sentences-a.txt [SCORER]
    python results/detection/measure.py spoil DATA OUT              # texts with real errors, for the next
    python results/detection/measure.py kinds OUT MODEL [RECORD]    # by kind of error, with intervals

`fit`: of 6,000 sentences of the Brown corpus, half get errors in a twentieth of their words; half of
these are what `both` is fitted on, the rest compares the scorers, and the clean half gives the thresholds.
`score`: precision and recall at the default threshold on sentences in which {wrong|right|kind} is an error.
`spoil`: in other texts, 3 % of the words get errors that scanners and recognisers made elsewhere (DATA: the
shared data sets); and what a scanner and a recogniser read is kept as it is.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

import electra
from electra.artifacts.model_files import ModelFolder
from electra.inference.detector import Calibration, Curve, Detector, curve_of

sys.path.insert(0, str(Path(__file__).parents[1] / "wrong-words"))
KINDS = ("nonword", "realword", "speech")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Letters that a scanner confuses, in both directions
_ALIKE = "rn m;cl d;vv w;ri n;li h;in m;h b;e c;l i;u n;f t;l t;o c;a o;s a;g q;y v;f l;ii n;nn m;t r;e o"
CONFUSIONS = [pair for each in _ALIKE.split(";") for pair in (each.split(), each.split()[::-1])]
# What is not heard, and what sounds alike, at the start of a word or anywhere
_SOUNDS = (
    "^[kg]n=n ^wr=r ^wh=w gh(?=t|$)= ph=f mb$=m tch|[sc]h|ti(?=on)|ci(?=a|ou)=X th=0 dg|j|g(?=[ei])=J "
    "c(?=[eiy])=s x=ks ck|c|q=k z=s"
)
SOUNDS = [part.rsplit("=", 1) for part in _SOUNDS.split()]
OCR, MNLI = "ocr/icdar2017-en.jsonl.gz", "glue/mnli/dev-4908.jsonl.gz"
NEWS = "chunking/conll2000/test.txt.gz"
SPEECH = [f"asr-nbest/librispeech-dev-{part}.jsonl.gz" for part in ("clean", "other")]
_WORD = re.compile(r"[^\W\d_]+")
Spoilt = list[tuple[str, dict[int, str]]]  # texts, and the kinds of the errors that begin at these offsets


def sound(word: str) -> str:
    """Returns the consonants that are heard; words that sound alike share them."""
    for letters, heard in SOUNDS:
        word = re.sub(letters, heard, word)
    head = "A" if word[:1] in "aeiou" else word[:1]
    return re.sub(r"(.)\1+", r"\1", head + re.sub("[aeiouywh]", "", word[1:]))


class Errors:
    """Makes up errors: letters that look alike, typing errors, words one letter away, homophones."""

    def __init__(self) -> None:
        tokenizer = electra.load("small-en", device="cpu").encoder.tokenizer
        tokens = [tokenizer.readable(i) for i in range(tokenizer.vocab_size) if not tokenizer.continues[i]]
        self.words = {word for word in tokens if re.fullmatch("[a-z]{2,}|[ai]", word)}
        self.alike = defaultdict(list)
        for word in sorted(self.words):
            self.alike[sound(word)].append(word)

    def __call__(self, word: str, kind: str, rng: np.random.Generator) -> list[str]:
        near = {
            f"{word[:i]}{new}{word[i + n :]}" for i in range(len(word) + 1) for n in (0, 1) for new in ["", *LETTERS]
        }
        near |= {word[:i] + word[i : i + 2][::-1] + word[i + 2 :] for i in range(len(word))}
        if kind == "speech":
            return [each for each in self.alike[sound(word)] if each != word and len(set(each) & set(word)) > 1]
        if kind == "realword":
            return sorted(near & self.words - {word})
        seen = [word[: m.start()] + b + word[m.end() :] for a, b in CONFUSIONS for m in re.finditer(a, word)]
        seen = [each for each in seen if each not in self.words]
        return seen if seen and rng.random() < 0.6 else sorted(near - self.words - {""})


def with_errors(texts: list[str], errors: Any, words: set[str], *, share: float, seed: int) -> Spoilt:
    """Puts errors of the three kinds in turn into a share of the words that are in a list."""
    rng, changed, turn = np.random.default_rng(seed), [], 0
    for text in texts:
        new, position, starts = "", 0, dict[int, str]()
        for match in _WORD.finditer(text):
            word, kind = match[0], KINDS[turn % 3]
            beside = text[match.start() - 1 : match.start()] + text[match.end() : match.end() + 1]
            found: list[str] = []
            if rng.random() < share and len(word) > 1 and word.lower() in words and "'" not in beside:
                found = errors(word.lower(), kind, rng)
            new += text[position : match.start()]
            if found:
                wrong, turn = str(found[rng.integers(len(found))]), turn + 1
                starts[len(new)] = kind
                word = wrong.capitalize() if word[0].isupper() else wrong
            new, position = new + word, match.end()
        changed.append((new + text[position:], starts))
    return changed


def untokenized(words: list[str]) -> str:
    text = " ".join(words).replace("``", '"').replace("''", '"')
    text = re.sub(r"([($]) ", r"\1", re.sub(r" ([,.;:?!%)])", r"\1", text))
    return re.sub(r" (n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1", text)


def sentences(path: str, count: int = 6000) -> list[str]:
    """Returns sentences of the Brown corpus, twelve of each of its 500 samples."""
    rng, found = np.random.default_rng(1), list[str]()
    for document in gzip.open(path, "rt", encoding="utf-8"):
        lines = [untokenized(line.split()) for line in json.loads(document)["text"].split("\n")]
        lines = [line for line in lines if 8 <= len(line.split()) <= 40]
        found += [lines[i] for i in rng.permutation(len(lines))[: count // 500]]
    return [found[i] for i in rng.permutation(len(found))]


def labelled(detector: Detector, spoilt: Spoilt) -> tuple[Any, Any, Any]:
    """Returns the features [N, F] of all words, their kinds ("" is no error), and the texts they are in."""
    rows, kinds, texts = [], [], []
    for index, ((starts, found), (_, at)) in enumerate(
        zip(detector.words(text for text, _ in spoilt), spoilt, strict=True)
    ):
        rows.append(found)
        kinds += [at.get(start, "") for start in starts]
        texts += [index] * len(starts)
    return np.concatenate(rows), np.array(kinds), np.array(texts)


def fit(name: str, path: str) -> None:
    curves: dict[str, Curve] = {}
    precision: dict[str, float] = {}
    model, texts, errors = electra.load(name, device="cpu"), sentences(path), Errors()
    reader = electra.load("tiny-en", device="cpu").language_model
    record = Calibration(
        language_model="tiny-en" * (name == "small-en"), text=f"{len(texts):,} sentences of the Brown corpus"
    )
    detector = Detector("both", model.network("discriminator"), reader, record)
    clean = np.concatenate([rows for _, rows in detector.words(texts[::2])])
    spoilt = with_errors(texts[1::2], errors, errors.words, share=0.05, seed=0)
    rows, kinds, of_text = labelled(detector, spoilt)
    test, wrong = of_text % 2 == 1, kinds != ""
    print({kind: int((kinds == kind).sum()) for kind in KINDS}, len(kinds), file=sys.stderr)
    model = LogisticRegression(C=10, fit_intercept=False, max_iter=1000)
    weights = model.fit(rows[~test], wrong[~test]).coef_[0]
    record = dataclasses.replace(record, weights=tuple(weights.round(4).tolist()), words=len(clean))
    detector = dataclasses.replace(detector, calibration=record)
    scorers: tuple[Any, ...] = ("discriminator", "language-model", "both")
    for scorer in scorers:
        curve = curve_of(detector.scores(scorer, clean), detector.scores(scorer, rows[wrong]))
        columns = {name: tuple(round(x, 8) for x in each) for name, each in vars(curve).items()}
        curves[scorer] = Curve(**columns)
        precision[scorer] = average_precision_score(wrong[test], detector.scores(scorer, rows[test]))
    best: Any = max(precision, key=precision.__getitem__)
    print(json.dumps(dataclasses.asdict(dataclasses.replace(record, scorer=best, curves=curves))))
    print({name: round(float(p), 3) for name, p in precision.items()}, weights, file=sys.stderr)


def score(name: str, path: str, scorer: Any = "auto") -> None:
    texts, errors = [], []
    for line in open(path):
        parts: list[str] = re.split(r"\{(\w+)\|(\w+)\|(\w+)\}", line.strip())
        starts = {sum(map(len, parts[:i:4])) + sum(map(len, parts[1:i:4])): i for i in range(1, len(parts), 4)}
        errors.append({start: (parts[i + 1], parts[i + 2]) for start, i in starts.items()})
        texts.append("".join(part for i, part in enumerate(parts) if i % 4 < 2))
    began = time.perf_counter()
    found = electra.load(name, device="cpu").detect(texts, scorer=scorer, near=True)
    seconds, outcomes, first, top = time.perf_counter() - began, [], 0, 0
    for each, wrong in zip(found, errors, strict=True):
        suggested = dict(zip(each.marked, each.suggestions, strict=False))
        for word in each.words:
            if word.text[0].isalnum():
                right, kind = wrong.get(word.start, ("", ""))
                outcomes.append((word.p_replaced, word in each.marked, kind))
                words = [each.token for each in suggested.get(word, ())] if kind else []
                first, top = first + (words[:1] == [right]), top + (right in words)
    p, marked, kinds = map(np.array, zip(*outcomes, strict=True))
    hits = marked & (kinds != "")
    by_kind = {str(kind): f"{n} of {Counter(kinds)[kind]}" for kind, n in Counter(kinds[hits]).items()}
    print(f"{name} {scorer} {path}: threshold {found[0].threshold:.3f}, {marked.sum()} of {len(p)} words marked")
    print(f"precision {hits.sum() / max(1, marked.sum()):.2f}, recall {hits.sum() / (kinds != '').sum():.2f},")
    print(f"average precision {average_precision_score(kinds != '', p):.3f}; found {by_kind};")
    print(f"the right word suggested first {first}, among three {top}, of {hits.sum()}; {seconds:.1f} s")


class RealErrors:
    """Errors that a scanner and a recogniser made elsewhere: parts of words, and whole words."""

    def __init__(self, data: Path, words: set[str]) -> None:
        import aligned
        from rapidfuzz.distance import Levenshtein

        self.words, self.heard, seen = words, defaultdict[str, set[str]](set), Counter[tuple[str, str]]()
        pairs = {(w.truth.lower(), w.text.lower()) for w in aligned.read(data / OCR)[2] if w.kind == "word"}
        for truth, read in pairs:
            if not (truth.isalpha() and read.isalpha() and Levenshtein.normalized_similarity(truth, read) >= 0.5):
                continue
            for step in Levenshtein.opcodes(truth, read):
                left, right = int(step.src_start), int(step.dest_start)
                if step.tag != "equal" and left and right:  # with the letter before, which is often the same
                    seen[truth[left - 1 : step.src_end], read[right - 1 : step.dest_end]] += 1
        self.seen = [pair for pair, count in seen.items() if count > 1 and max(map(len, pair)) < 4]
        for utterance in (each for path in SPEECH for each in json_lines(data / path)):
            truth, heard = utterance["ref"].lower().split(), utterance["hyps"][0]["text"].lower().split()
            for step in Levenshtein.opcodes(truth, heard):
                if step.tag == "replace" and step.src_end - step.src_start == step.dest_end - step.dest_start == 1:
                    one, other = truth[step.src_start], heard[step.dest_start]
                    if other in words and _american(one) != _american(other):
                        self.heard[one].add(other)

    def __call__(self, word: str, kind: str, rng: np.random.Generator) -> list[str]:
        if kind == "speech":
            return sorted(self.heard.get(word, ()))
        read = {word[: m.start()] + b + word[m.end() :] for a, b in self.seen for m in re.finditer(a, word)}
        return sorted(each for each in read - {word} if (each in self.words) == (kind == "realword"))


def _american(word: str) -> str:
    return re.sub("our", "or", re.sub("is(?=[ei])", "iz", re.sub(r"(.)\1", r"\1", word)))


def json_lines(path: Path) -> list[Any]:
    """Returns the values of a compressed file with a JSON value a line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def spoil(data: str, out: str) -> None:
    """Writes texts with errors of known kinds: made ones in clean text, and what was read and heard."""
    import aligned
    from rapidfuzz.distance import Levenshtein

    folder, rng, words = Path(data), np.random.default_rng(3), Errors().words
    errors, sets = RealErrors(folder, words), dict[str, Spoilt]()
    premises = sorted({each["premise"].strip() for each in json_lines(folder / MNLI)})
    news = gzip.open(folder / NEWS, "rt").read().split("\n\n")
    clean = {"mnli": [each for each in premises if each[:1].isupper() and each[-1:] in ".!?"]}
    clean["news"] = [untokenized([line.split()[0] for line in each.splitlines()]) for each in news]
    for name, texts in clean.items():
        texts = [each for each in texts if 8 <= len(each.split()) <= 40]
        texts = [texts[i] for i in rng.permutation(len(texts))[:700]]
        sets[name] = with_errors(texts, errors, words, share=0.045, seed=21)
    read, _, found = aligned.read(folder / OCR)
    sets["scanned"] = [(text, {}) for text in read[:40]]
    for word in found:
        kind = ("nonword", "realword")[word.text.lower() in words] if word.kind == "word" else word.kind
        if kind != "correct" and word.chunk < 40:
            sets["scanned"][word.chunk][1][word.start] = kind
    sets["heard"] = []
    utterances = json_lines(folder / SPEECH[1])
    for each in (utterances[i] for i in rng.permutation(len(utterances))[:700]):
        truth, heard = each["ref"].lower().split(), each["hyps"][0]["text"].lower().split()
        steps = [step for step in Levenshtein.opcodes(truth, heard) if step.tag in ("replace", "insert")]
        wrong = {i for step in steps for i in range(step.dest_start, step.dest_end)}
        sets["heard"].append((" ".join(heard), {len(" ".join(heard[:i])) + (i > 0): "speech" for i in wrong}))
    Path(out).mkdir(exist_ok=True)
    for name, texts in sets.items():
        rows = (json.dumps({"text": text, "errors": at}, ensure_ascii=False) + "\n" for text, at in texts)
        (Path(out) / f"{name}.jsonl").write_text("".join(rows))


def kinds(out: str, name: str, *records: str) -> None:
    """Prints precision, recall and average precision at the default threshold, by kind of error."""
    detector = electra.load(name, device="cpu").detector("both")
    detectors = {"now": detector}
    for path in map(Path, records):  # detection.json, such as that of an earlier version
        folder = Path(path).with_suffix("")
        folder.mkdir(exist_ok=True)
        (folder / "detection.json").write_text(path.read_text())
        old = Calibration.of(ModelFolder(folder))
        detectors[path.stem] = dataclasses.replace(detector, calibration=old)
    for path in sorted(Path(out).glob("*.jsonl")):
        texts = [json.loads(line) for line in path.read_text().splitlines()]
        spoilt = [(each["text"], {int(at): kind for at, kind in each["errors"].items()}) for each in texts]
        rows, found, of_text = labelled(detector, spoilt)
        for version, each in detectors.items():
            scores, threshold = each.scores("both", rows), each.marking().threshold
            rng, sizes = np.random.default_rng(0), Counter(of_text.tolist())
            starts = np.searchsorted(of_text, np.arange(len(spoilt)))
            draws = [np.arange(len(scores))]
            for _ in range(200):
                texts_drawn = rng.integers(len(spoilt), size=len(spoilt)).tolist()
                draws.append(np.concatenate([np.arange(starts[i], starts[i] + sizes[i]) for i in texts_drawn]))
            columns = np.array([_numbers(scores[i] >= threshold, scores[i], found[i]) for i in draws])
            low, high = np.nanpercentile(columns[1:], [2.5, 97.5], axis=0)
            cells = (f"{x:.3f} [{a:.3f}, {b:.3f}]" for x, a, b in zip(columns[0], low, high, strict=True))
            print(path.stem, name, version, f"{(found != '').mean():.3f} wrong", *cells, sep=" | ")


def _numbers(marked: Any, scores: Any, found: Any) -> list[float]:
    """Returns precision, recall, average precision, false alarms, and the recall of each kind."""
    wrong = found != ""
    shares = [
        wrong[marked].mean(),
        marked[wrong].mean(),
        average_precision_score(wrong, scores),
        marked[~wrong].mean(),
    ]
    return [*shares, *(marked[found == kind].mean() if (found == kind).any() else np.nan for kind in KINDS)]


if __name__ == "__main__":
    {"fit": fit, "score": score, "spoil": spoil, "kinds": kinds}[sys.argv[1]](*sys.argv[2:])
