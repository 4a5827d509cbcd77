"""Baselines, fitted to the same training examples and scored by the same metrics.

majority        predicts the most frequent class or tag, each label's frequency, or the mean of the numbers
counts          a linear model of what can be counted in a text, a pair or around a word (counts.py)
frozen encoder  the head `frozen` on the encoder to be fine-tuned, before training

and, for tagging, the most frequent tag of each word.

Question answering has none, nor have texts without answers and your own tasks, whose predictions may be of
any kind.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.artifacts.finetuning_files import NOISY_BELOW, FinetuningFolder
from electra.finetuning import linear_fit
from electra.finetuning.counts import Counts, Kind, words
from electra.finetuning.heads import load_head
from electra.finetuning.heads.frozen import fit_states
from electra.finetuning.heads.parts.contract import Head
from electra.finetuning.labelled.examples import Example
from electra.finetuning.linear_fit import Problem, out_of_fold, tuned
from electra.finetuning.score.evaluate import evaluate
from electra.finetuning.score.metrics import Score
from electra.finetuning.settings import Settings
from electra.finetuning.task import Task
from electra.finetuning.text_answers import MultiLabelClassification
from electra.finetuning.train.dataset import Dataset, choose_task, read_dataset
from electra.finetuning.train.one_seed import build_model
from electra.finetuning.train.prepared import FROZEN, Finetuning, encoder_pooling, resolve
from electra.foundation import durable
from electra.foundation.arrays import Floats, Vectors
from electra.foundation.errors import RunFolderError
from electra.foundation.extensions import TASKS
from electra.foundation.progress import doing
from electra.foundation.terminal_text import when

Predict = Callable[[Sequence[Example]], list[Any]]
"""A function from examples to the task's predictions.

A prediction is an array of probabilities [labels], a number [1], or probabilities of tags [words, labels].
"""
NAMES = MAJORITY, COUNTS = "majority", "counts"
WORD_TAGS = "most frequent tag of each word"
FROZEN_ENCODER = "frozen encoder"  # the head `frozen` among the baselines
WRONG = "eval_wrong"  # the rows of dev that a baseline answered wrongly, in floors.json
QUICK_EXAMPLES = 4_000  # that the frozen encoder reads
MANY_FITS, MANY_EXAMPLES = 1_000_000, 100_000  # examples times labels, and examples, that are counted


def measure(baseline: str, settings: Settings) -> dict[str, Any]:
    """Returns a baseline's scores on the data of a fine-tuning, with the keys of all_results.json."""
    start = time.monotonic()
    dataset = read_dataset(settings, choose_task(settings))
    task = dataset.task
    results: dict[str, Any] = {"task": task.name, "task_version": task.version}
    results |= {"floor": baseline, "seeds": [0]}  # "floor" is the name of a baseline in records
    results |= {f"{result_name(split)}_samples": len(examples) for split, examples in dataset.splits.items()}
    for key, value in scores(baseline, dataset).items():
        results |= {key: value.value, f"{key}_by_seed": [value.value]}
        results |= {f"{key}_reason": value.reason} if value.value is None else {}
    return {**results, "seconds": round(time.monotonic() - start, 3), "notes": list(dataset.notes)}


def measure_all(dataset: Dataset, prepared: Finetuning, folder: FinetuningFolder) -> None:
    """Computes and saves the scores of the baselines, by name, under keys such as `eval_accuracy`.

    Does nothing if they are there already, for each of the task's metrics.
    """
    wanted = {f"eval_{metric}" for metric in dataset.task.metrics}
    if (known := read(folder)) and all(wanted <= values.keys() for values in known.values()):
        return
    answers: dict[str, dict[str, list[Any]]] = {}
    train = dataset.splits["train"]
    count = len(limited(dataset.task, train))
    for name in (MAJORITY, WORD_TAGS, COUNTS) if dataset.task.head == "tagger" else NAMES:
        title = name + when(name == COUNTS and count < len(train), f" of {count:,} examples")
        doing(f"baseline {title}")
        answers[title] = predictions(name, dataset)
    if dataset.task.head in load_head(FROZEN).kinds and prepared.settings.head != FROZEN:
        doing(f"baseline {FROZEN_ENCODER}")
        answers[FROZEN_ENCODER] = frozen_predictions(prepared, dataset)
    values: dict[str, dict[str, Any]] = {}
    for title, found in answers.items():
        values[title] = {key: each.value for key, each in score_all(found, dataset).items()}
        if found and (right := right_answers(dataset, found["dev"])) is not None:
            values[title][WRONG] = np.flatnonzero(~right).tolist()
    durable.commit_json(folder.baselines, values)


def read(folder: FinetuningFolder) -> dict[str, dict[str, Any]]:
    """Returns what `measure_all` saved; {} if it saved nothing. Raises RunFolderError for a damaged file."""
    if not folder.baselines.is_file():
        return {}
    fix = "Remove it: the baselines are then measured again"
    known: dict[str, dict[str, Any]] = durable.read_json(folder.baselines, RunFolderError, fix=fix)
    return known


def right_answers(dataset: Dataset, dev: Sequence[Any]) -> npt.NDArray[np.bool_] | None:
    """Returns which predictions for dev are right; None if dev is large, or accuracy is not its score."""
    task, examples = dataset.task, dataset.splits["dev"]
    is_comparable = task.head == "classifier" and task.metrics[0] == "accuracy"
    if not is_comparable or dataset.num_dev_texts >= NOISY_BELOW:
        return None
    one, pairs = replace(task, metrics=("accuracy",)), zip(dev, examples, strict=True)
    return np.array([one.score([answer], [example])["accuracy"].value == 1 for answer, example in pairs])


def compare(baselines: dict[str, dict[str, Any]], right: Sequence[Sequence[bool]], keys: Sequence[object]) -> None:
    """Replaces the wrong rows in `baselines` (floors.json) by paired comparisons, `eval_paired`.

    `right` says for each seed which rows of dev the model answered rightly. Rows with the same of `keys` are
    one observation, and those with None are none (`Dataset.dev_keys`). No seed: there is nothing to compare.
    """
    places = {key: place for place, key in enumerate(dict.fromkeys(key for key in keys if key is not None))}
    rows = [row for row, key in enumerate(keys) if key is not None]
    texts = np.array([places[keys[row]] for row in rows], np.int64)
    for values in baselines.values():
        wrong = values.pop(WRONG, None)
        if wrong is None or not right:
            continue
        differences = np.mean(right, axis=0) - ~np.isin(np.arange(len(keys)), wrong)
        sums, counts = np.bincount(texts, differences[rows]), np.bincount(texts)
        values["eval_paired"] = paired_test(sums / counts)


def paired_test(differences: Floats) -> dict[str, Any]:
    """Returns the number of paired differences, their mean, and the p-value of the test that flips signs."""
    from scipy.stats import binomtest, permutation_test

    moved, p = differences[differences != 0], 1.0
    if len(moved) and (abs(moved) == abs(moved[0])).all():  # permutations need not be drawn
        p = float(binomtest(int((moved > 0).sum()), len(moved)).pvalue)
    elif len(moved):
        options = {"permutation_type": "samples", "batch": 1000, "rng": 0}
        p = float(permutation_test((moved,), np.sum, **options).pvalue)
    mean = float(differences.mean()) if len(differences) else 0.0
    return {"examples": len(differences), "difference": mean, "p": p}


def frozen_predictions(prepared: Finetuning, dataset: Dataset) -> dict[str, list[Any]]:
    """Returns the predictions of the head `frozen` on the encoder before training, by split."""
    start, unset = prepared.start, {"epochs": None, "dropout": None, "pooling": None, "head": FROZEN}
    names = [field.name for field in fields(Settings)]
    settings = Settings(**{name: getattr(prepared.settings, name) for name in names} | unset)
    frozen = replace(prepared, settings=resolve(settings, dataset, start.config, encoder_pooling(start)))
    model = build_model(frozen, 0)
    assert isinstance(model.head, Head)
    fit_states(model.head, model.encoder, frozen.training_data, frozen.precision, limit=QUICK_EXAMPLES)
    splits = frozen.splits.items()
    return {name: evaluate(frozen, model, split, frozen.precision).predictions for name, split in splits}


def apply_to(dataset: Dataset, settings: Settings) -> bool:
    """Whether the task has baselines."""
    has_unlabelled = any(example.gold is None for example in dataset.splits["train"])
    return not (has_unlabelled or dataset.task.head == "reader" or TASKS.identity(settings.task))


def result_name(split: str) -> str:
    """Returns the name of a split in the keys of results: "eval" for dev, as in transformers' scripts."""
    return "eval" if split == "dev" else split


def scores(baseline: str, dataset: Dataset) -> dict[str, Score]:
    """Returns the scores of a baseline by SPLIT_METRIC ("eval" for dev); {} for question answering."""
    return score_all(predictions(baseline, dataset), dataset)


def predictions(baseline: str, dataset: Dataset) -> dict[str, list[Any]]:
    """Returns a baseline's predictions by split; {} for question answering."""
    answer = fit(baseline, dataset.task, dataset.splits["train"])
    splits = {name: examples for name, examples in dataset.splits.items() if name != "train"}
    return {name: answer(examples) for name, examples in splits.items()} if answer else {}


def score_all(answers: Mapping[str, Sequence[Any]], dataset: Dataset) -> dict[str, Score]:
    """Returns the scores of the splits that have answers, by SPLIT_METRIC."""
    return {
        f"{result_name(split)}_{name}": value
        for split, predicted in answers.items()
        if all(example.gold is not None for example in dataset.splits[split])
        for name, value in dataset.task.score(predicted, dataset.splits[split]).items()
    }


def fit(baseline: str, task: Any, train: Sequence[Example]) -> Predict | None:
    """Fits a baseline to a task (None: question answering); texts without words have the majority alone."""
    if task.head == "reader":
        return None
    if task.head == "tagger":
        if baseline != COUNTS:
            return _fit_tags(task, train, by_word=baseline == WORD_TAGS)
        return _fit_counts(task, train)
    if baseline == COUNTS and any(words(text) for example in train for text in example.texts):
        return _fit_counts(task, train)
    if task.num_outputs == 1:
        answer = np.array([task.shown_gold(example) for example in train]).mean(keepdims=True)
    elif isinstance(task, MultiLabelClassification):
        answer = np.stack([task.target(example) for example in train]).mean(0)
    else:
        answer = np.bincount([task.gold_class(example) for example in train], minlength=task.num_outputs)
        answer = answer / answer.sum()
    return lambda examples: [answer] * len(examples)


def _fit_counts(task: Any, train: Sequence[Example]) -> Predict:
    """Fits a linear model of counted features, with balanced classes if the task's score is then better."""
    train = limited(task, train)
    is_tagger, texts = task.head == "tagger", [example.texts for example in train]
    kind: Kind = "words" if is_tagger else "texts" if len(texts[0]) == 1 else "pairs"
    counts = Counts.learn(kind, texts, task.num_outputs)
    folds = Dataset(task, {"train": tuple(train)}, {}, ()).folds
    targets = [task.gold_classes(each) if is_tagger else task.target(each) for each in train]
    folds = np.repeat(folds, [*map(len, texts)]) if is_tagger else folds
    block, answers = counts.matrix(texts), (np.concatenate if is_tagger else np.stack)(targets)

    def predictions(outputs: Vectors, examples: Sequence[Example]) -> list[Any]:
        if not is_tagger:
            return list(task.predict(list(outputs), None, examples))
        found = task.from_logits(outputs, [word for each in examples for word in each.texts])
        return np.split(found, np.cumsum([len(each.texts) for each in examples])[:-1])

    def tried(task: Task) -> tuple[float, Problem]:
        problem = tuned(Problem(task, [block], answers), folds)
        if not may_balance:
            return 0.0, problem
        found = task.score(predictions(out_of_fold(problem, folds), train), train)
        return found[task.metrics[0]].value or 0.0, problem

    may_balance = not is_tagger and task.has_classes and task.metrics[0] != "accuracy"
    tasks = [task, *([replace(task, balanced=True).fit(train)] if may_balance else [])]
    fitted = linear_fit.fit(max(map(tried, tasks), key=itemgetter(0))[1])
    return lambda examples: predictions(fitted([counts.matrix([each.texts for each in examples])]), examples)


def limited(task: Task, train: Sequence[Example]) -> Sequence[Example]:
    """Returns the examples, or a random part of them if a linear model would take long."""
    size = min(MANY_EXAMPLES, MANY_FITS // task.num_outputs)
    chosen = np.random.default_rng(0).permutation(len(train))[:size]
    return [train[i] for i in chosen] if len(train) > size else train


def _fit_tags(task: Any, train: Sequence[Example], by_word: bool) -> Predict:
    """Fits the frequencies of tags: for each known word if `by_word`; for all other words overall."""
    counts: dict[str, npt.NDArray[np.int64]] = defaultdict(lambda: np.zeros(task.num_tags, np.int64))
    for example in train:
        for word, tag in zip(example.texts, task.gold_tags(example), strict=True):
            counts[word][tag] += 1
    total = np.stack([*counts.values()]).sum(0)
    shares = {word: count / count.sum() for word, count in counts.items()} if by_word else {}
    overall, none = total / total.sum(), np.zeros((0, task.num_tags))

    def predicted(words: Sequence[str]) -> Any:
        found = [shares.get(word, overall) for word in words]
        return task.from_shares(np.stack(found) if found else none)

    return lambda examples: [predicted(example.texts) for example in examples]
