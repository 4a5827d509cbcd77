"""Counted features, the linear model of blocks, and the head `counts`."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from contracts import toy_task
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.exchange.load import load
from electra.finetuning import counts, linear_fit
from electra.finetuning.counts import Counts
from electra.finetuning.heads.counts import WordStates
from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.labelled.examples import Example
from electra.finetuning.linear_fit import Problem
from electra.finetuning.predict import export_tuned, open_predictor
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.windows.features import Tokens, collate
from electra.foundation.errors import ModelError
from electra.model.hidden import hidden_states

SENTENCES = [("fine", "film", "of"), ("a.", "grim", "..."), ("kind",)]

TEXTS = [("a good day",), ("a bad day, bad luck",), ("दिन अच्छा था",), ("",)]


def test_the_weights_of_a_text_are_those_of_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    analyzer = lambda texts: counts.of_text(texts)[0]  # noqa: E731
    oracle = TfidfVectorizer(analyzer=analyzer, sublinear_tf=True).fit(TEXTS)
    expected, learned = oracle.transform(TEXTS), Counts.learn("texts", TEXTS, 2)
    found = learned.matrix(TEXTS)
    assert found.shape == expected.shape, "no two features have the same hash"
    assert (found @ found.T).toarray() == pytest.approx((expected @ expected.T).toarray(), abs=1e-6)
    assert learned.matrix([("unseen",)]).shape == (1, len(learned.hashes)), "new features are left out"


def test_what_is_counted_of_a_word() -> None:
    first, middle, last = counts.of_words(("Ég", "sá", "Jón-2"))
    assert {"wÉg", "lég", "sXx", "pé", "eég", "1=sá", "2-2-2", "-1"} <= {*first}
    assert {"lsá", "-1=ég", "bég sá", "SXx", "1=jón-2"} <= {*middle}
    assert {"sXx-d", "e-2", "pjón-"} <= {*last} and "pjón-2" not in last
    assert len({*middle}) == len(middle), "each is counted once"


def test_few_features_are_kept_and_the_most_frequent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_WEIGHTS", 9)
    texts = [("x", "y"), ("x", "z")]
    learned = Counts.learn("words", texts, 3)
    assert learned.matrix(texts).shape == (4, 3)
    assert learned.matrix(texts).toarray().sum(0).min() == 4, "those that every word has"
    chosen = Counts.learn("words", texts, 2).matrix(texts, [np.array([1]), np.array([], np.int64)])
    assert chosen.shape[0] == 1


def test_the_overlaps_of_a_pair_do_not_depend_on_the_order_of_its_words() -> None:
    pairs = [("the cat sat", "the dog sat"), ("a mouse", "the mouse")]
    learned = Counts.learn("pairs", pairs, 2)
    rows = learned.matrix([("the cat", "cat the"), ("cat", "mouse"), ("new", "new")]).toarray()
    assert rows[0, :3].tolist() == rows[2, :3].tolist() == [1, 1, 1] and rows[1, -1] == 0
    rare, frequent = learned.matrix([("cat sat", "cat dog"), ("the sat", "the dog")]).toarray()[:, -1]
    assert rare > frequent, "a rare word in common is worth more"


@pytest.mark.parametrize("kind", ["classes", "labels", "numbers"])
def test_the_fit_of_blocks_is_that_of_scikit_learn(kind: str) -> None:
    rng = np.random.default_rng(0)
    x_ND, strength = rng.normal(size=(80, 6)).astype(np.float32), 0.5
    x_ND[:, 3:] *= rng.random((80, 3)) < 0.3
    scores = x_ND @ rng.normal(size=(6, 3)) + rng.normal(size=(80, 3))
    classes, labels = scores.argmax(1), (scores[:, :1] > 0).astype(np.float32)
    answers = {
        "classes": np.eye(3)[classes],
        "labels": labels,
        "numbers": scores[:, :1] - scores[:, 0].mean(),
    }
    blocks = [x_ND[:, :3], csr_array(x_ND[:, 3:])]
    problem = Problem(kind, blocks, answers[kind].astype(np.float32), np.ones(80, np.float32))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_fit, "TOLERANCE", 1e-9)
        patch.setattr(linear_fit, "ITERATIONS", 300)
        found = linear_fit.fit(problem, strength)(blocks)
    if kind == "numbers":
        oracle = Ridge(1 / strength).fit(x_ND, answers[kind][:, 0])
        assert found[:, 0] == pytest.approx(oracle.predict(x_ND), abs=2e-3)
        return
    gold = classes if kind == "classes" else labels[:, 0]
    expected = LogisticRegression(C=strength, tol=1e-6).fit(x_ND, gold).decision_function(x_ND)
    if kind == "classes":
        found, expected = (each - each.mean(1, keepdims=True) for each in (found, expected))
    assert found.squeeze() == pytest.approx(expected.squeeze(), abs=5e-3)


def test_rows_of_a_group_are_held_out_together_and_noise_gets_a_strong_penalty() -> None:
    """Each row lies there six times: if copies were on both sides, memory would win."""
    rng = np.random.default_rng(0)
    x_ND = np.repeat(rng.normal(size=(60, 40)), 6, axis=0).astype(np.float32)
    block, _, _ = linear_fit.standardised(x_ND)
    answers = np.eye(2, dtype=np.float32)[np.repeat(rng.integers(2, size=60), 6)]
    problem, strengths = Problem("classes", [block], answers, np.ones(360, np.float32)), (0.01, 100.0)
    size = {
        name: np.abs(linear_fit.fit_by_folds(problem, groups, strengths=strengths).weights[0]).max()
        for name, groups in {"together": np.repeat(np.arange(60), 6), "apart": np.arange(360)}.items()
    }
    assert size["together"] < 0.5 < size["apart"]


def test_a_block_of_noise_is_scaled_down() -> None:
    rng = np.random.default_rng(0)
    good, noise = rng.normal(size=(300, 4)).astype(np.float32), rng.normal(size=(300, 80)).astype(np.float32)
    blocks = [linear_fit.standardised(each)[0] for each in (noise, good)]
    answers = np.eye(2, dtype=np.float32)[(good.sum(1) > 0).astype(int)]
    problem, scales = Problem("classes", blocks, answers, np.ones(300, np.float32)), ((1.0, 1.0), (0.1, 1.0))
    groups = np.arange(300)
    free, fixed = (linear_fit.fit_by_folds(problem, groups, each) for each in (scales, scales[:1]))
    assert np.abs(free.weights[0]).mean() < 0.3 * np.abs(fixed.weights[0]).mean()


def write_words(folder: Path, name: str, count: int) -> None:
    """Sentences in which a word's ending is its tag; words are new, so a tokenizer knows none of them."""
    draw = random.Random(name)
    ends = {"N": "ing", "V": "ert", "X": "oh"}
    rows = []
    for _ in range(count):
        tags = [draw.choice("NVX") for _ in range(draw.randint(2, 12))]
        rows += [f"{''.join(draw.choices('abkrst', k=4))}{ends[tag]}\t{tag}" for tag in tags] + [""]
    (folder / f"{name}.conll").write_text("\n".join(rows))


def write_all(folder: Path, task: str) -> Path:
    """Data that counting answers: endings, words, or words in common."""
    folder.mkdir()
    for name, count in (("train", 90), ("dev", 40)):
        if task == "tagging":
            write_words(folder, name, count)
            continue
        draw = random.Random(name)
        texts = [" ".join(draw.choices(toy_task.OTHER, k=5)) for _ in range(count)]
        lines = [f"{text} ok{i % 3}\t{i % 3}" for i, text in enumerate(texts)]
        if task == "pair":
            others = [
                text if i % 2 else " ".join(draw.choices(toy_task.GOOD, k=5)) for i, text in enumerate(texts)
            ]
            lines = [
                f"{text}\t{other}\t{i % 2}" for i, (text, other) in enumerate(zip(texts, others, strict=True))
            ]
        header = "text_a\ttext_b\tlabel" if task == "pair" else "text\tlabel"
        (folder / f"{name}.tsv").write_text("\n".join([header, *lines]))
    return folder


@pytest.mark.parametrize("encoder", ["modern_folder", "electra_folder"])
@pytest.mark.parametrize("task", ["tagging", "classification", "pair"])
def test_the_head_learns_what_counting_shows_and_its_folder_is_whole(
    task: str, encoder: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    data, model = write_all(tmp_path / "data", task), str(request.getfixturevalue(encoder))
    options = {"head": "counts", "epochs": None, "learning_rate": None, "layer_decay": None}
    settings = toy_task.settings(tmp_path / "out", data, task, **options, allow_unknown=True, seeds=2)
    said = list[str]()
    results = finetune(model, settings, said.append)
    assert results["steps"] == 0 and results["eval_accuracy"] > 0.95
    assert results["eval_accuracy_by_seed"][0] == results["eval_accuracy"], "nothing is drawn"
    assert any("transformers has no class with the head counts" in line for line in said)
    [file] = data.glob("dev.*")
    answers = open_predictor(str(tmp_path / "out/model"), allow_unknown=True)(file)
    written = [
        line.split("\t")
        for line in FinetuningFolder(tmp_path / "out").seed(0).table("dev").read_text().splitlines()
    ]
    assert answers.rows() == [tuple(row) for row in written]
    with pytest.raises(ModelError, match="head counts"):
        export_tuned(str(tmp_path / "out"), tmp_path / "graph")
    from transformers import AutoModel

    assert AutoModel.from_pretrained(tmp_path / "out/model").config.hidden_size == 32


@pytest.mark.parametrize("change", ["fewer", "unsorted", "no number", "none"])
def test_a_damaged_vocabulary_is_refused(change: str, tmp_path: Path, modern_folder: Path) -> None:
    data = write_all(tmp_path / "data", "tagging")
    options = {"head": "counts", "epochs": None, "learning_rate": None, "layer_decay": None}
    finetune(
        str(modern_folder),
        toy_task.settings(tmp_path / "out", data, "tagging", **options, allow_unknown=True),
    )
    file = tmp_path / "out/model/head.safetensors"
    head = load_file(file)
    if change == "fewer":
        head["rarity"] = head["rarity"][1:].clone()
    elif change == "unsorted":
        head["hashes"] = head["hashes"].flip(0)
    elif change == "no number":
        head["counted"][0, 0] = torch.nan
    else:
        del head["hashes"]
    save_file(head, file)
    with pytest.raises(ModelError):
        open_predictor(str(tmp_path / "out"))


def test_a_word_has_the_mean_of_the_states_of_its_tokens(modern_folder: Path) -> None:
    loaded = load(str(modern_folder), "encoder")
    sentences = [
        Example(str(i), "f", words, ("a", "b", "a")[: len(words)]) for i, words in enumerate(SENTENCES)
    ]
    task = load_task("tagging").fit(sentences)
    windows = task.featurize(sentences, Tokens(loaded.tokenizer), 24)
    shape = HeadShape("tagger", loaded.config, 2)
    batch = collate(windows, np.arange(len(windows)), loaded.tokenizer.specials.pad)
    with torch.inference_mode():
        found = WordStates(shape).encode(loaded.encoder, batch)
    for row, words in enumerate(SENTENCES):
        ids = torch.tensor([loaded.tokenizer.encode(" ".join(words)).ids])
        with torch.inference_mode():
            states = torch.cat(hidden_states(loaded.encoder, ids)[-2:], -1)[0]
        place = 1
        for word in words:
            size = len(loaded.tokenizer.encode(word).ids) - 2
            expected = states[place : place + size].mean(0)
            assert found[row, place].numpy() == pytest.approx(expected.numpy(), abs=1e-5)
            place += size
