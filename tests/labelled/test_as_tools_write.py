"""Labelled data as annotation tools, pandas and people write it: read right, or refused in one line."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from contracts import toy_task

from electra.data.tables.characters import visible
from electra.finetuning.answers import label_finder
from electra.finetuning.labelled.examples import Split
from electra.finetuning.train.dataset import choose_task, read_dataset
from electra.foundation.errors import DataError

NUM = 8
TEXTS = [f"the film number {number} was long" for number in range(NUM)]
LABELS = ["good", "bad"] * (NUM // 2)
KEPT = [0, 1, 4, 5, 7]  # rows of which a tool says that their answer counts


def labelled(cells: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"text": text, "label": cell} for text, cell in zip(TEXTS, cells, strict=False)]


ROWS = labelled(LABELS)


def read(path: Path, task: str = "classification", labelled: bool = True, **options: Any) -> Split:
    settings = toy_task.settings(path.parent / "out", path, task, **options)
    return choose_task(settings).read(path, labelled)


def golds(split: Split) -> list[Any]:
    return [example.gold for example in split.examples]


def write(path: Path, content: Any) -> Path:
    """Writes a string as it is, rows as csv, tsv, JSON lines or JSON."""
    if isinstance(content, str | bytes):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    elif path.suffix in (".csv", ".tsv"):
        mark = "," if path.suffix == ".csv" else "\t"
        lines = [content[0], *(row.values() for row in content)]
        path.write_text("".join(mark.join(map(str, line)) + "\n" for line in lines))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in content))
    else:
        path.write_text(json.dumps(content))
    return path


# Marks that void an answer


def marked(rows: Sequence[dict[str, Any]], column: str, good: Any, *bad: Any) -> list[dict[str, Any]]:
    """Returns rows with a mark in a column: good in the rows KEPT, each of bad in the others."""
    others = iter(bad * NUM)
    marks = [good if number in KEPT else next(others) for number in range(NUM)]
    return [{**row, column: mark} for row, mark in zip(rows, marks, strict=True)]


PAIRS = [{"text1": row["text"], "text2": "a film", "label": row["label"]} for row in ROWS]
CHOICES = [{"text": row["text"], "accept": [row["label"]]} for row in ROWS]
TAGGED = [{"tokens": ["Anna", "left"], "tags": ["B-PER", "O"]}] * NUM
SPANS = [{"text": "Anna left", "spans": [{"start": 0, "end": 4, "label": "PER"}]}] * NUM
QUESTIONS = [{"question": f"who {n}?", "context": "Anna left", "answers": ["Anna"]} for n in range(NUM)]


ENTITY = [{"type": "labels", "value": {"start": 0, "end": 4, "labels": ["PER"]}}]
LS_SPANS = [
    {"data": {"text": "Anna left"}, "annotations": [{"was_cancelled": number not in KEPT, "result": ENTITY}]}
    for number in range(NUM)
]


def label_studio(cancelled: bool) -> list[dict[str, Any]]:
    rows = []
    for number, row in enumerate(ROWS):
        result = {"type": "choices", "from_name": "mood", "value": {"choices": [row["label"]]}}
        annotation = {"was_cancelled": cancelled and number not in KEPT, "result": [result]}
        rows.append({"id": number, "data": {"text": row["text"]}, "annotations": [annotation]})
    return rows


ACCEPTED: dict[str, Any] = {"label_column": "accept"}
VOIDED: list[tuple[str, list[dict[str, Any]], str, dict[str, Any]]] = [
    ("a.jsonl", marked(ROWS, "answer", "accept", "reject", "ignore"), "classification", {}),
    ("a.csv", marked(ROWS, "answer", "accept", "reject"), "classification", {}),
    ("a.jsonl", marked(ROWS, "answer", None, "reject"), "classification", {}),
    ("a.jsonl", marked(CHOICES, "answer", "accept", "ignore"), "classification", ACCEPTED),
    ("a.jsonl", marked(PAIRS, "answer", "accept", "reject"), "pair", {}),
    ("a.jsonl", marked(labelled([2.5] * NUM), "answer", "accept", "ignore"), "regression", {}),
    ("a.jsonl", marked(TAGGED, "answer", "accept", "reject"), "ner", {}),
    ("a.jsonl", marked(SPANS, "answer", "accept", "reject", "ignore"), "ner", {}),
    ("a.jsonl", marked(QUESTIONS, "answer", "accept", "reject"), "qa", {}),
    ("a.json", label_studio(True), "classification", {}),
    ("a.json", LS_SPANS, "ner", {}),
    ("a.json", marked(ROWS, "was_cancelled", False, True), "classification", {}),
    ("a.jsonl", marked(ROWS, "status", "submitted", "discarded"), "classification", {}),
    ("a.csv", marked(ROWS, "AssignmentStatus", "Approved", "Rejected"), "classification", {}),
]


@pytest.mark.parametrize(("name", "rows", "task", "options"), VOIDED)
def test_answers_that_a_tool_rejects_are_left_out(
    name: str, rows: Any, task: str, options: Any, tmp_path: Path
) -> None:
    path = write(tmp_path / name, rows)
    split = read(path, task, **options)
    assert [int(example.id) for example in split.examples] == KEPT or len(split.examples) == len(KEPT)
    assert [note for note in split.notes if note.startswith(f"{NUM - len(KEPT)} rows left out")]
    others = read(path, task, labelled=False, **options)
    assert len(others.examples) == NUM and golds(others).count(None) == NUM - len(KEPT)


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (marked(ROWS, "answer", "accept", "reject"), {"label_column": "answer"}),
        (marked(ROWS, "answer", "Paris", "ignore"), {}),
        (marked(ROWS, "status", "open", "discarded"), {}),
        (marked(PAIRS, "answer", "accept", "reject"), {"task": "pair", "text_column": ("text1", "answer")}),
    ],
)
def test_a_column_of_such_a_name_may_be_data(rows: Any, options: dict[str, Any], tmp_path: Path) -> None:
    assert len(read(write(tmp_path / "a.jsonl", rows), **options).examples) == NUM


# Characters that show nothing

HIDDEN = [
    *("{}\u200b", "\u200b{}", "\u200e{}", "{}\u200f", "\u202b{}\u202c", "\u2067{}\u2069", "\ufeff{}"),
    *("{}\ufeff", "{}\u00ad", "{}\u2060", "\u061c{}", "{}\u200d", "\u200c{}", "\u00a0{}", "{}\u202f"),
    "{}\u00a0",
]


@pytest.mark.parametrize("form", HIDDEN)
def test_characters_that_show_nothing_make_no_other_label(form: str, tmp_path: Path) -> None:
    labels = [label if number < 4 else form.format(label) for number, label in enumerate(LABELS)]
    split = read(write(tmp_path / "a.csv", labelled(labels)))
    assert golds(split) == LABELS
    named = [{"text": row["text"], form.format("label"): row["label"]} for row in ROWS]
    assert golds(read(write(tmp_path / "b.csv", named))) == LABELS
    lists = write(tmp_path / "c.jsonl", labelled([[label] for label in labels]))
    assert golds(read(lists, multi_label=True)) == [(label,) for label in LABELS]
    words = "Anna\tB-PER\nleft\tO\n\n" + f"Anna\t{form.format('B-PER')}\nleft\t{form.format('O')}\n"
    tags = read(write(tmp_path / "d.tsv", words), "ner")
    assert golds(tags) == [("B-PER", "O")] * 2
    for found in (split, tags):
        assert form.strip() == "{}" or [note for note in found.notes if "invisible" in note]


def test_hidden_characters_inside_a_label(tmp_path: Path) -> None:
    labels = ["very good", "very\u00a0good", "ve\u00adry good", "very\u200b good"] * 2
    assert {*golds(read(write(tmp_path / "a.csv", labelled(labels))))} == {"very good"}


@pytest.mark.parametrize(
    "name",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
        "\u0915\u094d\u200d\u0937",  # Hindi: half a letter
        "\u0d28\u0d4d\u200d",  # Malayalam: a chillu at the end
        "\u0dc1\u0dca\u200d\u0dbb\u0dd3",  # Sinhala
        "\U0001f469\u200d\U0001f4bb",  # an emoji of two
        "caf\u00e9",
    ],
)
def test_joiners_that_carry_meaning_stay(name: str) -> None:
    assert visible(name) == name
    assert visible(f"\u200d{name}\u200f ") == name


@pytest.mark.parametrize(
    ("tag", "meant"),
    [(letter, "O") for letter in "\u041e\u039f0\uff2f"] + [(tag, "B-LOC") for tag in ("\u0412-LOC", "B\u2013LOC")],
)
def test_tags_in_letters_that_look_alike(tag: str, meant: str, tmp_path: Path) -> None:
    words = "Anna\tB-PER\nleft\tO\nRome\tB-LOC\n\n"
    split = read(write(tmp_path / "a.conll", words + words.replace(f"\t{meant}\n", f"\t{tag}\n")), "ner")
    assert golds(split) == [("B-PER", "O", "B-LOC")] * 2
    assert [note for note in split.notes if f"such as {tag}, read as {meant}" in note]


def test_a_file_may_have_no_tag_in_plain_letters(tmp_path: Path) -> None:
    split = read(write(tmp_path / "a.conll", "Anna\tB\u2013PER\nleft\t\u041e\n\n" * 3), "ner")
    assert golds(split) == [("B-PER", "O")] * 3
    other = read(write(tmp_path / "b.conll", "Anna\t\u0418\u041c\u042f\nleft\t\u041e\n\n" * 3), "tagging")
    assert golds(other) == [("\u0418\u041c\u042f", "\u041e")] * 3


def test_labels_that_look_alike_are_noted(tmp_path: Path) -> None:
    rows = [*ROWS, {"text": "another", "label": "g\u043eod"}]
    split = read(write(tmp_path / "a.csv", rows))
    assert len({*golds(split)}) == 3
    assert [note for note in split.notes if "CYRILLIC SMALL LETTER O" in note]


# Labels in brackets, in b'' and joined by a sign


QUOTED = ["['{}']", '["{}"]', "('{}',)", "b'{}'", 'b"{}"', "{{'{}'}}", '[["{}"]]', "[np.str_('{}')]"]


@pytest.mark.parametrize("form", [*QUOTED, "[{}]", "{{{}}}"])
def test_a_label_in_brackets_is_the_label(form: str, tmp_path: Path) -> None:
    cells = [form.format(label) for label in LABELS]
    quoted = [f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in cells]
    split = read(write(tmp_path / "a.csv", labelled(quoted)))
    assert golds(split) == LABELS
    assert [note for note in split.notes if note.startswith(f"{NUM} answers in lists")]
    assert golds(read(write(tmp_path / "a.jsonl", labelled(cells)))) == LABELS


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: [[x]], lambda x: {"choices": [x]}, lambda x: {x: 1, "c": 0}])
def test_a_label_in_a_list_or_flags_is_the_label(wrap: Any, tmp_path: Path) -> None:
    assert golds(read(write(tmp_path / "a.jsonl", labelled([*map(wrap, LABELS)])))) == LABELS


def test_lists_of_several_labels_and_of_numbers(tmp_path: Path) -> None:
    plain = read(write(tmp_path / "n.jsonl", labelled([0, 1] * (NUM // 2))))
    assert golds(plain) == ["0", "1"] * (NUM // 2) and not plain.notes
    with pytest.raises(DataError, match="expected one label"):
        read(write(tmp_path / "a.jsonl", labelled([["a", "b"]] * NUM)))
    assert golds(read(tmp_path / "a.jsonl", multi_label=True)) == [("a", "b")] * NUM
    cells = ["[1]", "[2]", "(none)", "b"] * 2
    assert golds(read(write(tmp_path / "b.csv", labelled(cells)))) == cells
    scores = [{"text": text, "score": f"[{number}.5]"} for number, text in enumerate(TEXTS)]
    assert golds(read(write(tmp_path / "c.csv", scores), "regression"))[3] == "3.5"


JOINED = [
    (["joy{}film", "film", "joy"], [("film", "joy"), ("film",), ("joy",)]),
    (["a{}b", "b{}c", "a", "c", "b{}a"], [("a", "b"), ("b", "c"), ("a",), ("c",), ("a", "b")]),
]


@pytest.mark.parametrize("sign", ["#", "+", " + ", "/", " / ", "&", "|", ";", "; ", ",", ", "])
@pytest.mark.parametrize(("cells", "expected"), JOINED)
def test_joined_labels_that_also_occur_alone_are_split(
    sign: str, cells: list[str], expected: list[Any], tmp_path: Path
) -> None:
    cells = [f'"{cell.format(sign)}"' for cell in cells]
    path = write(tmp_path / "a.csv", labelled(cells))
    assert golds(read(path, multi_label=True)) == expected
    single = read(path)
    assert golds(single) == [cell.strip('"') for cell in cells]
    assert [note for note in single.notes if "--multi-label" in note]


@pytest.mark.parametrize(
    ("cells", "is_doubtful"),
    [
        (["C#", "C++", "F#", "Java"], False),
        (["and/or", "not", "xor", "not"], False),
        (["R&B", "pop", "rock", "pop"], False),
        (["1", "2", "3", "1"], False),
        (["joy#film", "film#art", "art#joy"], True),
        (["TCP/IP", "UDP", "IP", "DNS/BIND", "A/B"], True),
    ],
)
def test_labels_with_signs_stay_as_they_are(cells: list[str], is_doubtful: bool, tmp_path: Path) -> None:
    split = read(write(tmp_path / "a.csv", labelled(cells)), multi_label=True)
    assert golds(split) == [(cell,) for cell in cells]
    assert any("one label" in note for note in split.notes) == is_doubtful


# Links that lead nowhere


@pytest.mark.parametrize("target", ["/gone/dev.csv", "dev.csv", "nowhere", "."])
@pytest.mark.parametrize("name", ["dev.csv", "test.csv", "train.csv"])
def test_a_link_that_leads_nowhere_is_refused(name: str, target: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev", "test"):
        write(data / f"{split}.csv", ROWS)
    (data / name).unlink()
    (data / name).symlink_to(name if target == "dev.csv" else target)
    settings = toy_task.settings(tmp_path / "out", data, "classification")
    with pytest.raises(DataError) as caught:
        read_dataset(settings, choose_task(settings))
    assert str(data / name) in str(caught.value)


# Layouts

COLUMNS = {"text": TEXTS, "label": LABELS}
VALUES = [[*row.values()] for row in ROWS]


def numbered(cells: Sequence[Any]) -> dict[str, Any]:
    return {str(number): cell for number, cell in enumerate(cells)}


FLAGS = [{label: 1, "c": 0} for label in LABELS]
LAYOUTS: dict[str, tuple[str, Any]] = {
    "split": ("a.json", {"columns": ["text", "label"], "index": [*range(NUM)], "data": VALUES}),
    "table": ("a.json", {"schema": {"fields": [{"name": "text"}], "pandas_version": "1.4.0"}, "data": ROWS}),
    "index": ("a.json", numbered(ROWS)),
    "columns": ("a.json", {name: numbered(cells) for name, cells in COLUMNS.items()}),
    "named columns": ("a.json", {k: {f"r{n}": v for n, v in enumerate(c)} for k, c in COLUMNS.items()}),
    "lists": ("a.json", COLUMNS),
    "columns of objects": ("a.json", {"text": numbered(TEXTS), "label": numbered(FLAGS)}),
    "lists in jsonl": ("a.jsonl", json.dumps(COLUMNS)),
    "data": ("a.json", {"version": "1", "about": "films and their grades", "data": ROWS}),
    "one list": ("a.json", {"reviews": ROWS, "count": NUM}),
    "hub viewer": ("a.json", {"features": [], "rows": [{"row_idx": 0, "row": row} for row in ROWS]}),
    "indented": ("a.json", json.dumps({"data": ROWS}, indent=2)),
    "pretty-printed": ("a.jsonl", "\n".join(json.dumps(row, indent=2) for row in ROWS)),
    "glued": ("a.jsonl", "".join(map(json.dumps, ROWS))),
    "commas": ("a.jsonl", ",\n".join(map(json.dumps, ROWS))),
    "records in jsonl": ("a.jsonl", json.dumps(ROWS)),
    "indented records in jsonl": ("a.jsonl", json.dumps(ROWS, indent=1)),
    "record separators": ("a.json", "".join(f"\x1e{json.dumps(row)}\n" for row in ROWS)),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_json_in_other_layouts_gives_the_rows(case: str, tmp_path: Path) -> None:
    name, content = LAYOUTS[case]
    split = read(write(tmp_path / name, content))
    assert [example.texts for example in split.examples] == [(text,) for text in TEXTS]
    assert golds(split) == LABELS


def test_the_words_of_one_sentence_are_no_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", {"tokens": ["Anna", "left"], "ner_tags": ["B-PER", "O"]})
    assert golds(read(path, "ner")) == [("B-PER", "O")]


def test_an_object_of_objects_may_be_one_row(tmp_path: Path) -> None:
    row = {"data": {"text": "a film"}, "meta": {"id": 1}}
    [example] = read(write(tmp_path / "a.json", row), labelled=False).examples
    assert example.texts == ("a film",)


def test_a_name_with_a_comma_can_be_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    cells = ["Washington, D.C.", "Paris, Texas", "Bonn"]
    note = read(write(path, labelled(cells)), multi_label=True).notes[0]
    assert "to keep 'Paris, Texas' whole, write [\"Paris, Texas\"]" in note
    kept = labelled([json.dumps([cell]) for cell in cells])
    assert golds(read(write(path, kept), multi_label=True)) == [(cell,) for cell in cells]


def test_lists_without_names_are_read_once_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", [["text", "label"], *VALUES])
    with pytest.raises(DataError, match="without names") as caught:
        read(path)
    assert "`columns`" in str(caught.value.fix)
    assert golds(read(path, columns=("text", "label"))) == LABELS


def test_the_command_for_several_lists_makes_a_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "all.json", {"train": ROWS, "dev": ROWS[:4], "version": 2})
    with pytest.raises(DataError) as caught:
        read(path)
    command = str(caught.value.fix)[str(caught.value.fix).index("python3") :]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert golds(read(tmp_path / "splits" / "train.json")) == LABELS
    assert golds(read(tmp_path / "splits" / "dev.json")) == LABELS[:4]


ADVISED: list[tuple[list[dict[str, Any]], str]] = [  # rows, the option that an error advises
    ([{"meta": {"review": text}, "label": "a"} for text in TEXTS], "text_column"),
    ([{"review": text, "marks": [{"x": 1}], "label": "a"} for text in TEXTS], "text_column"),
    ([{"text": text, "options": [{"id": "a"}], "accept": ["a"]} for text in TEXTS], "label_column"),
    ([{"text": {"body": text}, "label": "a"} for text in TEXTS], "text_column"),
    ([{"data": {"review": text}, "label": "a", "annotations": []} for text in TEXTS], "text_column"),
]


@pytest.mark.parametrize(("rows", "option"), ADVISED)
def test_the_columns_that_an_error_names_can_be_chosen(rows: Any, option: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(DataError) as caught:
        read(path)
    fix = str(caught.value.fix)
    assert option in fix and len(fix) < 200
    offered = [fix.rsplit(maxsplit=1)[-1]]
    if fix.startswith("It"):
        offered = fix.removeprefix("It has ").partition(":")[0].split(", ")
    value = offered[0] if offered[0] != "text" or option == "text_column" else offered[-1]
    assert len(read(path, **{option: (value,) if option == "text_column" else value}).examples) == NUM


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    "cell", [{"a": {"b": "x" * 2000}}, ["a long label"] * 500, {"n": [1] * 999}, str(["a label"] * 500)]
)
def test_no_error_prints_a_column(task: str, cell: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"text": "a film", "label": cell}] * 3)
    with pytest.raises(DataError) as caught:
        read(path, task)
    assert len(str(caught.value)) < 400


def test_choices_of_label_studio(tmp_path: Path) -> None:
    assert golds(read(write(tmp_path / "a.json", label_studio(False)))) == LABELS
    split = read(write(tmp_path / "b.json", label_studio(False)), label_column="label")
    assert golds(split) == LABELS and split.text_columns == ("data.text",)
    two = label_studio(False)
    topic = {"type": "choices", "from_name": "topic", "value": {"choices": ["film", "art"]}}
    for row in two:
        row["annotations"][0]["result"].append(topic)
    path = write(tmp_path / "c.json", two)
    with pytest.raises(DataError, match="mood, topic"):
        read(path)
    assert golds(read(path, label_column="mood")) == LABELS
    assert golds(read(path, label_column="topic", multi_label=True)) == [("art", "film")] * NUM
    rated = label_studio(False)
    for row in rated:
        row["annotations"][0]["result"] = [{"type": "rating", "from_name": "stars", "value": {"rating": 4}}]
    path = write(tmp_path / "d.json", rated)
    assert golds(read(path, "regression", text_column=("data.text",))) == ["4"] * NUM


ANNA = [("B-PER", "O", "B-LOC")] * 6
BRAT = "T{0}1\tPER {1} {2}\tAnna\nT{0}2\tLOC {3} {4}\tRome\nR1\tin Arg1:T1 Arg2:T2\n"
PUBTATOR = "{0}|t|Anna left\n{0}|a|Rome\n{0}\t0\t4\tAnna\tPER\tD1\n{0}\t10\t14\tRome\tLOC\n\n"
MARKED: dict[str, str] = {
    "brat": "Anna left Rome\n" * 6,
    "tags": "<PER>Anna</PER> left <LOC>Rome</LOC>\n" * 6,
    "ENAMEX": '<ENAMEX TYPE="PER">Anna</ENAMEX> left <ENAMEX TYPE="LOC">Rome</ENAMEX>\n' * 6,
    "START": "<START:PER> Anna <END> left <START:LOC> Rome <END>\n" * 6,
    "links": "[Anna](PER) left [Rome](LOC)\n" * 6,
    "type first": "[PER Anna] left [LOC Rome]\n" * 6,
    "Rasa": "## intent:go\n" + "- [Anna](PER) left [Rome](LOC)\n" * 6,
    "PubTator": "".join(PUBTATOR.format(n) for n in range(6)),
    "tags first": "B-PER Anna\nO left\nB-LOC Rome\n\n" * 6,
}


@pytest.mark.parametrize("case", MARKED)
def test_entities_marked_in_or_beside_a_text(case: str, tmp_path: Path) -> None:
    if case == "brat":
        starts = range(0, 90, 15)
        marks = [BRAT.format(n, start, start + 4, start + 10, start + 14) for n, start in enumerate(starts)]
        (tmp_path / "a.ann").write_text("".join(marks))
    split = read(write(tmp_path / "a.txt", MARKED[case]), "ner")
    assert golds(split) == ANNA
    assert [example.texts for example in split.examples] == [("Anna", "left", "Rome")] * 6
    assert split.notes


@pytest.mark.parametrize("text", ["a <b>good</b> film\n" * 6, "see [1](https://a.b/c) here\n" * 6])
def test_other_marks_are_text(text: str, tmp_path: Path) -> None:
    split = read(write(tmp_path / "a.txt", text), "ner", labelled=False)
    assert all(example.gold is None for example in split.examples)
    assert split.examples[0].spans[-1][1] == len(text.splitlines()[0])


def test_labels_of_spans_that_are_numbers(tmp_path: Path) -> None:
    span = {"label": 7, "start_offset": 0, "end_offset": 4, "user": 1}
    rows = [{"text": "Anna left", "annotations": [span]}] * 3
    split = read(write(tmp_path / "a.jsonl", rows), "ner")
    assert golds(split) == [("B-7", "O")] * 3
    assert [note for note in split.notes if "numbers (7)" in note]


BINARY = [b"PK\x03\x04" + bytes(20) + b"[Content_Types].xml", b"PK\x03\x04" + bytes(20), b"\x1f\x8b\x08\0\0"]
BINARY += [b"\xd0\xcf\x11\xe0" + bytes(50), b"PAR1\x15" + bytes(50), b"SQLite format 3\0" + bytes(90)]
BINARY += [b"%PDF-1.7\n"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json"])
@pytest.mark.parametrize("content", BINARY)
def test_a_binary_file_with_the_name_of_a_table_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is an? .* (workbook|archive|file|base), not") as caught:
        read(write(tmp_path / name, content))
    assert caught.value.fix and str(caught.value).isprintable()


# Questions

QUESTION = {"question": "Who left?", "context": "Then Anna left Rome."}
SQUAD = {"question": "Who left?", "answers": [{"text": "Anna", "answer_start": 5}]}
PARAGRAPH = {"context": QUESTION["context"], "qas": [{"id": 1, **SQUAD}]}
ANSWERED = {"question": "Who left?", "answers": ["Anna"]}
ONE_ANSWER = {"question": "Who left?", "answer": "Anna"}
ASKED: dict[str, tuple[str, Any]] = {
    "paragraphs": ("a.json", [PARAGRAPH]),
    "articles": ("a.json", [{"title": "x", "paragraphs": [PARAGRAPH]}]),
    "paragraphs in lines": ("a.jsonl", [PARAGRAPH]),
    "MRQA": ("a.jsonl", [{"header": {"dataset": "x"}}, {**PARAGRAPH, "qas": [{"qid": "q", **ANSWERED}]}]),
    "answer": ("a.jsonl", [{**QUESTION, "answer": "Anna"}]),
    "answer in SQuAD": ("a.json", {"data": [{"paragraphs": [{**PARAGRAPH, "qas": [ONE_ANSWER]}]}]}),
    "answer and its start": ("a.jsonl", [{**QUESTION, "answer": "Anna", "answer_start": 5}]),
    "text and its start": ("a.csv", [{**QUESTION, "text": "Anna", "answer_start": 5}]),
    "answer_text": ("a.csv", [{**QUESTION, "answer_text": "Anna", "answer_start": "5.0"}]),
    "lines in json": ("a.json", json.dumps({**QUESTION, "answers": ["Anna"]}) + "\n"),
}


@pytest.mark.parametrize("case", ASKED)
def test_questions_in_other_layouts(case: str, tmp_path: Path) -> None:
    name, content = ASKED[case]
    [example] = read(write(tmp_path / name, content), "qa").examples
    assert example.texts == (QUESTION["question"], QUESTION["context"])
    assert [(answer.text, answer.start) for answer in example.gold] == [("Anna", 5)]


def test_equal_ids_are_named_by_their_questions(tmp_path: Path) -> None:
    other = {**SQUAD, "question": "Who stayed?"}
    content = [{**PARAGRAPH, "qas": [{"id": 1, **SQUAD}, {"id": 1, **other}]}]
    with pytest.raises(DataError, match="'1', also used for 'Who left"):
        read(write(tmp_path / "a.json", content), "qa")


# What is counted

CONFLICTING = [*ROWS, {"text": TEXTS[0], "label": "bad"}, {"text": TEXTS[1] + " ", "label": "good"}]
SCORED = [{"text": "x", "score": number} for number in (1, 2, 2)]


@pytest.mark.parametrize(
    ("task", "rows", "expected"),
    [
        ("classification", CONFLICTING, "2 texts occur with different answers (4 rows)"),
        ("pair", [*PAIRS, {**PAIRS[0], "label": "bad"}], "1 pair occurs with different answers (2 rows)"),
        ("regression", SCORED, "1 text occurs with different answers (3 rows)"),
    ],
)
def test_equal_texts_with_different_answers_are_counted(task: str, rows: Any, expected: str, tmp_path: Path) -> None:
    split = read(write(tmp_path / "a.csv", rows), task)
    assert expected in split.notes
    once = read(write(tmp_path / "b.csv", rows[:1]), task)
    assert not [note for note in once.notes if "different answers" in note]


@pytest.mark.parametrize(
    ("numbers", "is_far"),
    [
        ([1000 + number for number in range(50)] + [99_999_999], True),
        ([0.5 + number / 100 for number in range(50)] + [-999], True),
        ([3] * 30 + [4000], True),
        ([1, 2, 3, 4, 5] * 10, False),
        ([1.5**number for number in range(30)], False),
        ([1] * 30 + [5], False),
    ],
)
def test_a_number_far_from_all_others_is_noted(numbers: list[float], is_far: bool, tmp_path: Path) -> None:
    rows = [{"text": f"a film {index}", "score": number} for index, number in enumerate(numbers)]
    notes = [note for note in read(write(tmp_path / "a.csv", rows), "regression").notes if "far from" in note]
    assert len(notes) == is_far
    assert not notes or f"a.csv:{len(numbers) + 1}" in notes[0]


def test_rows_of_conllu_that_are_not_words_are_counted(tmp_path: Path) -> None:
    row = "{}\t{}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n"
    words = [("1-2", "ab"), ("1", "a"), ("2", "b"), ("2.1", "c"), ("3", "d")]
    path = write(tmp_path / "a.conllu", ("".join(row.format(*word) for word in words) + "\n") * 2)
    split = read(path, "tagging")
    assert split.examples[0].texts == ("a", "b", "d")
    assert [note for note in split.notes if note.startswith("2 multiword tokens and 2 empty nodes")]


def test_a_label_is_looked_up_in_constant_time() -> None:
    read = list[str]()

    def counting(name: str) -> Any:
        return lambda self, *given: read.append(name) or getattr(tuple, name)(self, *given)

    methods = {name: counting(name) for name in ("__iter__", "__hash__", "__contains__")}
    labels: Any = type("Labels", (tuple,), methods)(f"label {number}" for number in range(100))
    assert label_finder(labels)("label 5") == 5
    count = len(read)
    assert [label_finder(labels)(f"label {number}") for number in range(100)] == [*range(100)]
    assert len(read) == count
