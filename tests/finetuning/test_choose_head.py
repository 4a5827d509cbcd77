"""The choice of `--head auto`, and what its verdict claims where there is nothing to learn."""

import csv
import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from contracts import toy_task
from random_labels import World, rows, verdict_in

from electra.artifacts.finetuning_files import FinetuningFolder, verdict
from electra.data.tables.table_files import Given
from electra.exchange.load import load
from electra.finetuning import linear_fit
from electra.finetuning.labelled.examples import Example
from electra.finetuning.score import baselines, choose_head
from electra.finetuning.score.choose_head import hold_out
from electra.finetuning.settings import AUTO, Settings
from electra.finetuning.tasks import load_task
from electra.finetuning.train import prepared
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.train.dataset import Dataset, text_key
from electra.foundation.errors import ElectraError, Interrupted, RunFolderError
from electra.pages import finetuning_page as page

WORLDS = [
    *(World(1, 60), World(2, 60), World(1, 60, 2), World(2, 60, 2)),
    *(World(1, 30, 6, dev=40), World(2, 30, 6, dev=40), World(1, 12, dev=20), World(2, 12, 2, dev=20)),
    *(World(1, 40, 2, dev=30, known=40), World(2, 40, dev=30, known=40)),
]


def test_random_labels_are_rarely_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 runs. With p <= .05 in 7 %, a test at 5 % is within two standard errors of what it claims."""
    monkeypatch.setattr(linear_fit, "STRENGTHS", (30.0,))  # one fit instead of ten
    runs = [verdict_in(world, seed, monkeypatch) for world in WORLDS for seed in range(20)]
    assert sum(p[""] <= 0.05 for _, p in runs) <= 0.07 * len(runs)
    compared = [p for _, of_run in runs for p in of_run.values()]
    assert sum(p <= 0.05 for p in compared) <= 0.07 * len(compared)
    assert min(compared) > 1e-4
    # A head is chosen by what it remembers if equal texts lie on both sides; two standard errors are 2.3 %.
    assert Counter(head for head, _ in runs)[AUTO] <= 20


def dataset_of(task: str, rows: list[tuple[Any, ...]]) -> Dataset:
    examples = tuple(Example(str(i), f"f:{i}", texts, gold) for i, (gold, *texts) in enumerate(rows))  # type: ignore[arg-type]
    return Dataset(load_task(task).fit(examples), {"train": examples}, {}, ())


@pytest.mark.parametrize(
    ("task", "first", "same", "other"),
    [
        ("classification", ["The cat"], ["the  CAT"], ["the cat sat"]),
        ("classification", ["caf\u00e9"], ["cafe\u0301"], ["cafe"]),
        ("classification", ["\ufb01ne"], ["fine"], ["fine."]),
        ("pair", ["a", "b"], ["b", "a"], ["a", "a"]),
        ("pair", ["A ", "b"], ["B", "a"], ["a b", ""]),
        ("pos", ["a", "b"], ["A", "b"], ["b", "a"]),
    ],
)
def test_equal_texts(task: str, first: list[str], same: list[str], other: list[str]) -> None:
    keys = [text_key(Example("", "", tuple(texts)), load_task(task)) for texts in (first, same, other)]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("texts", [1, 2])
@pytest.mark.parametrize("copies", [1, 2, 3, 6, 50])
def test_equal_texts_are_on_one_side_and_each_is_held_out_once(texts: int, copies: int) -> None:
    table = [(row["label"], *list(row.values())[:-1]) for row in rows(random.Random(1), texts, 40, copies)]
    data = dataset_of("pair" if texts > 1 else "classification", table)
    assert sorted(i for fold in range(5) for i in data.held_out(fold)) == sorted(data.different_texts)
    trial = hold_out(data, 2)
    train, dev = ([text_key(e, data.task) for e in trial.splits[name]] for name in ("train", "dev"))
    assert not {*train} & {*dev} and len(dev) == len({*dev}) == 8 and len(train) == 32 * copies
    assert {example.gold for example in trial.splits["dev"]} == {"x", "y"}


@pytest.mark.parametrize(
    ("keys", "count", "difference"),
    [
        ("abcdefgh", 8, 4 / 8),
        ("aaaabcde", 5, (1 + 0) / 5),  # the four that are won are one text
        ("aabbcdef", 6, 2 / 6),
        (None, 0, 0.0),
        (["a", None, None, None, "b", "c", "d", "e"], 5, 1 / 5),
    ],
)
def test_equal_texts_are_one_observation(keys: Any, count: int, difference: float) -> None:
    """Of eight rows the model alone has the first four right."""
    found: dict[str, dict[str, Any]] = {"TF-IDF": {"eval_wrong": [0, 1, 2, 3]}}
    baselines.compare(found, [[True] * 8], keys or [None] * 8)
    paired = found["TF-IDF"]["eval_paired"]
    assert (paired["examples"], paired["difference"]) == (count, pytest.approx(difference))
    assert paired["p"] == 2 / 2 ** max(1, round(count * difference))


def write(folder: Path, **splits: list[tuple[object, ...]]) -> Path:
    folder.mkdir(parents=True)
    for name, table in splits.items():
        with (folder / f"{name}.csv").open("w", newline="") as out:
            csv.writer(out).writerows([("text", "label"), *table])
    return folder


def auto(folder: Path, task: str = "classification", **changes: object) -> Any:
    unset = {"head": "auto", "epochs": None, "learning_rate": None, "layer_decay": None}
    settings = toy_task.settings(folder / "out", folder / "data", task, **unset)
    return replace(settings, **changes)  # type: ignore[arg-type]


def few(count: int, answer: Any) -> list[tuple[object, ...]]:
    """Rows with different texts."""
    words = toy_task.OTHER
    return [(f"{words[i % 16]} {words[i // 16 + 1]} film", answer(i)) for i in range(count)]


@pytest.mark.parametrize(
    ("task", "train"),
    [
        *(("regression", few(count, float)) for count in (1, 2, 4, 5, 7, 9, 14)),
        ("regression", few(40, lambda i: 3 + (i == 0))),  # equal numbers in the held-out part
        ("regression", few(6, lambda i: 3 + (i == 0))),
        ("regression", few(12, lambda i: 3)),
        *(("classification", few(n, lambda i, last=n - 1: "ab"[i == last])) for n in (2, 5, 8, 13)),
        ("classification", few(23, lambda i: "ba"[i == 0])),
        ("classification", few(12, lambda i: "a")),
        ("classification", [("film", "ab"[i % 2]) for i in range(12)]),
    ],
)
def test_a_few_rows_are_trained_on_or_refused_in_one_line(
    task: str, train: list[tuple[object, ...]], tmp_path: Path, modern_folder: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(prepared, "MIN_UPDATES", 2)
    answer = float if task == "regression" else lambda i: "ab"[i % 2]
    dev = [(f"my {text}", label) for text, label in few(8, answer)]
    write(tmp_path / "data", train=train, dev=dev)
    try:
        results = finetune(str(modern_folder), auto(tmp_path, task))
    except ElectraError as error:
        assert "nothing to learn" in error.what and len({label for _, label in train}) == 1
        assert not (tmp_path / "out").exists()
    else:
        assert all("nan" not in note and "None" not in note for note in results["notes"])


def test_one_tag_but_for_a_held_out_sentence(tmp_path: Path, modern_folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(prepared, "MIN_UPDATES", 2)
    (tmp_path / "data").mkdir()
    for split, size in (("train", 8), ("dev", 3)):
        words = toy_task.OTHER[:size] if split == "train" else toy_task.OTHER[10:13]
        blocks = [f"{word}\tN\nfilm\t{'V' if i == 7 else 'N'}\n" for i, word in enumerate(words)]
        (tmp_path / "data" / f"{split}.tsv").write_text("\n".join(blocks))
    assert "head" in finetune(str(modern_folder), auto(tmp_path, "tagging"))


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Few rows with labels at random, and fast trainings."""
    monkeypatch.setattr(prepared, "MIN_UPDATES", 6)
    draw = random.Random(2)
    table = [(row["text1"], row["label"]) for row in rows(draw, 1, 60, 1)]
    write(tmp_path / "data", train=table[:40], dev=table[40:])
    return tmp_path


def test_a_run_stopped_in_the_trial_leaves_nothing_and_goes_on(colours: Path, modern_folder: Path) -> None:
    """At every step of the two trainings of a trial."""
    whole = finetune(str(modern_folder), auto(colours, out=colours / "whole"))
    for after in (0, 2, 4):
        settings, polled = auto(colours, out=colours / f"out{after}"), iter(range(after))
        with pytest.raises(Interrupted):
            finetune(str(modern_folder), settings, stop=lambda polled=polled: next(polled, None) is None)
        left = {path.name for path in settings.out.iterdir()}
        assert left <= {"log.txt"}, left
        again = finetune(str(modern_folder), settings)
        assert (again["notes"], again["eval_loss"]) == (whole["notes"], whole["eval_loss"])
        assert not (settings.out / "choice").exists()


def test_a_folder_is_checked_and_locked_before_the_trial(
    colours: Path, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = auto(colours)
    (colours / "out").mkdir()
    (colours / "out" / "mine.txt").touch()
    with monkeypatch.context() as patched:
        patched.setattr(choose_head, "train_seed", lambda *given: 1 / 0)
        with pytest.raises(RunFolderError, match=r"mine\.txt"):
            finetune(str(modern_folder), settings)
    (colours / "out" / "mine.txt").unlink()
    choose, refused = choose_head.try_head, list[str]()

    def meanwhile(*given: Any) -> dict[int, Any]:
        with pytest.raises(RunFolderError, match="in use") as caught:
            finetune(str(modern_folder), settings)
        refused.append(caught.value.what)
        return choose(*given)

    monkeypatch.setattr(choose_head, "try_head", meanwhile)
    finetune(str(modern_folder), settings)
    assert len(refused) == 5


def test_the_time_of_the_trial_counts(colours: Path, modern_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finetune(str(modern_folder), auto(colours))
    record = FinetuningFolder(colours / "out").record
    (colours / "out" / "finetune.json").write_text(json.dumps(record | {"choice_seconds": 1000.0}))
    results = finetune(str(modern_folder), auto(colours))
    assert 0 < record["choice_seconds"] < 1000 <= results["seconds"]
    assert "16 min" in page.write_page(colours / "out").read_text()


def test_dev_that_chose_the_epoch_does_not_test_it(colours: Path, modern_folder: Path) -> None:
    said = list[str]()
    best = auto(colours, epochs=4, keep_epoch="best", baselines=True)
    results = finetune(str(modern_folder), best, said.append)
    assert results["epochs_on_dev"] == 4
    assert all("eval_paired" not in values for values in results["baselines"].values())
    assert not re.search(r"\bp [<=]", verdict(results))
    html = page.write_page(colours / "out").read_text()
    places = [said[-1], *(line for line in said if re.match("dev: accuracy|seed 0  dev:", line)), html]
    places += [note for note in results["notes"] if note.startswith("dev: the scores")]
    assert len(places) == 5 and all("epoch" in place and "dev" in place for place in places)
    once = replace(best, out=colours / "once", epochs=1.0)
    results = finetune(str(modern_folder), once)
    assert "epochs_on_dev" not in results, "there was no choice"
    assert all("eval_paired" in values for values in results["baselines"].values())


NARROW: Any = SimpleNamespace(config=SimpleNamespace(hidden_size=32))


def trials_of(shares: dict[str, float], count: int = 400) -> choose_head.Trials:
    """Trials of heads with these shares of right answers, in one order of difficulty."""
    data = dataset_of("classification", [("ab"[i % 2], f"t{i}") for i in range(count)])
    hard = np.random.default_rng(0).permutation(count)
    settings = Settings(task="classification", data=Given("train", b"", rows=[]), out="never-written")
    answers = {
        head: {i: np.eye(2)[i % 2 if hard[i] < right * count else 1 - i % 2] for i in range(count)}
        for head, right in shares.items()
    }
    return choose_head.Trials(settings, data, NARROW, lambda: False, answers)


def test_the_standard_errors_of_a_share_and_of_a_difference() -> None:
    trials = trials_of({"frozen": 0.8, "counts": 0.85, AUTO: 1.0})
    value, error = trials.score_and_error("frozen")
    assert value == pytest.approx(0.8) and error == pytest.approx((0.8 * 0.2 / 400) ** 0.5, rel=0.35)
    gain, paired = trials.score_and_error("counts", "frozen")
    assert gain == pytest.approx(0.05) and paired == pytest.approx((0.05 * 0.95 / 400) ** 0.5, rel=0.35)
    assert trials.score_and_error(AUTO)[1] == 0.0


@pytest.mark.parametrize(
    ("shares", "head"),
    [
        ({"frozen": 0.8, "counts": 0.7, AUTO: 0.8}, "frozen"),
        ({"frozen": 0.7, "counts": 0.8, AUTO: 0.8}, "counts"),
        ({"frozen": 0.8, "counts": 0.8, AUTO: 0.8}, "frozen"),
        ({"frozen": 0.7, "counts": 0.8, AUTO: 0.9}, AUTO),
        ({"frozen": 0.52, "counts": 0.51, AUTO: 0.53}, "frozen"),
    ],
)
@pytest.mark.parametrize(("count", "folds"), [(200, 5), (400, 1)])
def test_a_cheaper_head_unless_another_is_surely_better(
    shares: dict[str, float], head: str, count: int, folds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The linear heads are told first; with more texts, one fold is tried."""
    said, told, trials = list[str](), list[int](), trials_of(shares, count)

    def try_head(name: str, of: Any, fold: int) -> dict[int, Any]:
        told.append(len(said))
        return {i: trials.answers[name][i] for i in of.dataset.held_out(fold)}

    linear = {name: trials.answers[name] for name in ("frozen", "counts")}
    monkeypatch.setattr(choose_head, "linear_answers", lambda of: linear)
    monkeypatch.setattr(choose_head, "try_head", try_head)
    given = trials.settings, trials.dataset, NARROW, lambda: False, said.append
    chosen, [note] = choose_head.choose_head(*given)
    assert chosen.head == head and told == [1] * folds
    assert f"frozen {shares['frozen']:.3f} +- " in said[0] and "fine-tuned" not in said[0]
    assert note.startswith(f"head: {choose_head.TITLES[head]}, by accuracy") and note.count("+-") == 4
    assert ("chance" in note) is (max(shares.values()) < 0.6)


def test_rows_are_predicted_without_their_text(tmp_path: Path, modern_folder: Path) -> None:
    """Random labels, each text six times: a linear head that had seen a text would remember its label."""
    table = [(row["label"], row["text1"]) for row in rows(random.Random(3), 1, 60, 6)]
    settings = Settings(task="classification", data=Given("train", b"", rows=[]), out=tmp_path)
    data, loaded = dataset_of("classification", table), load(str(modern_folder), "encoder")
    trials = choose_head.Trials(settings, data, loaded, lambda: False)
    trials.answers.update(choose_head.linear_answers(trials))
    for head in ("frozen", "counts"):
        assert trials.score(head, data.different_texts) < 0.75
