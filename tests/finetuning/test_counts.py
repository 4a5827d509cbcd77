"""Counted features, the linear model of blocks, and the head `counts`."""

import random
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contracts import toy_task
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import normalize

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.exchange.load import load
from electra.finetuning import counts, linear_fit
from electra.finetuning.counts import Counts
from electra.finetuning.heads.counts import WordStates
from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.labelled.examples import Example
from electra.finetuning.linear_fit import Problem
from electra.finetuning.predict import export_tuned, open_predictor
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.windows.features import Tokens, collate
from electra.foundation.errors import ModelError
from electra.model.hidden import hidden_states

SENTENCES = [("fine", "film", "of"), ("a.", "grim", "..."), ("kind",)]

TEXTS = [("a good day",), ("a bad day, bad luck",), ("दिन अच्छा था",), ("",)]


def of_text(texts: tuple[str, ...]) -> list[str]:
    """The features of a text, spelled out."""
    words = re.findall(r"\w+|[^\w\s]", texts[0].lower())
    padded = [f" {word} " for word in words]
    grams = [f"={word[i : i + n]}" for word in padded for n in (2, 3, 4, 5) for i in range(len(word) - n + 1)]
    return [*words, *(f"{first} {second}" for first, second in pairwise(words)), *grams]


def of_words(sentence: tuple[str, ...]) -> list[set[str]]:
    """The features of each word of a sentence, spelled out."""
    rows, padded = list[set[str]](), ("", "", *sentence, "", "")
    for place, word in enumerate(padded[2:-2], 2):
        low, before = word.lower(), padded[place - 1]
        row = {"any", f"w{word}", f"l{low}", f"s{counts.shape(word)}", f"S{counts.shape(before)}"}
        row |= {f"p{low[:n]}" for n in range(1, 5) if n <= len(word)}
        row |= {f"e{low[-n:]}" for n in range(1, 5) if n <= len(word)} | {f"{before.lower()} {low}"}
        for step in (-2, -1, 1, 2):
            other = padded[place + step].lower()
            row |= {f"{step}={other}", f"{step}-2{other[-2:]}", f"{step}-3{other[-3:]}"}
        rows.append(row)
    return rows


def test_the_weights_of_a_text_are_those_of_scikit_learn() -> None:
    oracle = TfidfVectorizer(analyzer=of_text, sublinear_tf=True, norm=None).fit(TEXTS)
    factors = [0.4 if name.startswith("=") else 1.0 for name in oracle.get_feature_names_out()]
    expected, learned = normalize(oracle.transform(TEXTS).multiply(factors)), Counts.learn("texts", TEXTS, 2)
    found = learned.matrix(TEXTS)
    assert found.shape == expected.shape, "no two features have the same hash"
    assert (found @ found.T).toarray() == pytest.approx((expected @ expected.T).toarray(), abs=1e-6)
    assert learned.matrix([("unseen",)]).nnz == 0, "new features are left out"


def test_what_is_counted_of_a_word() -> None:
    sentences = [("Ég", "sá", "Jón-2", "sá"), ("sá", "3"), ("ég",)]
    rows = [row for sentence in sentences for row in of_words(sentence)]
    found = Counts.learn("words", sentences, 2).matrix(sentences)
    assert found.shape == (len(rows), len(set.union(*rows)))
    assert (found @ found.T).toarray().tolist() == [[len(a & b) for b in rows] for a in rows]
    assert [counts.shape(word) for word in ("Hall", "3-4", "iPhone")] == ["Xx", "d-d", "xXx"]


def test_few_features_are_kept_and_the_most_frequent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_WEIGHTS", 9)
    texts = [("x", "y"), ("x", "z")]
    learned = Counts.learn("words", texts, 3)
    assert learned.matrix(texts).shape == (4, 3)
    assert learned.matrix(texts).toarray().sum(0).min() == 4, "those that every word has"
    chosen = learned.matrix(texts, [np.array([1]), np.array([], np.int64)])
    assert chosen.toarray().tolist() == learned.matrix(texts).toarray()[1:2].tolist()


def test_the_overlaps_of_a_pair_do_not_depend_on_the_order_of_its_words() -> None:
    pairs = [("the cat sat", "the dog sat"), ("a mouse", "the mouse")]
    learned = Counts.learn("pairs", pairs, 2)
    rows = learned.overlaps([("the cat", "cat the"), ("cat", "mouse"), ("new", "new")])
    assert rows[0, :3].tolist() == rows[2, :3].tolist() == [1, 1, 1] and rows[1, -1] == 0
    rare, frequent = learned.overlaps([("cat sat", "cat dog"), ("the sat", "the dog")])[:, -1]
    assert rare > frequent, "a rare word in common is worth more"
    first, turned = learned.matrix([("cat", "dog"), ("dog", "cat")]).toarray()
    assert (first != turned).any(), "which text has a word is counted, too"


TASKS: dict[str, Any] = {
    "classes": load_task("classification"),
    "labels": load_task("classification").with_options(TaskOptions(multi_label=True)),
    "numbers": load_task("regression"),
}


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("balanced", [False, True])
def test_the_fit_of_blocks_is_that_of_scikit_learn(kind: str, balanced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TOLERANCE": 0.0, "ITERATIONS": 500, "BIAS_PENALTY": 0.0}.items():
        monkeypatch.setattr(linear_fit, name, value)
    rng, strength, share = np.random.default_rng(0), 2.0, 0.5
    x_ND = rng.normal(size=(80, 6)).astype(np.float32)
    x_ND[:, 3:] *= rng.random((80, 3)) < 0.3
    scores = x_ND @ rng.normal(size=(6, 3)) + rng.normal(size=(80, 3)) + [0, 1, 0]
    gold: Any = {"classes": scores.argmax(1).astype(str), "numbers": scores[:, 0]}.get(kind)
    if kind == "labels":
        gold = [("b",) if score > 0 else ("a",) for score in scores[:, 0]]
    rows = [Example(str(i), "f", ("x",), answer) for i, answer in enumerate(gold)]
    task = replace(TASKS[kind], balanced=balanced and kind != "numbers").fit(rows)
    targets = np.stack([task.target(row) for row in rows])
    blocks = [x_ND[:, :3], csr_array(x_ND[:, 3:])]
    found = linear_fit.fit(Problem(task, blocks, targets, strength, share))(blocks)
    parts = [x_ND[:, :3] - x_ND[:, :3].mean(0), x_ND[:, 3:]]
    norms = [np.sqrt((part * part).sum(1).mean()) for part in parts]
    x = np.hstack([parts[0] / norms[0] * share, parts[1] / norms[1]])
    if kind == "numbers":  # the loss is the squared error, not half of it
        oracle = Ridge(1 / (2 * strength)).fit(x, targets)
        assert found[:, 0] == pytest.approx(oracle.predict(x), abs=2e-3)
        return
    classes, weight = targets[:, 1] if kind == "labels" else targets, None
    if balanced:  # those that have a label weigh as much as the others
        ratio = (classes == 0).sum() / (classes == 1).sum()
        weight = "balanced" if kind == "classes" else {0: 1.0, 1: ratio}
    model = LogisticRegression(C=strength, tol=1e-8, max_iter=5000, class_weight=weight)
    expected = model.fit(x, classes).decision_function(x)
    if kind == "labels":
        found = found[:, 1]
    else:
        found, expected = (each - each.mean(1, keepdims=True) for each in (found, expected))
    assert found == pytest.approx(expected, abs=5e-3)


def test_rows_of_a_fold_are_held_out_together_and_noise_gets_a_strong_penalty() -> None:
    """Each row lies there six times: if copies were on both sides, memory would win."""
    rng = np.random.default_rng(0)
    x_ND = np.repeat(rng.normal(size=(60, 40)), 6, axis=0).astype(np.float32)
    targets = np.repeat(rng.integers(2, size=60), 6)
    problem = Problem(TASKS["classes"].rebuilt(("a", "b"), {}), [x_ND], targets)
    together, apart = np.repeat(np.arange(60) % 5, 6), np.arange(360) % 5
    assert [linear_fit.tuned(problem, folds).strength for folds in (together, apart)] == [0.5, 2000.0]
    problem = replace(problem, strength=2000.0)
    outputs = [linear_fit.out_of_fold(problem, folds) for folds in (together, apart)]
    shares = [(found.argmax(1) == targets).mean() for found in outputs]
    assert shares[0] < 0.7 and shares[1] > 0.9
    signal_N1 = (targets ^ (rng.random(360) < 0.1))[:, None].astype(np.float32)
    for blocks, is_kept in (([x_ND, signal_N1], False), ([signal_N1, x_ND], True)):
        found = linear_fit.tuned(replace(problem, blocks=blocks), together)
        assert (found.share == max(linear_fit.SHARES["classifier"])) == is_kept


def test_few_rows_are_fitted_by_their_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_fit, "TOLERANCE", 0.0)
    rng = np.random.default_rng(0)
    x_ND = (rng.random((60, 150)) * (rng.random((60, 150)) < 0.2)).astype(np.float32)
    task, targets, folds = (
        TASKS["classes"].rebuilt(("a", "b"), {}),
        rng.integers(2, size=60),
        np.arange(60) % 5,
    )
    problem = Problem(task, [rng.normal(size=(60, 3)).astype(np.float32), csr_array(x_ND)], targets, 10.0)
    few = linear_fit.out_of_fold(problem, folds)
    monkeypatch.setattr(linear_fit, "FEW_ROWS", 0)
    assert few == pytest.approx(linear_fit.out_of_fold(problem, folds), abs=5e-3)


ENDS = {"N": "ing", "V": "ert", "X": "oh"}  # of words: their tags


def write_all(folder: Path, task: str) -> Path:
    """Data that counting answers: endings (of words that no tokenizer knows), words, or common words."""
    folder.mkdir()
    for name, count in (("train", 90), ("dev", 40)):
        draw, rows = random.Random(name), list[str]()
        for i in range(count):
            text, other = (" ".join(draw.choices(each, k=5)) for each in (toy_task.OTHER, toy_task.GOOD))
            if task == "tagging":
                tags = draw.choices("NVX", k=draw.randint(2, 12))
                rows += [f"{''.join(draw.choices('abkrst', k=4))}{ENDS[tag]}\t{tag}" for tag in tags] + [""]
            elif task == "pair":
                rows.append(f"{text} ok{i % 3}\t{text if i % 2 else other}\t{i % 2}")
            else:
                rows.append(f"{text} ok{i % 3}\t{i % 3}")
        header = {"pair": ["text_a\ttext_b\tlabel"], "classification": ["text\tlabel"]}.get(task, [])
        (folder / f"{name}.{'tsv' if header else 'conll'}").write_text("\n".join([*header, *rows]))
    return folder


OPTIONS: dict[str, Any] = {"head": "counts", "epochs": None, "learning_rate": None, "layer_decay": None}
OPTIONS["allow_unknown"] = True


@pytest.mark.parametrize("encoder", ["modern_folder", "electra_folder"])
@pytest.mark.parametrize("task", ["tagging", "classification", "pair"])
def test_the_head_learns_what_counting_shows_and_its_folder_is_whole(
    task: str, encoder: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    data, model = write_all(tmp_path / "data", task), str(request.getfixturevalue(encoder))
    settings = toy_task.settings(tmp_path / "out", data, task, **OPTIONS, seeds=2)
    said = list[str]()
    results = finetune(model, settings, said.append)
    assert results["steps"] == 0 and results["eval_accuracy"] > 0.95
    assert results["eval_accuracy_by_seed"][0] == results["eval_accuracy"], "nothing is drawn"
    assert any("transformers has no class with the head counts" in line for line in said)
    [file] = data.glob("dev.*")
    answers = open_predictor(str(tmp_path / "out/model"), allow_unknown=True)(file)
    written = [
        line.split("\t") for line in FinetuningFolder(tmp_path / "out").seed(0).table("dev").read_text().splitlines()
    ]
    assert answers.rows() == [tuple(row) for row in written]
    with pytest.raises(ModelError, match="head counts"):
        export_tuned(str(tmp_path / "out"), tmp_path / "graph")
    from transformers import AutoModel

    assert AutoModel.from_pretrained(tmp_path / "out/model").config.hidden_size == 32


DAMAGE: dict[str, Any] = {
    "fewer": lambda head: {"rarity": head["rarity"][1:].clone()},
    "unsorted": lambda head: {"hashes": head["hashes"].flip(0)},
    "no number": lambda head: {"counted": head["counted"] * torch.nan},
    "none": lambda head: {"hashes": None},
}


@pytest.mark.parametrize("change", DAMAGE)
def test_a_damaged_vocabulary_is_refused(change: str, tmp_path: Path, modern_folder: Path) -> None:
    data = write_all(tmp_path / "data", "tagging")
    finetune(str(modern_folder), toy_task.settings(tmp_path / "out", data, "tagging", **OPTIONS))
    file = tmp_path / "out/model/head.safetensors"
    head = load_file(file)
    head |= DAMAGE[change](head)
    save_file({name: each for name, each in head.items() if each is not None}, file)
    with pytest.raises(ModelError):
        open_predictor(str(tmp_path / "out"))


def test_a_word_has_the_mean_of_the_states_of_its_tokens(modern_folder: Path) -> None:
    loaded = load(str(modern_folder), "encoder")
    sentences = [Example(str(i), "f", words, ("a", "b", "a")[: len(words)]) for i, words in enumerate(SENTENCES)]
    task = load_task("tagging").fit(sentences)
    windows = task.featurize(sentences, Tokens(loaded.tokenizer), 24)
    shape = HeadShape("tagger", loaded.config, 2)
    batch = collate(windows, np.arange(len(windows)), loaded.tokenizer.specials.pad)
    with torch.inference_mode():
        found = WordStates(shape).encode(loaded.encoder, batch)
    for row, words in enumerate(SENTENCES):
        ids = torch.tensor([loaded.tokenizer.encode(" ".join(words)).ids])
        with torch.inference_mode():
            layers = [states[0] for states in hidden_states(loaded.encoder, ids)[-2:]]
        place = 1
        for word in words:
            size = len(loaded.tokenizer.encode(word).ids) - 2
            means = [states[place : place + size].mean(0) for states in layers]
            expected = torch.cat([layers[-1][place], *means])
            assert found[row, place].numpy() == pytest.approx(expected.numpy(), abs=1e-5)
            place += size
