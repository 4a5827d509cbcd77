"""Transitions between tags: counts, the best sequence, and what a saved model keeps of them."""

from dataclasses import replace
from itertools import pairwise, product
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contracts import toy_task

from electra.finetuning.labelled.examples import Example
from electra.finetuning.predict import open_predictor
from electra.finetuning.score.transitions import WEIGHT, best_sequence, count_transitions, transition_scores
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.word_tags import TRANSITIONS_KEY, WordTagging
from electra.foundation.errors import ModelError

SENTENCES = [[0, 1, 2], [0, 0, 1], [], [2, -100, 0]]  # label 3 is known, but no sentence has it
EDGE = 4


def test_scores_are_logarithms_of_smoothed_shares() -> None:
    pairs = [pair for tags in SENTENCES for pair in pairwise([EDGE, *tags, EDGE]) if min(pair) >= 0]
    found = transition_scores(count_transitions(SENTENCES, 4), 4)
    for before, after in product(range(5), repeat=2):
        of_before = [to for start, to in pairs if start == before]
        share = sum(to == after for _, to in pairs) / len(pairs)
        expected = 4 / (len(of_before) + 4)  # of a label without an example, the share is the limit's
        if share:
            expected = (of_before.count(after) + 4 * share) / (len(of_before) + 4) / share
        assert found[before, after] == pytest.approx(WEIGHT * log(expected))


@pytest.mark.parametrize("num_words", [0, 1, 2, 5])
def test_the_best_sequence_is_that_of_all_sequences(num_words: int) -> None:
    rng = np.random.default_rng(num_words)
    for _ in range(20):
        known = count_transitions(rng.integers(3, size=(4, 6)).tolist(), 3)
        words, scores = rng.dirichlet(np.ones(3), num_words).astype(np.float32), transition_scores(known, 3)
        totals = {
            labels: sum(log(words[place, label]) for place, label in enumerate(labels))
            + sum(scores[pair] for pair in pairwise([3, *labels, 3]))
            for labels in product(range(3), repeat=num_words)
        }
        assert best_sequence(words, known) == list(max(totals, key=totals.__getitem__))


def test_entities_alone_have_transitions() -> None:
    tags = {"ner": ("O", "B-x", "I-x"), "tagging": ("DET", "NOUN", "VERB"), "ged": ("c", "i", "c")}
    fitted = {name: load_task(name).fit([Example("0", "f:1", ("a", "b", "c"), tags[name])]) for name in tags}
    has_some = {name: bool(task.transitions) for name, task in fitted.items()}  # type: ignore[attr-defined]
    assert has_some == {"ner": True, "tagging": False, "ged": False}
    ner, unsure = fitted["ner"], np.array([[0.0, 1.0, 0.0], [0.5, 0.1, 0.4]], np.float32)
    assert isinstance(ner, WordTagging)
    assert ner.tags(unsure) == ["B-x", "I-x"]
    assert replace(ner, transitions=()).tags(unsure) == ["B-x", "O"]


def test_a_saved_model_keeps_them(modern_folder: Path, tmp_path: Path) -> None:
    data, out = toy_task.write_tagging(tmp_path / "data", train=60, dev=20), tmp_path / "out"
    results = finetune(str(modern_folder), toy_task.settings(out, data, "ner", epochs=0.5))
    gold = load_task("ner").read(data / "dev.tsv").examples
    predictor = open_predictor(str(out / "model"))
    task = predictor.task
    assert isinstance(task, WordTagging) and task.transitions
    scores = task.score(predictor(data / "dev.tsv").values, gold)
    assert scores["f1"].value == results["eval_f1"]
    settings = {TRANSITIONS_KEY: [list(row) for row in task.transitions]}
    assert load_task("ner").rebuilt(task.labels, settings).transitions == task.transitions  # type: ignore[attr-defined]
    assert load_task("ner").rebuilt(task.labels, {}).transitions == ()  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [7, "O", [[0, 1]], [[0, 4, 3]], [[0, 1, -3]], [["O", 1, 3]], [[0, 1, True]]])
def test_saved_transitions_are_checked(wrong: Any) -> None:
    with pytest.raises(ModelError, match=TRANSITIONS_KEY):
        load_task("ner").rebuilt(("O", "B-x", "I-x"), {TRANSITIONS_KEY: wrong})
