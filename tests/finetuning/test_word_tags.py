"""Tagging: files of every format, words and pieces, windows, entity F1, and the saved model."""

import random
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from contracts import toy_task
from test_finetune import read_tsv, tuning_for

from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import TokenizerConfig
from electra.exchange.load import load
from electra.finetuning.labelled.examples import Example
from electra.finetuning.predict import open_predictor
from electra.finetuning.score.entities import complete_tags, entities, entity_scores
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.windows.features import NO_TARGET, Tokens
from electra.finetuning.word_tags import WordTagging, word_windows
from electra.foundation.errors import DataError, Interrupted

CONLLU = """# sent_id = s1
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t_\t_\t_\tGED=i
2\tn't\tnot\tPART\t_\t_\t_\t_\t_\tSpaceAfter=No
2.1\tyou\tyou\tPRON\t_\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_

1\tStop\tstop\tVERB\t_\t_\t_\t_\t_\t_
"""
COLUMNS = "-DOCSTART- X O\n\nAl NNP B-NP\nran VBD B-VP\r\n\n\n# NN B-NP\n"
BODY = "Al\tX\nran\tY\n"
NAMED: dict[str, Any] = {"header": ("w", "p", "c"), "texts": (("w",),), "label": ("p",)}
FILES: list[tuple[str, str, str, dict[str, Any], str]] = [  # task, name, content, changes, words/tags
    ("pos", "a.conllu", CONLLU, {}, "Do/AUX n't/PART go/VERB, Stop/VERB"),
    ("chunking", "a.txt", COLUMNS, {}, "Al/B-NP ran/B-VP, #/B-NP"),
    ("pos", "a.conllup", "# global.columns = ID FORM UPOS\n1\tAl\tX\n", {}, "Al/X"),
    ("tagging", "a.txt", COLUMNS, {"label": ("2",)}, "Al/NNP ran/VBD, #/NN"),
    ("tagging", "a.txt", COLUMNS, NAMED, "Al/NNP ran/VBD, #/NN"),
    ("tagging", "a.tsv", "lemma\ttoken\ttag\nal\tAl\tX\n\nrun\tran\tY\n", {}, "Al/X, ran/Y"),
    ("tagging", "a.tsv", "token\ttag\n\nran\tY\n", {}, "ran/Y"),
    ("tagging", "a.tsv", "word\ttag\n" + BODY, {"header": ("word", "tag")}, "Al/X ran/Y"),  # named twice
    ("tagging", "a.tsv", "form\tupos\n" + BODY, {"label": ("upos",)}, "Al/X ran/Y"),
    ("tagging", "a.tsv", "word\tX\nran\tX\n", {}, "word/X ran/X"),  # a word like others
    ("tagging", "a.tsv", f"-DOCSTART-\n{BODY}-DOCSTART-\tX\n\n{BODY}", {}, "Al/X ran/Y, Al/X ran/Y"),
    ("ner", "a.csv", "tokens,tags\nAl ran,B-PER O\n", {}, "Al/B-PER ran/O"),
    ("ner", "a.csv", "Sentence #,Word,Tag\n1,Al,B-PER\n,ran,O\n2,Bo,O\n", {}, "Al/B-PER ran/O, Bo/O"),
    ("tagging", "a.jsonl", '{"words": ["Al", "ran"], "tags": [0, 1]}\n', {}, "Al/0 ran/1"),
    ("pos", "a.tsv", "#\t#\n-\t-\ntwo\tCD\n\none\tCD\n#\t#\n", {}, "#/# -/- two/CD, one/CD #/#"),
    ("ner", "a.conll", "x - (P*\ny - *)\nz - *\n", {"label": ("3",)}, "x/B-P y/I-P z/O"),  # CoNLL-2012
    ("pos", "a.conll", f"x X{' -' * 9}\n\ny Y{' -' * 10}\n", {"label": ("2",)}, "x/X, y/Y"),  # the same
]
UNLABELLED = [  # a header line is not a word
    ("ner", "Al\nran\n", {}, "Al ran"),
    ("tagging", "word\npos\n", {}, "pos"),
    ("chunking", "word\tpos\n" + BODY, {}, "Al ran"),
    ("tagging", "Al\nran\n", {"header": ("word", "tag")}, "Al ran"),
    ("tagging", "Al\nran\n", {"texts": (("text",),)}, "Al ran"),  # read from texts in training
]


def read(task: str, path: Path, content: str, labelled: bool = True, **changes: Any) -> list[Example]:
    path.write_text(content)
    return list(replace(load_task(task), **changes).read(path, labelled).examples)


@pytest.mark.parametrize("case", FILES)
def test_files_of_every_format(case: tuple[str, str, str, dict[str, Any], str], tmp_path: Path) -> None:
    task, name, content, changes, expected = case
    examples = read(task, tmp_path / name, content, **changes)
    pairs = [zip(example.texts, example.gold, strict=True) for example in examples]
    assert ", ".join(" ".join(map("/".join, words)) for words in pairs) == expected


@pytest.mark.parametrize(("task", "content", "changes", "expected"), UNLABELLED)
def test_files_without_tags(task: str, content: str, changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    [example] = read(task, tmp_path / "a.tsv", content, labelled=False, **changes)
    assert (" ".join(example.texts), example.gold) == (expected, None)


def test_sentences_have_names_and_places(tmp_path: Path) -> None:
    first, second = read("pos", tmp_path / "a.conllu", CONLLU)
    assert (first.id, str(first.where), second.id) == ("s1", f"{tmp_path}/a.conllu:4", "1")


def test_a_word_without_a_piece_gets_the_same_tag_in_training_and_prediction(
    electra_folder: Path, tmp_path: Path
) -> None:
    train, test, out = tmp_path / "train.tsv", tmp_path / "test.tsv", tmp_path / "out"
    train.write_text("the\tZ\nfilm\tA\nfine\tZ\n\n" * 20)
    test.write_text("the\tZ\n\u200b\u0007\tZ\n")
    finetune(str(electra_folder), toy_task.settings(out, train, "tagging", dev=train, test=test, epochs=0.5))
    assert open_predictor(str(out))(test).rows()[2][2] == "Z"
    assert read_tsv(out / "seeds/seed-0/test.tsv")[1]["label"] == "Z"


def test_tags_absent_from_training_are_separate() -> None:
    """Two words of unseen tags would else be two of one class, and its F1 one of three, not of four."""
    from sklearn.metrics import f1_score

    task = replace(load_task("pos"), labels=("a", "b"), metrics=("accuracy", "f1_macro"))
    assert isinstance(task, WordTagging)
    gold, said = "aabbcd", "aabbab"
    examples = [Example("0", "f:1", tuple("uvwxyz"), tuple(gold))]
    predictions = [np.eye(2, dtype=np.float32)[["ab".index(tag) for tag in said]]]
    scores = task.score(predictions, examples)
    assert scores["f1_macro"].value == pytest.approx(f1_score(list(gold), list(said), average="macro"))
    assert scores["accuracy"].value == pytest.approx(4 / 6)


TAGS = ["O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b"]
SPELLED: dict[str, Any] = {
    "B-PER": str,
    "B_PER": lambda tag: tag.replace("-", "_"),
    "b-per": str.lower,
    "BILOU": lambda tag: {"E": "L", "S": "U"}.get(tag[0], tag[0]) + tag[1:],
}


@pytest.mark.parametrize("spelling", SPELLED)
@pytest.mark.parametrize("known", [["O", "B-a", "I-a", "B-b", "I-b"], TAGS], ids=["BIO", "BIOES"])
def test_entities_are_those_of_seqeval(known: list[str], spelling: str) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    draw, spelled = random.Random(0), SPELLED[spelling]
    rows = [[draw.choice(known) for _ in range(draw.randint(1, 9))] for _ in range(500)]
    gold = [[tag if draw.random() < 0.8 else draw.choice(known) for tag in row] for row in rows]
    ours, theirs = ([[spelled(tag) for tag in row] for row in tags] for tags in (rows, gold))
    for row, own in zip(rows, ours, strict=True):
        assert [(kind, first, last) for first, last, kind in entities(own)] == labeling.get_entities(row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, score in entity_scores(ours, theirs).items():
            assert score.value == pytest.approx(getattr(metrics, f"{name}_score")(gold, rows))
    some = [spelled(tag) for tag in ("O", "B-a", "I-a", "B-b")]
    assert set(complete_tags(some)) == {*some, spelled("I-b")}


def test_undefined_scores() -> None:
    none, missed = entity_scores([["O"]], [["O"]]), entity_scores([["O"]], [["B-a"]])
    assert [none[name].value for name in ("f1", "precision", "recall")] == [None] * 3
    assert [missed[name].value for name in ("f1", "precision", "recall")] == [0.0, None, 0.0]


def test_errors_are_scored_by_f_half(tmp_path: Path) -> None:
    from sklearn.metrics import fbeta_score

    draw = np.random.default_rng(0)
    task = load_task("ged")
    assert isinstance(task, WordTagging)
    gold, ours = draw.integers(0, 2, 300), draw.integers(0, 2, 300)
    examples = [Example("0", "f:1", tuple("x" * 300), tuple("ci"[i] for i in gold))]
    scores = task.score([np.eye(2)[ours]], examples)
    assert scores["f0_5"].value == pytest.approx(fbeta_score(gold, ours, beta=0.5))


def wordpiece() -> Tokenizer:
    texts = [
        "the unbelievable international organisation of playing players",
        "1980s don't it's e-mail naive cafe",
    ] * 20
    return Tokenizer.train([*texts, *texts], TokenizerConfig(vocab_size=70))


def byte_level() -> Tokenizer:
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["<s>", "</s>", "<pad>", "<unk>", "<mask>"]
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(["the unbelievable international organisation of players"] * 20, trainer)
    raw.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=False, add_prefix_space=False
    )
    return Tokenizer(raw.to_str(), {})


WORDS = str.split("The|unbelievable|\u200d|don't|caf\u00e9|1 000|players|\x00|!?|xq\U0001f600z", "|")


@pytest.mark.parametrize("tokenizer", [wordpiece, byte_level])
def test_a_word_is_tagged_at_its_first_piece(tokenizer: Any) -> None:
    made = tokenizer()
    [window] = word_windows(WORDS, Tokens(made), 1000)
    silent_words = set(range(len(WORDS))) - set(window.words.tolist())
    assert silent_words == ({2, 7} if tokenizer is wordpiece else set())
    ends = [*window.positions[1:].tolist(), len(window.ids) - 1]
    for word, first, end in zip(window.words, window.positions, ends, strict=True):
        alone = made.encode(("" if tokenizer is wordpiece or word == 0 else " ") + WORDS[word])
        expected = [i for i, special in zip(alone.ids, alone.special, strict=True) if not special]
        assert window.ids[first:end].tolist() == expected, WORDS[word]


def test_long_sentences_are_read_in_windows_and_every_word_is_scored_once(electra_folder: Path) -> None:
    tokens = Tokens(load(electra_folder, "encoder").tokenizer)
    task = load_task("ner").fit([Example("0", "f:1", ("a", "b", "c"), ("O", "B-x", "I-x"))])
    words = ("fine", "film") * 40
    examples = [
        Example("0", "f:1", words, ("B-x", "I-x") * 40),
        Example("1", "f:9", ("\u200d", "a"), ("O", "O")),
        Example("2", "f:12", (), ()),
    ]
    windows = task.featurize(examples, tokens, 24)
    assert len(windows) > 4 and max(map(len, windows.input_ids)) == 24
    assert windows.targets is not None
    assert sum(int((row != NO_TARGET).sum()) for row in windows.targets) == 81
    assert [note[-3:] for note in windows.notes[:2]] == [": 1", ": 1"]
    assert "24 tokens" in windows.notes[0] and "'O'" in windows.notes[1]
    judged = np.concatenate(
        [window.words for owner, window in zip(windows.example, windows.context, strict=True) if owner == 0]
    )
    assert sorted(judged.tolist()) == list(range(80))
    for places in (window.positions for window in windows.context[1:3]):
        assert places.min() >= 5, "a word within a long sentence is judged with context before it"
    outputs = [np.eye(3, dtype=np.float32)[np.maximum(row, 0)] * 9 for row in windows.targets]
    predicted = [task.tags(row) for row in task.predict(outputs, windows, examples)]  # type: ignore[attr-defined]
    assert predicted == [list(example.gold) for example in examples]
    for stride in (4, 500):
        strided = replace(task, stride=stride).featurize(examples, tokens, 24)
        assert sum(len(window.words) for window in strided.context) == 81


def test_training_learns_and_the_saved_model_predicts_the_same(modern_folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    data, out = toy_task.write_tagging(tmp_path / "data"), tmp_path / "out"
    results = finetune(str(modern_folder), toy_task.settings(out, data, "ner", epochs=5, learning_rate=6e-3))
    assert results["eval_f1"] > 0.7 and results["pooling"] == "cls"
    model, tokenizer = (
        AutoModelForTokenClassification.from_pretrained(out / "model").eval(),
        AutoTokenizer.from_pretrained(out / "model"),
    )
    assert list(model.config.id2label.values()) == ["O", "B-bad", "I-bad", "B-good", "I-good"]
    assert "pipeline_tag: token-classification" in (out / "model" / "README.md").read_text()
    predictions = open_predictor(str(out))(data / "dev.tsv")
    short = [i for i, example in enumerate(predictions.examples) if len(example.texts) < 20]
    assert 20 < len(short) < len(predictions.examples)
    for i in short[:10]:
        words = list(predictions.examples[i].texts)
        with torch.no_grad():
            theirs = (
                model(**tokenizer(words, is_split_into_words=True, return_tensors="pt")).logits[0, 1:-1].softmax(-1)
            )
        np.testing.assert_allclose(predictions.values[i], theirs.numpy(), atol=1e-5)
    rows = read_tsv(out / "seeds/seed-0/dev.tsv")
    words, p = zip(*((row[:3], float(row[3])) for row in predictions.rows()[1:]), strict=True)
    assert [tuple(row.values())[:3] for row in rows] == [*words]
    # Outputs on dev are divided by the temperature, the saved weights are, too: a rounding of float32 apart.
    assert [float(row["p"]) for row in rows] == pytest.approx(p, rel=1e-6)
    gold = [line.split("\t")[1] for line in (data / "dev.tsv").read_text().split("\n") if line]
    assert np.mean([row["label"] == tag for row, tag in zip(rows, gold, strict=True)]) == pytest.approx(
        results["eval_accuracy"]
    )
    (tmp_path / "words.tsv").write_text("the\nfine\nfilm\n")
    header, *_ = open_predictor(str(out / "model"))(tmp_path / "words.tsv").rows()
    assert header == ("id", "word", "label", "p")


def test_a_stopped_and_resumed_run_is_bit_identical(modern_folder: Path, tmp_path: Path) -> None:
    data = toy_task.write_tagging(tmp_path / "data", train=60, dev=20)
    chosen = toy_task.settings(tmp_path / "whole", data, "ner", epochs=2)
    finetune(str(modern_folder), chosen)
    steps = iter(range(100))
    broken_off = replace(chosen, out=tmp_path / "broken")
    with pytest.raises(Interrupted):
        finetune(str(modern_folder), broken_off, stop=lambda: next(steps) == 3)
    lines: list[str] = []
    finetune(str(modern_folder), broken_off, lines.append)
    assert [line for line in lines if "resuming from step" in line]
    for name in ("dev.tsv", "model.safetensors"):
        assert (tmp_path / "whole/seeds/seed-0" / name).read_bytes() == (
            tmp_path / "broken/seeds/seed-0" / name
        ).read_bytes()


def test_balanced_weights_and_the_inferred_scheme(electra_folder: Path, tmp_path: Path) -> None:
    data = toy_task.write_tagging(tmp_path / "data", train=60, dev=20)
    plain = tuning_for(electra_folder, toy_task.settings(tmp_path / "out", data, "tagging"))
    even = tuning_for(electra_folder, toy_task.settings(tmp_path / "out", data, "tagging", class_weights="balanced"))
    assert plain.task.metrics[0] == "f1" and plain.task.weights == ()
    gold = [tag for example in load_task("ner").read(data / "train.tsv").examples for tag in example.gold]
    expected = [len(gold) / (5 * gold.count(tag)) for tag in even.task.label_names]
    assert even.task.weights == pytest.approx(expected)
    logits, targets = torch.randn(2, 3, 5), torch.tensor([[0, 1, -100], [3, 4, 0]])
    loss, count = even.task.loss(logits, targets)
    theirs = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), torch.tensor(even.task.weights))
    assert float(loss / count) == pytest.approx(float(theirs))
    inside = [Example("0", "f:1", ("New", "York"), ("B-LOC", "I-LOC"))]  # no "O" to fall back to
    assert replace(load_task("ner"), metrics=("f1",)).fit(inside).default == "B-LOC"  # type: ignore[attr-defined]
    words = [Example("0", "f:1", ("a", "b"), ("DET", "NOUN"))]
    assert load_task("tagging").fit(words).metrics == ("accuracy", "f1_macro")


def test_wrong_words_are_made_up_in_clean_text(tmp_path: Path) -> None:
    rng = random.Random(1)
    words = [f"{rng.choice('abcdefgh')}{'xyzuvw'[: rng.randint(0, 6)]}{n}." for n in range(3000)]
    lines = [" ".join(words[start : start + 50]) for start in range(0, 3000, 50)]
    content = "\n".join([*lines, "three short words", ""])
    examples = read("ged", tmp_path / "clean.txt", content)
    assert examples == read("ged", tmp_path / "clean.txt", content)
    assert len(examples) == 120 and {str(each.where) for each in examples[:2]} == {f"{tmp_path}/clean.txt:1"}
    for example in examples:
        line = lines[example.where.number - 1].split()
        right = [word for word, label in zip(example.texts, example.gold, strict=True) if label == "c"]
        assert right == [word for word in line if word in set(right)]
        wrong = {word for word, label in zip(example.texts, example.gold, strict=True) if label == "i"}
        assert wrong.isdisjoint(words)
    labels = [label for example in examples for label in example.gold]
    assert 0.07 < labels.count("i") / len(labels) < 0.15
    for task, text, problem in [
        ("ged", "Too short.\nOf clean text.\n", "8 words"),
        ("pos", content, "columns"),
    ]:
        with pytest.raises(DataError, match=problem):
            read(task, tmp_path / "other.txt", text)
    [labelled] = read("ged", tmp_path / "other.txt", "a c\nb i\nd c\n. c\n")
    assert labelled.gold == ("c", "i", "c", "c")
