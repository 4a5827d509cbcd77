"""Labelled files: tagged sentences in many layouts, pairs, n-best lists; splits by name and by hash."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.splits import find_split, limit_by_hash, split_by_hash, text_hash
from electra.finetuning.tasks import load_task
from electra.foundation.errors import DataError
from electra.laboratory.analysis.probes.minimal_pairs import read_minimal_pairs
from electra.laboratory.analysis.probes.reranking import Utterance, read_utterances

WORDS = [("Ada", "met", "New", "York"), ("I", "don't", "\u00e9t\u00e9", '"')]
TAGS = [("B-PER", "O", "B-LOC", "I-LOC"), ("O", "O", "O", "O")]
EXPECTED = list(zip(WORDS, TAGS, strict=True))
PAIRS = [list(zip(words, tags, strict=True)) for words, tags in EXPECTED]


def split_of(path: Path, content: str, task: str = "ner", labelled: bool = True, **changes: Any) -> Split:
    path.write_bytes(content.encode())
    return replace(load_task(task), **changes).read(path, labelled)


def sentences(split: Split) -> list[tuple[Any, Any]]:
    return [(example.texts, example.gold) for example in split.examples]


def lines(rows: Any, separator: str = "\t") -> str:
    return "".join(separator.join(row) + "\n" for row in rows) + "\n"


def columns(form: Any, separator: str = "\t") -> str:
    """Returns a file whose rows are `form(number, word, tag)`, the number from 1 in each sentence."""
    rows = ([form(str(n), w, t) for n, (w, t) in enumerate(pairs, 1)] for pairs in PAIRS)
    return "".join(lines(each, separator) for each in rows)


PLAIN = columns(lambda n, w, t: [w, t])
COUNTED = columns(lambda n, w, t: [n, w, t, "O"])
SPANS = [[{"start": 0, "end": 3, "label": "PER"}, {"start": 8, "end": 16, "label": "LOC"}], []]


def json_lines(form: Any) -> str:
    """Returns JSON lines of `form(words, text, spans)`."""
    data = zip(WORDS, map(" ".join, WORDS), SPANS, strict=True)
    return "".join(json.dumps(form(*row)) + "\n" for row in data)


def quoted(words: Any) -> str:
    return '"' + json.dumps(words).replace('"', '""') + '"'


def renamed(spans: Any, start: str, end: str, label: str) -> Any:
    return [dict(zip((start, end, label), span.values(), strict=True)) for span in spans]


NAMED = [{"sentence_id": n, "word": w, "ner": t} for n, pairs in enumerate(PAIRS) for w, t in pairs]
LAYOUTS = {  # name of the file, content
    "words and tags": ("a.conll", PLAIN),
    "comments of other widths": ("a.tsv", f"#\thttp://x\t[2009]\n{PLAIN}"),
    "wide comments": ("a.conll", "# id 1 domain=x\n" + columns(lambda n, w, t: [w, "_", "_", t], " ")),
    "empty last columns": ("a.tsv", columns(lambda n, w, t: [w, t, "", ""])),
    "tabs after some": ("a.tsv", PLAIN.replace("met\tO\n", "met\tO\t\t\n")),
    "a space after a tag": ("a.tsv", PLAIN.replace("met\tO", "met\tO ")),
    "names of columns": ("a.tsv", "token\tlabel\n" + PLAIN),
    "names, the words not first": ("a.tsv", "no\tToken\tNER_tag\tinner\n" + COUNTED),
    "a document mark": ("a.conll", PLAIN.strip().replace("\n\n", "\n-DOCSTART-\tO\n")),
    "spaces": ("a.txt", columns(lambda n, w, t: [w, "_", t], "  ")),
    "carriage returns": ("a.conll", PLAIN.replace("\n", "\r")),
    "CoNLL-U, names": ("a.conllu", "# global.columns = ID FORM NER\n" + columns(lambda n, w, t: [n, w, t])),
    "lists": ("a.jsonl", "".join(json.dumps({"tokens": w, "ner_tags": t}) + "\n" for w, t in EXPECTED)),
    "lists in a csv": (
        "a.csv",
        "tokens;ner_tags\n" + "".join(f"{quoted(w)};{quoted(t)}\n" for w, t in EXPECTED),
    ),
    "a word in each row": ("a.jsonl", "".join(json.dumps(row) + "\n" for row in NAMED)),
    "numbered words": ("a.tsv", columns(lambda n, w, t: [n, w, t])),
    "words, tags and lemmas": ("a.tsv", columns(lambda n, w, t: [w, t, w.lower() + "s"])),
    "types first": ("a.tsv", columns(lambda n, w, t: [w, "-".join(t.split("-")[::-1])])),
    "sentences in lines": ("a.tsv", "".join(f"{' '.join(w)}\t{' '.join(t)}\n" for w, t in EXPECTED)),
    "named sentences in lines": (
        "a.tsv",
        "id\ttext\tlabels\n" + "".join(f"x\t{' '.join(w)}\t{' '.join(t)}\n" for w, t in EXPECTED),
    ),
    "joined to their words": ("a.txt", "".join(" ".join(map("/".join, pairs)) + "\n" for pairs in PAIRS)),
    "CoNLL-U elsewhere": ("a.conll", "# global.columns = ID FORM NER\n" + columns(lambda n, w, t: [n, w, t])),
    "markup": ("a.tsv", "<s>\n" + PLAIN.strip().replace("\n\n", "\n</s>\n<s id='1'>\n") + "\n</s>\n"),
}


def with_spans(text: str, spans: Any) -> dict[str, Any]:
    return {"text": text, "label": spans}


DOCCANO = ("start_offset", "end_offset", "label")
SPANNED = {  # what each line has
    "lists": lambda w, x, s: with_spans(x, [[*span.values()] for span in s]),
    "the end included": lambda w, x, s: with_spans(x, [[a["start"], a["end"] - 1, a["label"]] for a in s]),
    "words": lambda w, x, s: {"tokens": w, "ner": [[0, 1, "PER"], [2, 4, "LOC"]] if s else []},
    "GLiNER": lambda w, x, s: {"tokenized_text": w, "ner": [[2, 3, "LOC"], [0, 0, "PER"]] if s else []},
    "doccano": lambda w, x, s: {"data": x, "entities": renamed(s, *DOCCANO), "relations": []},
    "small letters": lambda w, x, s: with_spans(x, [{**a, "word": x[a["start"] : a["end"]].lower()} for a in s]),
    "columns": lambda w, x, s: with_spans(x, {k: [a[k] for a in s] for k in ("start", "end", "label")}),
    "spaCy": lambda w, x, s: {"text": x, "ents": s, "tokens": [{"id": 0, "start": 0, "end": 3}]},
    "spaCy, for training": lambda w, x, s: [x, {"entities": [[*span.values()] for span in s]}],
    "Prodigy": lambda w, x, s: {"text": x, "tokens": [{"text": "Ada"}], "spans": s, "answer": "accept"},
    "Label Studio": lambda w, x, s: {
        "data": {"text": x},
        "annotations": [
            {"was_cancelled": True, "result": []},
            {"result": [{"type": "labels", "value": {**span, "label": [span["label"]]}} for span in s]},
        ],
    },
    "Label Studio, short": lambda w, x, s: with_spans(x, [{**a, "label": [a["label"]]} for a in s]),
}
LAYOUTS |= {f"spans, {name}": ("a.jsonl", json_lines(form)) for name, form in SPANNED.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_sentences(layout: str, tmp_path: Path) -> None:
    name, content = LAYOUTS[layout]
    label = ("ner", *load_task("ner").label)
    assert sentences(split_of(tmp_path / name, content, label=label)) == EXPECTED


REFUSED = {
    "only numbers": ("a.tsv", columns(lambda n, w, t: ["7", w, t])),
    "tags that are all missing": ("a.tsv", lines([["Ada", "_"], ["met", "_"]])),
    "several columns of tags": ("a.tsv", lines([["the", "DT", "the"], ["films", "NN", "film"]] * 20)),
    "no empty line": ("a.tsv", lines([["Ada", "O"]] * 300)),
    "no empty line, two full stops": ("a.tsv", lines([["Ada", "O"], [".", "O"]] * 2)),
    "a missing tag": ("a.tsv", lines([["Ada", "B-PER"], ["met", "_"]])),
    "an empty tag": ("a.tsv", "Ada\tB-PER\nmet\t\n"),
    "lines of another width": ("a.conll", lines([["Ada", "O"], ["met", "O", "x", "y"], ["Bob", "O"]])),
    "a missing word in a list": ("a.jsonl", '{"tokens": ["Ada", null], "tags": ["O", "O"]}\n'),
    "a missing tag in a list": ("a.jsonl", '{"tokens": ["Ada", "met"], "tags": ["O", null]}\n'),
    "spans that are no spans": ("a.jsonl", '{"tokens": ["Ada", "met"], "tags": [[0, "PER"]]}\n'),
    "a span without a type": ("a.jsonl", '{"text": "Ada", "label": [{"start": 0, "end": 3}]}\n'),
    "a span outside the text": ("a.jsonl", '{"text": "Ada met", "label": [[0, 3, "X"], [4, 9, "X"]]}\n'),
    "a span outside the words": ("a.jsonl", '{"tokens": ["Ada"], "label": [[0, 1, "X"], [2, 3, "X"]]}\n'),
    "an empty span": ("a.jsonl", '{"text": "Ada met Bob", "label": [[0, 3, "X"], [4, 4, "X"]]}\n'),
    "a span of another text": (
        "a.jsonl",
        '{"text": "Ada met", "label": [{"start": 0, "end": 3, "label": "X", "text": "Bob"}]}\n',
    ),
    "spans of another": ("a.jsonl", '{"text": "Ada was meeting", "label": [[1, 2, "X"], [5, 6, "X"]]}\n'),
    "layers of entities": ("a.tsv", lines([["in", "O", "O"], ["Rome", "B-LOC", "B-LOC"]])),
    "a word without a tag": ("a.txt", "in/IN " * 30 + "Rome"),
    "a tag too few in a line": ("a.tsv", "in Rome\tO X\nin Rome\tO X\nin Rome\tO\n"),
    "a hashtag without a tag": ("a.tsv", lines([["#MeToo"], ["now", "O"]])),
    "other numbers of words and tags": ("a.jsonl", '{"tokens": ["Ada", "met"], "tags": ["O"]}\n'),
    "words without sentences": ("a.csv", "word,tag\nAda,O\nmet,O\n"),
    "a list of numpy": ("a.csv", "tokens,tags\n['a' 'b' 'z'],['O' 'O' 'O']\n"),
    "a list of Python": ("a.csv", "tokens,tags\n['a'],['O']\n"),
    "an unknown ending": ("a.pdf", "x"),
    "words alone": ("a.txt", "Al\n"),
    "a text alone": ("a.jsonl", '{"text": "Al"}\n'),
    "an object of words": ("a.jsonl", '{"tokens": {"a": 1}, "tags": []}\n'),
    "two columns of CoNLL-U": ("a.conllu", "1\tAl\n"),
    "empty lines": ("a.tsv", "\n\n"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_missing_or_unclear_words_and_tags_are_refused(case: str, tmp_path: Path) -> None:
    name, content = REFUSED[case]
    with pytest.raises(DataError) as caught:
        split_of(tmp_path / name, content)
    assert caught.value.where.startswith(str(tmp_path / name)) and "\n" not in str(caught.value)


def test_numeric_tags_have_names(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = ["O", "B-PER", "B-LOC", "I-LOC"]
    features = datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")),
        ner_tags=datasets.Sequence(datasets.ClassLabel(names=names)),
    )
    rows = {"tokens": list(map(list, WORDS)), "ner_tags": [[*map(names.index, tags)] for tags in TAGS]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "a.parquet")
    assert sentences(load_task("ner").read(tmp_path / "a.parquet")) == EXPECTED


def test_tags_that_are_words_or_several_are_refused(tmp_path: Path) -> None:
    lemmas = lines([[f"word{n}s", f"word{n}"] for n in range(60)])
    printed = "".join(f"['Ada', 'ran', '{n}']\t['B-PER', 'O', 'O']\n" for n in range(9))
    for task, content in (("pos", lemmas), ("tagging", printed), ("ner", "Ada\tB-PER|B-NAME\nran\tO\n")):
        with pytest.raises(DataError) as caught:
            load_task(task).fit(split_of(tmp_path / "a.tsv", content, task).examples)
        assert task != "ner" or "tagging" not in str(caught.value)  # which refuses them, too


def test_unusual_files_get_notes(tmp_path: Path) -> None:
    assert split_of(tmp_path / "a.tsv", PLAIN).notes == ()
    (tmp_path / "b.tsv").write_text(PLAIN, encoding="utf-16")
    unusual = [
        split_of(tmp_path / "a.conll", columns(lambda n, w, t: [w, "_", t])),
        load_task("ner").read(tmp_path / "b.tsv"),
        split_of(tmp_path / "b.jsonl", '{"tokens": [], "tags": []}\n{"tokens": ["Ada"], "tags": ["O"]}\n'),
        split_of(tmp_path / "c.tsv", "Ada\tB-PER\nmet\t_\n\nBob\tB-PER\n", skip_unlabelled=True),
        split_of(tmp_path / "d.tsv", "en:Bob\tB-PER\nen:ran\tO\n"),
        split_of(tmp_path / "e.txt", "# newdoc\nBob B-PER\nran O\n"),
    ]
    unspaced = json.dumps({"text": "\u6771\u4eac\u306b\u884c\u304d\u307e\u3057\u305f\u3002"})
    assert len(split_of(tmp_path / "g.jsonl", unspaced, labelled=False).notes) == 1
    assert all(len(split.notes) == 1 for split in unusual)
    assert sentences(unusual[-3]) == [(("Bob",), ("B-PER",))]
    assert sentences(unusual[-2]) == sentences(unusual[-1]) == [(("Bob", "ran"), ("B-PER", "O"))]


DOUBTFUL = [  # text, spans, tags, number of notes
    ("Bank of Rome", [[0, 12, "A"], [8, 12, "B"]], "B-A I-A I-A", 2),
    ("New York Times", [[0, 8, "A"], [4, 14, "B"]], "O B-B I-B", 2),
    ("a Rome-based firm", [[2, 6, "A"]], "O B-A O", 2),
    ("\U0001f600 to Rome", [[6, 10, "A"]], "O O B-A", 1),  # UTF-16
    ("\u00e9t\u00e9 Rome", [[6, 10, "A"]], "O B-A", 1),  # bytes
    ("in Old Rome now", [[1, 3, "A"]], "O B-A I-A O", 1),  # words
    ("\u674e\u56db\u559c\u6b22\u4e0a\u6d77\u5440", [[4, 6, "A"]], "O O O O B-A I-A O", 1),
    ("\ubbfc\ud638\ub294 \uc11c\uc6b8 \uac14\ub2e4", [[0, 2, "A"], [4, 6, "B"]], "B-A B-B O", 2),
]


@pytest.mark.parametrize("case", range(len(DOUBTFUL)))
def test_doubtful_spans_are_read_with_a_note(case: int, tmp_path: Path) -> None:
    text, spans, tags, count = DOUBTFUL[case]
    split = split_of(tmp_path / "a.jsonl", json.dumps({"text": text, "label": spans}))
    assert " ".join(split.examples[0].gold) == tags and len(split.notes) == count


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


HYPS = [{"text": "a b", "am": -1, "lm": -2.5}, {"text": "a", "am": -3, "lm": -1}]


def pair(good: str, bad: str) -> dict[str, str]:
    return {"sentence_good": good, "sentence_bad": bad, "linguistics_term": "order"}


def test_hypotheses_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "n.jsonl", {"ref": "a b", "hyps": HYPS})
    assert read_utterances(path) == [Utterance("a b", ("a b", "a"), {"am": (-1.0, -3.0), "lm": (-2.5, -1.0)})]
    assert read_utterances(path, hypotheses=1)[0].hypotheses == ("a b",)


@pytest.mark.parametrize(
    ("read", "name", "rows", "line"),
    [
        (read_minimal_pairs, "p.jsonl", [pair("a", " ")], 1),
        (read_minimal_pairs, "p.jsonl", [pair("a", "a")], 0),
        (read_utterances, "n.jsonl", [{"hyps": HYPS}], 1),
        (read_utterances, "n.jsonl", [{"ref": "a", "hyps": []}], 1),
        (read_utterances, "n.jsonl", [{"ref": "a", "hyps": [HYPS[0], {"text": "b", "am": 1}]}], 1),
        (read_utterances, "n.jsonl", [{"ref": "a", "hyps": [{"text": "b", "am": True}]}], 1),
        (read_utterances, "n.jsonl", [{"ref": " ", "hyps": HYPS}], 0),
    ],
)
def test_bad_pairs_and_hypotheses_are_refused(read: Any, name: str, rows: Any, line: int, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(write(tmp_path / name, *rows))
    assert caught.value.where == f"{tmp_path / name}{f':{line}' * bool(line)}"


def test_split_files_are_found_by_name(tmp_path: Path) -> None:
    names = str.split("train-10k.jsonl.gz dev_matched.tsv dev_mismatched.tsv mine.test.csv train.txt notes.md")
    for name in names:
        write(tmp_path / name)
    assert find_split(tmp_path, "train") == tmp_path / "train-10k.jsonl.gz"
    assert find_split(tmp_path, "dev", ("dev_matched",)) == tmp_path / "dev_matched.tsv"
    assert find_split(tmp_path, "test") == tmp_path / "mine.test.csv"
    with pytest.raises(DataError):
        find_split(tmp_path, "dev")
    assert find_split(tmp_path, "train") != write(tmp_path / "train.csv") == find_split(tmp_path, "train")
    write(tmp_path / "glue" / "val.jsonl")
    assert find_split(tmp_path / "glue", "test") is None
    assert find_split(tmp_path / "glue", "dev") == tmp_path / "glue" / "val.jsonl"


def test_choices_by_hash_do_not_depend_on_the_order() -> None:
    examples = [Example("0", "f:1", (f"text {i % 150}",), i % 2) for i in range(300)]
    train, dev = split_by_hash(examples, lambda example: example.texts, Path("f"))
    assert not {e.texts for e in train} & {e.texts for e in dev}, "equal texts stay together"
    assert 30 <= len(dev) <= 34 and len(train) + len(dev) == 300
    backwards = split_by_hash(examples[::-1], lambda example: example.texts, Path("f"))[1]
    assert {e.texts for e in backwards} == {e.texts for e in dev}
    with pytest.raises(DataError):
        split_by_hash(examples[:1], lambda example: example.texts, Path("f"))
    chosen = limit_by_hash(examples[:100], 10)
    assert {*chosen} == {*limit_by_hash(examples[99::-1], 10)} < {*limit_by_hash(examples[:100], 20)}
    hashes = [text_hash(example.texts) for example in examples[:100]]
    assert [text_hash(e.texts) for e in chosen] == [value for value in hashes if value in sorted(hashes)[:10]]
