"""Treebanks: columns together, lemmas, the scores of CoNLL 2018, files in and out, and bad input."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contracts import toy_task
from torch.nn import functional as F

from electra.commands.predict import Predict
from electra.finetuning.labelled.examples import Example
from electra.finetuning.lemmas import Lemmas, rule_of
from electra.finetuning.predict import open_predictor
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.train.dataset import read_dataset
from electra.finetuning.treebank import Tags
from electra.finetuning.windows.features import NO_TARGET
from electra.foundation.errors import ConfigError, DataError, ElectraError, ModelError
from electra.serving.operations import PredictRequest

NOUN, MASS = ("NOUN", "NN-S", "Case=Nom|NumForm=Word"), ("NOUN", "NN-M", "Case=Acc")
VERB, END = ("VERB", "VB", "Tense=Past"), ("PUNCT", ".", "_")
WORDS: dict[str, tuple[tuple[str, str, str], str]] = {
    **dict.fromkeys(toy_task.GOOD, (NOUN, "good")),
    **dict.fromkeys(toy_task.BAD, (VERB, "bad")),
    **{word: (MASS, word) for word in toy_task.OTHER},
}
Bank = Callable[..., Path]


def sentence(draw: random.Random, number: int, words: dict[str, Any] = WORDS) -> str:
    """Returns a sentence; some have a multiword token and an empty node. "fast" is a verb after "new"."""
    forms = [draw.choice([*words]) for _ in range(draw.randint(3, 8))]
    rows = [f"# sent_id = s{number}"]
    for i, form in enumerate(forms, 1):
        (upos, xpos, feats), lemma = words[form]
        if form == "fast" and forms[i - 2 : i - 1] == ["new"]:
            upos, xpos, feats = VERB
        if i == 2 and number % 3 == 0:
            rows.append(f"2-3\t{''.join(forms[1:3])}" + "\t_" * 8)
        rows.append(f"{i}\t{form}\t{lemma}\t{upos}\t{xpos}\t{feats}\t{i - 1}\tdep\t_\tRef={i}")
        rows += [f"{i}.1\tgap" + "\t_" * 8] if i == 1 and number % 5 == 0 else []
    end = len(forms) + 1
    return "\n".join([*rows, f"{end}\t.\t.\t{END[0]}\t{END[1]}\t{END[2]}\t0\tpunct\t_\t_\n\n"])


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    """Writes a treebank, whose lines `change` may alter, and returns its folder."""

    def write(change: Callable[[list[str]], list[str]] = list, train: int = 120, dev: int = 40) -> Path:
        folder, draw = tmp_path / "bank", random.Random(1)
        folder.mkdir()
        for split, size in (("train", train), ("dev", dev)):
            lines = "".join(sentence(draw, number) for number in range(size)).split("\n")
            rows = [change(line.split("\t")) if "\t" in line else [line] for line in lines]
            (folder / f"{split}.conllu").write_text("\n".join(map("\t".join, rows)))
        return folder

    return write


def tuned(folder: Path, **settings: Any) -> dict[str, Any]:
    encoder = toy_task.save_encoder(folder.parent / "encoder")
    changes = {"head": "counts", "epochs": None} | settings
    out = changes.pop("out", folder.parent / "out")
    return finetune(str(encoder), toy_task.settings(out, folder, "ud", **changes))


def official(gold: Path, predicted: Path) -> dict[str, float]:
    """Returns the shared task's accuracies on gold words, computed from the files alone."""
    universal = {"Case", "Tense"}  # of those that the treebank has; NumForm is not
    right: dict[str, list[bool]] = {}
    pairs = zip(gold.read_text().split("\n"), predicted.read_text().split("\n"), strict=True)
    for a, b in ((a.split("\t"), b.split("\t")) for a, b in pairs if "\t" in a):
        if "-" in a[0] or "." in a[0]:
            continue
        for cells in (a, b):
            cells[5] = "|".join(sorted(x for x in cells[5].split("|") if x.split("=")[0] in universal))
        for name, places in {"upos": [3], "xpos": [4], "ufeats": [5], "all_tags": [3, 4, 5]}.items():
            right.setdefault(name, []).append(all(a[i] == b[i] for i in places))
        right.setdefault("lemmas", []).append(a[2] in ("_", b[2]))
    return {name: float(np.mean(each)) for name, each in right.items()}


def test_scores_are_the_shared_tasks_and_other_cells_stay(bank: Bank, tmp_path: Path) -> None:
    def change(cells: list[str]) -> list[str]:  # some words without a lemma, and a feature left to chance
        feats = cells[5].replace("Word", "Roman" if cells[0][-1] in "13579" else "Word")
        return [*cells[:2], "_" if cells[1] == "film" else cells[2], *cells[3:5], feats, *cells[6:]]

    folder = bank(change)
    results, dev, out = tuned(folder, baselines=True), folder / "dev.conllu", tmp_path / "tagged.conllu"
    Predict(str(tmp_path / "out"), str(dev), out=str(out), allow_unknown=True).main()
    expected = official(dev, out)
    assert {name: results[f"eval_{name}"] for name in expected} == pytest.approx(expected)
    assert results["primary_metric"] == "all_tags" and expected["all_tags"] > 0.97
    for before, after in zip(dev.read_text().split("\n"), out.read_text().split("\n"), strict=True):
        if before.split("\t")[0].isdecimal():
            assert [before.split("\t")[i] for i in (0, 1, 6, 7, 8, 9)] == [
                after.split("\t")[i] for i in (0, 1, 6, 7, 8, 9)
            ]
        else:
            assert before == after
    assert any("multiword token" in note and "empty node" in note for note in results["notes"])
    key = "eval_all_tags"
    baselines = results["baselines"]
    assert baselines["majority"][key] < baselines["most frequent tag of each word"][key] < 1
    assert {"eval_lemmas", "eval_xpos"} <= baselines["counts"].keys()


@pytest.mark.parametrize("head", ["frozen", "transformers", "auto"])
def test_every_head_learns_it(head: str, bank: Bank) -> None:
    results = tuned(bank(), head=head, seeds=2, epochs=12 if head == "transformers" else None)
    assert results["eval_upos"] > 0.9 and results["eval_lemmas"] > 0.9


def test_running_text_and_lists_of_words(bank: Bank, tmp_path: Path) -> None:
    tuned(bank())
    text, out, run = tmp_path / "a.txt", tmp_path / "a.conllu", str(tmp_path / "out")
    text.write_text("a fine film. the new\ntown! fast.\n\nof music. it was\n")
    Predict(run, str(text), out=str(out)).main()
    blocks = [block.split("\n") for block in out.read_text().strip().split("\n\n")]
    sentences = ["a fine film. the new town! fast.", "of music. it was"]  # small letters go on
    assert [block[1] for block in blocks] == [f"# text = {each}" for each in sentences]
    rows = [line.split("\t") for line in blocks[0][2:]]
    assert [row[1] for row in rows[:4]] == ["a", "fine", "film", "."]
    assert rows[1][2:6] == ["good", *NOUN] and rows[3][2:6] == [".", *END]
    assert [row[9] for row in rows[:4]] == ["_", "_", "SpaceAfter=No", "_"]
    predictor = open_predictor(run)
    split = replace(predictor.task, ends=(".",)).read(text, labelled=False)  # type: ignore[call-arg]
    assert len(split.examples) == 2 and "empty lines" in split.notes[0]
    text.write_text("Fine film. The town!” Fast.\nA town.\n")
    assert [each.row["text"] for each in predictor.task.read(text, labelled=False).examples] == [
        *("Fine film.", "The town!”", "Fast.", "A town.")
    ]
    [words] = PredictRequest(inputs=[["fine", "film"]]).work(_served(predictor))
    assert [{"word": "fine", "upos": "NOUN", "xpos": "NN-S", "feats": NOUN[2], "lemma": "good"}] == [
        {name: row[name] for name in ("word", "upos", "xpos", "feats", "lemma")} for row in words["words"][:1]
    ]


def _served(predictor: Any) -> Any:
    return type("Served", (), {"predictor": predictor})


@pytest.mark.parametrize(
    ("column", "metric"), [(4, "xpos"), (5, "ufeats"), (2, "lemmas")], ids=["XPOS", "FEATS", "LEMMA"]
)
def test_an_empty_column_is_left_out(column: int, metric: str, bank: Bank, tmp_path: Path) -> None:
    results = tuned(bank(lambda cells: [*cells[:column], "_", *cells[column + 1 :]]))
    assert f"eval_{metric}" not in results and results["eval_all_tags"] > 0.9
    assert any("left out" in note and "empty (_)" in note for note in results["notes"])
    found = open_predictor(str(tmp_path / "out")).texts([["fine", "film"]]).records()[0]
    assert found[{4: "xpos", 5: "feats", 2: "lemma"}[column]] == "_" and found["upos"] == "NOUN"


def _mixed(cells: list[str], seen: list[int] = [0]) -> list[str]:  # noqa: B006
    seen[0] += cells[0] == "1"
    return [*cells[:4], cells[4] + "x" * (seen[0] % 2), *cells[5:]]


NOTES: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "half of the lemmas": (lambda c: [*c[:2], "_" if int(c[0][0]) % 2 else c[2], *c[3:]], "LEMMA is empty"),
    "tags of another set": (lambda c: [*c[:3], "NN" if c[0] == "1" else c[3], *c[4:]], "not universal (NN"),
    "two sets of XPOS": (_mixed, "share no sentence"),
    "dev in train": (list, "also in the training data"),
}


@pytest.mark.parametrize("case", NOTES)
def test_what_is_suspicious_is_noted(case: str, bank: Bank) -> None:
    change, part = NOTES[case]
    folder = bank(change)
    if case == "dev in train":
        first = (folder / "train.conllu").read_text().split("\n\n")[0]
        with (folder / "dev.conllu").open("a") as file:
            file.write(first + "\n\n")
    settings = toy_task.settings(folder.parent / "out", folder, "ud")
    assert any(part in note for note in read_dataset(settings, load_task("ud")).notes)


ERRORS: dict[str, tuple[Callable[[list[str]], list[str]], dict[str, Any], type[ElectraError], str]] = {
    "nine columns": (lambda cells: cells[:9], {}, DataError, "9 columns"),
    "no tags": (lambda cells: [*cells[:3], "_", *cells[4:]], {}, DataError, "UPOS is empty"),
    "one tag": (lambda cells: [*cells[:3], "X", "_", "_", *cells[6:]], {}, DataError, "nothing to learn"),
    "a label": (list, {"label_column": "XPOS"}, ConfigError, "UPOS, XPOS"),
    "weights": (list, {"class_weights": "balanced"}, ConfigError, "no classes"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_bad_input_is_one_clear_line(case: str, bank: Bank) -> None:
    change, options, error, part = ERRORS[case]
    folder = bank(change)
    with pytest.raises(error) as caught:
        task = load_task("ud").with_options(TaskOptions(**options))
        read_dataset(toy_task.settings(folder.parent / "out", folder, "ud"), task)
    assert part in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::electra.foundation.errors.DamagedModel")
def test_a_saved_model_is_checked_and_another_script_is_noted(bank: Bank, tmp_path: Path) -> None:
    tuned(bank())
    predictor = open_predictor(str(tmp_path / "out"), allow_unknown=True)
    assert any("CYRILLIC" in note for note in predictor.texts([["новый", "город"]]).notes)
    with pytest.raises(ConfigError):
        predictor.texts([["fine"]], scores=True)
    path = tmp_path / "out/model/config.json"
    config = json.loads(path.read_text())
    config["treebank"]["words"][0][1] = 99
    path.write_text(json.dumps(config))
    with pytest.raises(ModelError):
        open_predictor(str(tmp_path / "out"))


def test_the_loss_is_the_sum_of_the_columns() -> None:
    gold = ((Tags(*NOUN), "a"), (Tags(*VERB), "b"), (Tags(*END), "c"))
    task: Any = load_task("ud").fit([Example("0", "f:1", ("a", "b", "c"), gold)])
    unseen = Tags("NOUN", "NN-S", "Case=Gen")  # a value that train lacks has no target
    targets = torch.tensor(task.gold_classes(Example("1", "f:2", ("x",), ((unseen, "x"),))))
    logits = torch.randn(1, 1, task.num_outputs, generator=torch.Generator().manual_seed(0))
    named = dict(zip(task.labels, logits[0, 0], strict=True))
    columns: dict[str, dict[str, torch.Tensor]] = {}
    for label, value in named.items():
        columns.setdefault(label.partition("=")[0], {})[label.partition("=")[2]] = value
    wanted = {"UPOS": "NOUN", "FEATS NumForm": "_", "FEATS Tense": "_"}
    wanted |= {f"XPOS {i}": part for i, part in enumerate("NN-S", 1)}
    expected = sum(-F.log_softmax(torch.stack([*columns[name].values()]), 0)[[*columns[name]].index(value)]
                   for name, value in wanted.items())  # fmt: skip
    loss, count = task.loss(logits, targets[None])
    assert columns.keys() - wanted.keys() == {"FEATS Case"} and (targets == NO_TARGET).sum() == 1
    torch.testing.assert_close(loss, expected)
    assert count == 1


@pytest.mark.parametrize(
    ("form", "lemma", "other", "expected"),
    [
        *(("borgina", "borg", "myndina", "mynd"), ("Gengum", "ganga", "fengum", "fanga")),
        *(("Paris", "Paris", "Rome", "Rome"), ("ROME", "Rome", "PARIS", "Paris")),
        *(("gemacht", "machen", "gelacht", "lachen"), ("was", "be", "is", "be")),
        ("ina", "x", "a", "x"),  # nothing in common
    ],
)
def test_rules_of_lemmas(form: str, lemma: str, other: str, expected: str) -> None:
    assert rule_of(form, lemma)(form) == lemma and rule_of(form, lemma)(other) == expected


def test_lemmas_are_known_ones_or_by_the_longest_ending() -> None:
    cats = [(f"{form}s", 0, "NOUN", form) for form in ("cat", "hat")]
    lemmas = Lemmas([("leaves", 0, "NOUN", "leaf"), ("leaves", 1, "VERB", "leave"), *cats])
    assert [lemmas("leaves", *of) for of in ((0, "NOUN"), (1, "VERB"), (7, "VERB"))] == [
        "leaf",
        "leave",
        "leave",
    ]
    assert lemmas("Dogs", 0, "NOUN") == "dog" and lemmas("Paris", 5, "PROPN") == "Paris"
