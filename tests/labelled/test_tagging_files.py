"""Files of tagged sentences: formats, inferred columns, and errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from electra.finetuning.labelled.examples import Split
from electra.finetuning.tasks import load_task
from electra.foundation.errors import DataError

WORDS = [("Ada", "met", "New", "York"), ("I", "don't", "\u00e9t\u00e9", '"')]
TAGS = [("B-PER", "O", "B-LOC", "I-LOC"), ("O", "O", "O", "O")]
PAIRS = [list(zip(*sentence, strict=True)) for sentence in zip(WORDS, TAGS, strict=True)]


def split_of(path: Path, content: str, task: str = "ner", labelled: bool = True, **changes: Any) -> Split:
    path.write_bytes(content.encode())
    return replace(load_task(task), **changes).read(path, labelled)


def sentences(split: Split) -> list[tuple[Any, Any]]:
    return [(example.texts, example.gold) for example in split.examples]


EXPECTED = list(zip(WORDS, TAGS, strict=True))


@pytest.mark.parametrize("printed", [json.dumps, lambda x: json.dumps(x, ensure_ascii=False), str, "numpy"])
def test_lists_in_csv_cells_are_read(printed: Any, tmp_path: Path) -> None:
    """Written by pandas, with lists as JSON, Python and numpy print them."""
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    printed = (lambda x: str(numpy.array(x))) if printed == "numpy" else printed
    rows = [{"tokens": printed(list(words)), "ner_tags": printed(list(tags))} for words, tags in EXPECTED]
    for name, separator in (("a.csv", ","), ("b.csv", ";")):
        pandas.DataFrame(rows).to_csv(tmp_path / name, index=False, sep=separator)
        assert sentences(load_task("ner").read(tmp_path / name)) == EXPECTED
    table = "tokens\tner_tags\n" + "".join(f"{r['tokens']}\t{r['ner_tags']}\n" for r in rows)
    assert sentences(split_of(tmp_path / "a.tsv", table)) == EXPECTED
    tagged = replace(load_task("tagging"), label=("ner_tags",)).read(tmp_path / "a.csv")
    assert sentences(tagged) == EXPECTED


def test_a_list_abbreviated_by_numpy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        split_of(tmp_path / "a.csv", "tokens,tags\n['a' 'b' ... 'z'],['O' 'O' ... 'O']\n")


def _write(frame: Any, path: Path) -> None:
    match path.suffix:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".tsv":
            path.write_text(
                "".join("\t".join(row) + "\n" for row in [list(frame.columns), *frame.to_numpy().tolist()])
            )
        case ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        case ".parquet":
            frame.to_parquet(path)


def test_numeric_tags_have_names_or_are_reported(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = ["O", "B-PER", "B-LOC", "I-LOC"]
    numbers = [[names.index(tag) for tag in tags] for tags in TAGS]
    rows = {"tokens": [list(words) for words in WORDS], "ner_tags": numbers}
    features = datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")),
        ner_tags=datasets.Sequence(datasets.ClassLabel(names=names)),
    )
    made = datasets.Dataset.from_dict(rows, features=features)
    made.to_parquet(tmp_path / "a.parquet")
    assert sentences(load_task("ner").read(tmp_path / "a.parquet")) == EXPECTED
    made.to_json(tmp_path / "a.jsonl")
    split = load_task("tagging").read(tmp_path / "a.jsonl")
    assert [example.gold for example in split.examples] == [("1", "0", "2", "3"), ("0",) * 4]
    assert any("numbers" in note for note in split.notes)
    with pytest.raises(DataError):
        load_task("ner").fit(split.examples)


def lines(rows: list[list[str]], separator: str = "\t") -> str:
    return "".join(separator.join(row) + "\n" for row in rows) + "\n"


FIRST, SECOND = (lines([list(pair) for pair in pairs]) for pairs in PAIRS)
UNEVEN = f"{FIRST}{SECOND}".replace("met\tO\n", "met\tO\t\t\n")
NUMBERED = "".join(f"{n}\t{w}\t{t}\n" for n, pairs in enumerate(PAIRS) for w, t in pairs)
GERMEVAL = "".join(lines([[str(n), w, t, "O"] for n, (w, t) in enumerate(pairs, 1)]) for pairs in PAIRS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("columns that count", GERMEVAL),
        (
            "comments of other widths",
            "#\thttp://x\t[2009]\n" + GERMEVAL.replace("\n\n", "\n\n#\thttp://x\t[2009]\n", 1),
        ),
        ("a number throughout", lines([["1", *p] for p in PAIRS[0]]) + lines([["2", *p] for p in PAIRS[1]])),
        (
            "comments as wide as the rows",
            "".join(
                f"# id {n} domain=x\n" + lines([[w, "_", "_", t] for w, t in pairs], " ")
                for n, pairs in enumerate(PAIRS)
            ),
        ),
        ("empty last columns", "".join(lines([[w, t, "", ""] for w, t in pairs]) for pairs in PAIRS)),

        ("tabs after some", UNEVEN),
        ("a space after a tag", FIRST.replace("met\tO", "met\tO ") + SECOND),
        ("names of columns", "token\tlabel\n" + FIRST + SECOND),
        ("names of columns, the words not first", "no\tToken\tNER_tag\tinner\n" + GERMEVAL),
        ("no empty line, a document mark", f"{FIRST.strip()}\n-DOCSTART-\tO\n{SECOND}"),
        ("no empty line, a numbered sentence", NUMBERED),
        ("tags before words", "".join(lines([[t, w] for w, t in pairs]) for pairs in PAIRS)),
        ("a column of scores", "".join(lines([[w, t, "0.5"] for w, t in p]) for p in PAIRS)),
        ("commas", "".join(lines([list(p) for p in pairs], ",") for pairs in PAIRS)),
        ("semicolons", "".join(lines([list(p) for p in pairs], ";") for pairs in PAIRS)),
        ("spaces and tabs", lines([list(p) for p in PAIRS[0]], " ") + lines([list(p) for p in PAIRS[1]])),
        ("carriage returns", "".join(lines([list(p) for p in pairs]) for pairs in PAIRS).replace("\n", "\r")),


        (
            "tags before an empty column",
            "".join(lines([[w, t, "_"] for w, t in pairs]) for pairs in PAIRS),
        ),
    ],
    ids=lambda value: value if "\n" not in value and "\r" not in value else "",
)  # fmt: skip
def test_columns_of_words_and_tags_are_inferred_from_their_content(
    name: str, content: str, tmp_path: Path
) -> None:
    assert sentences(split_of(tmp_path / "a.conll", content)) == EXPECTED, name


@pytest.mark.parametrize("task", ["ner", "tagging"])
def test_comma_separated_tags_are_read(task: str, tmp_path: Path) -> None:
    content = "words,labels\n" + "".join(f'"{" ".join(w)}","{",".join(t)}"\n' for w, t in EXPECTED[:1])
    assert sentences(split_of(tmp_path / "a.csv", content, task)) == EXPECTED[:1]


@pytest.mark.parametrize("empty", ["", "nan", "None"])
def test_a_sentence_number_may_be_written_once(empty: str, tmp_path: Path) -> None:
    rows = [(n if i == 0 else empty, *p) for n, pairs in enumerate(PAIRS) for i, p in enumerate(pairs)]
    content = "Sentence #\tWord\tTag\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows)
    path = tmp_path / "a.jsonl"
    names = ("Sentence #", "Word", "Tag")
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    assert sentences(load_task("ner").read(path)) == EXPECTED
    assert len(split_of(tmp_path / "b.tsv", content.replace(f"\n{empty}\t", "\n\t")).examples) == 2


def test_scattered_rows_and_rows_without_words_are_reported(tmp_path: Path) -> None:
    rows = [{"sentence_id": n % 2, "word": f"w{n}", "tag": "O" if n % 3 else "B-PER"} for n in range(6)]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    assert "'sentence_id'" in " ".join(split_of(tmp_path / "a.jsonl", content).notes)
    content = '{"tokens": [], "tags": []}\n{"tokens": ["Ada"], "tags": ["B-PER"]}\n'
    assert "1 of 2 rows" in " ".join(split_of(tmp_path / "b.jsonl", content).notes)


def test_a_comma_may_be_a_word(tmp_path: Path) -> None:
    content = 'Ada,B-PER\n,,O\n",",O\n""",O\n\n'
    ((words, tags),) = sentences(split_of(tmp_path / "a.txt", content))
    assert tags == ("B-PER", "O", "O", "O") and words[:3] == ("Ada", ",", ",")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", lines([["1"], ["2"]])),
        ("a.tsv", lines([[f"w{i}", f"l{i}"] for i in range(30)])),
        ("a.tsv", lines([["Ada", "_"], ["met", "_"]])),
        ("a.tsv", lines([["Ada", "O"]] * 300)),
        ("a.tsv", lines([["Ada", "B-PER"], ["met", "_"]])),
        ("a.tsv", lines([["Ada", "B-PER"], ["met", "-"]])),
        ("a.tsv", "Ada\tB-PER\nmet\t\n"),
        ("a.jsonl", '{"tokens": ["Ada", null], "tags": ["O", "O"]}\n'),
        ("a.jsonl", '{"tokens": ["Ada", "met"], "tags": ["O", null]}\n'),
    ],
)
def test_missing_words_and_tags_are_refused(name: str, content: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        split_of(tmp_path / name, content)
    assert name in caught.value.where


def test_sentences_with_missing_tags_can_be_skipped(tmp_path: Path) -> None:
    content = "Ada\tB-PER\nmet\t_\n\nBob\tB-PER\n"
    split = split_of(tmp_path / "a.tsv", content, skip_unlabelled=True)
    assert sentences(split) == [(("Bob",), ("B-PER",))]
    assert split.notes


def test_only_unusual_files_get_notes(tmp_path: Path) -> None:
    assert split_of(tmp_path / "a.tsv", FIRST + SECOND).notes == ()
    assert "column 2" in " ".join(split_of(tmp_path / "a.tsv", GERMEVAL).notes)
    assert "utf-16" in " ".join(load_task("ner").read(_utf16(tmp_path / "a.tsv")).notes)
    alike = split_of(tmp_path / "a.tsv", "Ada\tB-PER\nBob\tb-per\nran\tO\n")
    assert "'B-PER' and 'b-per'" in " ".join(alike.notes)


def _utf16(path: Path) -> Path:
    path.write_text(FIRST + SECOND, encoding="utf-16")
    return path


CONLLU = "# text = Ada ran\n1\tAda\t_\tPROPN\t_\t_\t2\tdep\t_\t{}\n2\tran\t_\tVERB\t_\t_\t0\troot\t_\t{}\n\n"


def test_keys_of_misc_are_read(tmp_path: Path) -> None:
    for first in ("A=No|name=B-PER", "A=No name=B-PER", "A=No;name=B-PER", "A=No,name=B-PER", "name=B-PER"):
        content = CONLLU.format(first, "name=O")
        assert sentences(split_of(tmp_path / "a.conllu", content, label=("name",))) == [
            (("Ada", "ran"), ("B-PER", "O"))
        ]
    partly = split_of(tmp_path / "a.conllu", CONLLU.format("name=B-PER", "_"), label=("name",))
    assert sentences(partly)[0][1] == ("B-PER", "O") and any("1 of 2 words" in note for note in partly.notes)
    elsewhere = split_of(tmp_path / "a.tsv", CONLLU.format("_", "_"), task="pos")
    assert sentences(elsewhere) == [(("Ada", "ran"), ("PROPN", "VERB"))]


SCHEMES = {
    "B_PER": lambda tag: tag.replace("-", "_"),
    "b-per": str.lower,
    "PER-B": lambda tag: "-".join(reversed(tag.split("-"))),
    "BILOU": lambda tag: {"E": "L", "S": "U"}.get(tag[0], tag[0]) + tag[1:],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tag_spellings_give_the_same_entities(scheme: str) -> None:
    """seqeval reads BIOES; the same sequences, spelled otherwise, have its entities."""
    import random

    from electra.finetuning.metrics.entities import complete_tags, entities

    labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
    draw, tags = random.Random(0), ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y"]
    spelled = SCHEMES[scheme]
    for _ in range(500):
        row = [draw.choice(tags) for _ in range(draw.randint(1, 9))]
        found = [(kind.upper(), first, last) for first, last, kind in entities([spelled(tag) for tag in row])]
        assert found == labeling.get_entities(row)
    some = [spelled(tag) for tag in ("O", "B-X", "I-X", "B-Y")]
    assert set(complete_tags(some)) == {*some, spelled("I-Y")}
