"""Floors: what needs no network, fitted to the same training examples and scored by the same metric. A model
that does not beat them has not shown that it learned anything.

majority       the most frequent answer: a class, each label by itself, the mean of the numbers, a tag
word counting  a pair: nine numbers of how much the two texts overlap; a single text: tf-idf of words and
               word pairs; either with logistic regression (ridge regression for numbers), whose strength
               is chosen by cross-validation on the training examples. Tags: the tag the word most often had

Pairs with a number also have the cosine of their vectors, by the encoder that is fine-tuned, before that.
Labels of texts and of tokens also have the head `frozen`: a linear model on that encoder's states.
Answers that are spans of a text have no floor here.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.artifacts.tuning import TuningFolder
from electra.exchange.load import Loaded
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import TrainingData
from electra.finetuning.heads.parts.overlap import WORD, overlap, weighted_overlap, words
from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import Score
from electra.finetuning.runner.dataset import Dataset, choose_task, read_dataset
from electra.finetuning.runner.one_seed import build_model
from electra.finetuning.runner.over_seeds import FROZEN
from electra.finetuning.runner.tuning import Tuning, evaluate
from electra.finetuning.settings import Settings
from electra.finetuning.tasks.parts.text_label_set import MultiLabelClassification
from electra.foundation import durable
from electra.foundation.arrays import Floats, Ints
from electra.foundation.extensions import TASKS
from electra.inference.embedding import embed

Matrix = Any  # a numpy array or a scipy sparse matrix
Predict = Callable[[Sequence[Example]], list[Any]]
"""Predictions as the task makes them: class probabilities [labels], a number [1], tags [words, labels]."""
NAMES = MAJORITY, COUNTING = "majority", "word counting"
COSINE = "cosine of the encoder's vectors"
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # of the fit: the inverse of the penalty on squared weights
WEIGHTS = (None, "balanced")  # of the classes
FOLDS = 5
TUNED_ON = 3000  # examples of which the strength is chosen; the fit itself has all


def measure(floor: str, settings: Settings) -> dict[str, Any]:
    """A floor's scores on the data of a fine-tuning, under the keys of the numbers of a fine-tuning."""
    began = time.monotonic()
    dataset = read_dataset(settings, choose_task(settings))
    task = dataset.task
    results: dict[str, Any] = {"task": task.name, "task_version": task.version, "floor": floor, "seeds": [0]}
    results |= {
        f"{'eval' if split == 'dev' else split}_samples": len(examples)
        for split, examples in dataset.splits.items()
    }
    for key, score in scores(floor, dataset).items():
        results |= {key: score.value, f"{key}_by_seed": [score.value]}
        results |= {f"{key}_reason": score.reason} if score.value is None else {}
    return {**results, "seconds": round(time.monotonic() - began, 3), "notes": list(dataset.notes)}


def beside(tuning: Tuning, dataset: Dataset, folder: TuningFolder) -> dict[str, dict[str, float | None]]:
    """The floors of a fine-tuning, measured once: floor -> eval_accuracy and so on. {} for spans, for texts
    without answers, and for a task of the user's own, whose predictions may be of any kind.
    """
    if folder.baselines.is_file() or not tuning.settings.baselines:
        return folder.read_baselines()
    bare = any(example.gold is None for example in dataset.splits["train"])
    if bare or tuning.task.head == "reader" or TASKS.identity(tuning.settings.task):
        return {}
    with warnings.catch_warnings():  # of scikit-learn, about fits and folds
        warnings.simplefilter("ignore")
        found = {
            floor: {name: score.value for name, score in scores(floor, dataset).items()} for floor in NAMES
        }
    if tuning.task.num_outputs == 1 and len(dataset.splits["train"][0].texts) == 2:
        predict = _cosine(tuning.start, tuning.task, dataset.splits["train"])
        found[COSINE] = {name: score.value for name, score in _scored(predict, dataset).items()}
    if tuning.settings.head != "frozen" and tuning.task.head in load_head("frozen").kinds:
        found[FROZEN] = {name: score.value for name, score in _frozen(tuning).items()}
    durable.commit_json(folder.baselines, found)
    return found


def _frozen(tuning: Tuning) -> dict[str, Score]:
    """The scores of the head `frozen` on the encoder that is fine-tuned, as it is given."""
    head = load_head("frozen")
    pooling = "mean" if tuning.task.head == "classifier" else "cls"
    frozen = tuning.with_settings(head=head.name, epochs=0.0, dropout=0.0, pooling=pooling)
    model = build_model(frozen, 0)
    data = TrainingData(frozen.train, frozen.task, frozen.start.tokenizer, frozen.device)
    head.start(model.head, model.encoder, data)
    return {
        f"{'eval' if split == 'dev' else split}_{name}": score
        for split, read_split in frozen.splits.items()
        for name, score in evaluate(frozen, model, read_split).scores.items()
    }


def scores(floor: str, dataset: Dataset) -> dict[str, Score]:
    """SPLIT_METRIC -> score, of the splits with answers; dev is called eval."""
    predict = fit(floor, dataset.task, dataset.splits["train"])
    assert predict is not None, "spans have no floor"
    return _scored(predict, dataset)


def _cosine(start: Loaded, task: Any, train: Sequence[Example]) -> Predict:
    """Numbers of pairs: a line fitted to the cosine of their vectors, by the encoder as it is given."""

    def cosines(examples: Sequence[Example]) -> Floats:
        first, second = (embed(start, [example.texts[i] for example in examples]) for i in (0, 1))
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        return np.asarray((first * second).sum(1) / np.maximum(lengths, 1e-12), np.float64)

    fitted = train[:TUNED_ON]
    numbers = np.array([task.gold_number(example) for example in fitted])
    slope, offset = np.polyfit(cosines(fitted), numbers, 1)
    return lambda examples: [np.array([abs(slope) * value + offset]) for value in cosines(examples)]


def _scored(predict: Predict, dataset: Dataset) -> dict[str, Score]:
    return {
        f"{'eval' if split == 'dev' else split}_{name}": score
        for split, examples in dataset.splits.items()
        if split != "train" and all(example.gold is not None for example in examples)
        for name, score in dataset.task.score(predict(examples), examples).items()
    }


def fit(floor: str, task: Any, train: Sequence[Example]) -> Predict | None:
    """The floor of that name for a fitted task; None where it has no answer (spans)."""
    if task.head == "reader":
        return None
    if task.head == "tagger":
        return _tags(task, train, known_words=floor == COUNTING)
    if task.num_outputs == 1:
        numbers = np.array([task.gold_number(example) for example in train])
        if floor == MAJORITY:
            return lambda examples: [numbers.mean(keepdims=True)] * len(examples)
        return _on_features(train, lambda features: _ridge(features, numbers))
    if isinstance(task, MultiLabelClassification):
        several = np.stack([task.target(example) for example in train])
        if floor == MAJORITY:
            return lambda examples: [several.mean(0)] * len(examples)
        return _on_features(train, lambda features: _logistic_each(features, several))
    classes = np.array([task.gold_class(example) for example in train])
    if floor == MAJORITY or not any(words(text) for example in train for text in example.texts):
        shares = np.bincount(classes, minlength=task.num_outputs) / len(classes)
        return lambda examples: [shares] * len(examples)
    return _on_features(
        train, lambda features: _logistic(features, classes, task.num_outputs, task.metrics[0])
    )


def _on_features(train: Sequence[Example], fitted: Callable[[Matrix], Callable[[Matrix], Any]]) -> Predict:
    """A classifier or regression on what can be counted in the texts."""
    features = overlap_of(train) if len(train[0].texts) > 1 else words_of(train)
    answer = fitted(features(train))
    return lambda examples: list(answer(features(examples)))


def words_of(train: Sequence[Example]) -> Callable[[Sequence[Example]], Matrix]:
    """Tf-idf of words and of pairs of neighbouring words: [examples, terms], sparse."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=WORD.pattern, ngram_range=(1, 2), sublinear_tf=True)
    vectorizer.fit(example.texts[0] for example in train)
    return lambda examples: vectorizer.transform([example.texts[0] for example in examples])


def overlap_of(train: Sequence[Example]) -> Callable[[Sequence[Example]], Matrix]:
    """The nine numbers of each pair, standardised on the training pairs: [examples, 9]."""
    seen = Counter(word for example in train for text in example.texts[:2] for word in set(words(text)))
    documents = 2 * len(train)
    rare = {word: math.log((1 + documents) / (1 + count)) for word, count in seen.items()}
    unseen = math.log(1 + documents)

    def weight(word: str) -> float:
        return rare.get(word, unseen)

    def raw(examples: Sequence[Example]) -> Floats:
        pairs = [(example.texts[0], example.texts[1]) for example in examples]
        return np.array([[*overlap(*pair), weighted_overlap(*pair, weight=weight)] for pair in pairs])

    known = raw(train)
    mean, sd = known.mean(0), known.std(0)
    return lambda examples: (raw(examples) - mean) / np.where(sd > 0, sd, 1.0)


def _ridge(features: Matrix, numbers: npt.NDArray[Any]) -> Callable[[Matrix], Any]:
    from sklearn.linear_model import Ridge, RidgeCV

    some = _some(len(numbers))
    model = RidgeCV(alphas=[1 / strength for strength in STRENGTHS]).fit(features[some], numbers[some])
    if len(some) < len(numbers):
        model = Ridge(alpha=model.alpha_).fit(features, numbers)
    return lambda other: model.predict(other)[:, None]


def _logistic(
    features: Matrix, classes: npt.NDArray[Any], count: int, metric: str = "accuracy"
) -> Callable[[Matrix], Any]:
    """Class probabilities; a class that training does not have gets none."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    some = _some(len(classes))
    present = np.bincount(classes[some])
    folds = min(FOLDS, int(present[present > 0].min()))
    model: Any = LogisticRegression(C=1.0, max_iter=1000)
    if folds > 1 and np.count_nonzero(present) > 1:
        scoring = {"matthews_correlation": "matthews_corrcoef", "f1_macro": "f1_macro"}.get(
            metric, "accuracy"
        )
        grid = {"C": STRENGTHS, "class_weight": WEIGHTS}
        search = GridSearchCV(model, grid, cv=folds, scoring=scoring, refit=False)
        model.set_params(**search.fit(features[some], classes[some]).best_params_)
    model.fit(features, classes)

    def probabilities(other: Matrix) -> Floats:
        found = np.zeros((other.shape[0], count))
        found[:, model.classes_] = model.predict_proba(other)
        return found

    return probabilities


def _some(count: int) -> Ints:
    """The places of at most TUNED_ON of `count` examples."""
    return np.sort(np.random.default_rng(0).permutation(count)[:TUNED_ON])


def _logistic_each(features: Matrix, several: npt.NDArray[Any]) -> Callable[[Matrix], Any]:
    """Each label by itself; one that all or no examples have is answered as it always was."""

    def one(has: npt.NDArray[Any]) -> Callable[[Matrix], Any]:
        if len(np.unique(has)) < 2:
            return lambda other: np.full(other.shape[0], float(has[0]))
        decide = _logistic(features, has.astype(np.int64), 2)
        return lambda other: decide(other)[:, 1]

    deciders = [one(has) for has in several.T]
    return lambda other: np.stack([decide(other) for decide in deciders], 1)


def _tags(task: Any, train: Sequence[Example], known_words: bool) -> Predict:
    counts: dict[str, Counter[int]] = {}
    overall: Counter[int] = Counter()
    for example in train:
        for place, word in enumerate(example.texts):
            tag = task.gold_class(example, place)
            overall[tag] += 1
            if known_words:
                counts.setdefault(word, Counter())[tag] += 1

    def shares(found: Counter[int]) -> Floats:
        made = np.zeros(task.num_outputs)
        made[list(found)] = np.array(list(found.values())) / found.total()
        return made

    known, unknown = {word: shares(found) for word, found in counts.items()}, shares(overall)
    return lambda examples: [
        np.stack([known.get(word, unknown) for word in example.texts])
        if example.texts
        else np.zeros((0, task.num_outputs))
        for example in examples
    ]
