"""Every tutorial is followed from top to bottom, in an empty folder; with few rows and few steps."""

import csv
import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import driven
import pytest
import tokenizers
import transformers
from contracts import toy_task
from driven import toy_store  # noqa: F401
from test_snippets import FENCE, ROOT

import electra
from electra.commands.framework.main import main
from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.errors import Note

pytestmark = pytest.mark.slow

ROWS = 40
SHORT = ["--training.length", "16", "--training.batch-size", "4", "--evaluation.rows", "8"]
QUICK = {  # one thread: two of them wait for each other where a core is busy
    "finetune": ["--epochs", "1", "--max-length", "16", "--threads", "1"],
    "pretrain": [*SHORT, "--training.threads", "1"],
    "ablate": ["--threads", "1"],
}


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def blocks(page: str, language: str = "python") -> list[str]:
    return [block for found, block in FENCE.findall(text_of(page)) if found == language]


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """(standard input, words after electra) of each line to type, outside fences."""
    for line in FENCE.sub("", text_of(page)).splitlines():
        if line.startswith("    ") and "electra " in line:
            before, _, command = line.strip().rpartition("| ")
            yield before.removeprefix("echo ").strip().strip('"'), shlex.split(command, comments=True)[1:]


@pytest.fixture(autouse=True)
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """What --dry-run spends its seconds on."""

    monkeypatch.setattr("electra.training.estimate.measure", lambda *_: 0.01)
    monkeypatch.setattr("electra.data.corpus.unknown.REFUSED", 1.0)  # the toy models know few words


def follow(
    page: str, instead: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Type every command, with some words replaced; what each printed."""
    said = []
    for typed, words in commands(page):
        if words[0] == "serve":
            continue  # tests/serving follow that one
        if typed:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{typed}\n".encode())))
        code = main([*(instead.get(word, word) for word in words), *QUICK.get(words[0], [])])
        out, err = capsys.readouterr()
        assert code == 0, f"{page}: electra {shlex.join(words)}\n{err}"
        said.append(out)
    return said


def test_from_a_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    make, use = blocks("from-a-csv.md")
    exec(compile(make, "from-a-csv.md", "exec"), {})
    with open("docstrings.csv", encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    assert len(rows) > 1000, "as the page says"
    text = text_of("from-a-csv.md")
    shown = [line.strip() for line in text.splitlines() if line.startswith(("    module,", "    a"))]
    assert [line.split(",")[0] for line in shown] == ["module", "argparse", "argparse"]
    assert ",".join(columns) == shown[0] and all(line.split(",") in rows for line in shown[1:])
    with open("docstrings.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows[:: len(rows) // ROWS]])

    model = toy_task.save_encoder(tmp_path / "toy", "modern")
    instead = {"small-en": str(model), "tiny-en": str(model), "3": "1"}  # models, seeds
    said = "".join(follow("from-a-csv.md", instead, monkeypatch, capsys))
    assert "majority 0." in said and "random initialization in the shape of" in said
    assert any(line.startswith("Return the square root of x.\t") for line in said.splitlines())
    assert Path("runs/kinds/report.html").is_file()
    with open("predictions.csv", encoding="utf-8", newline="") as file:
        header = next(csv.reader(file))
    assert header == [*columns, "predicted", "probability", "p(class)", "p(function)"]
    exec(compile(use, "from-a-csv.md", "exec"), {})


def write_rows(path: str, text: str, labels: tuple[str, str]) -> None:
    """A csv of texts with two labels; {} in `text` is the number."""
    rows = [f"{text.format(i)} {labels[i % 2]},{labels[i % 2]}" for i in range(ROWS)]
    Path(path).write_text("\n".join(["text,label", *rows]) + "\n")


def write_texts(folder: Path) -> None:
    """A folder of small documents, one a file."""
    folder.mkdir()
    lines = driven.write_corpus(folder.parent / "lines.txt").read_text().splitlines()
    for number, line in enumerate(lines):
        (folder / f"{number}.txt").write_text(line)


def test_from_your_own_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "texte")
    write_rows("bewertungen.csv", "der Film {} war", ("fad", "gut"))
    said = "".join(follow("from-your-own-text.md", {"8192": "90", "30m": "4steps", "3": "1"}, monkeypatch, capsys))
    assert "P(replaced)" in said and Path("runs/mine/report.html").is_file()
    names: dict[str, object] = {}
    exec(compile(blocks("from-your-own-text.md")[0], "from-your-own-text.md", "exec"), names)
    assert type(names["encoder"]).__name__ == "ModernBertModel"


def test_a_language_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = driven.write_corpus(tmp_path / "new.txt").read_text().splitlines()
    Path("text.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines))
    rest = "\t_" * 6
    tree = "\n\n".join(f"1\t{line.split()[0]}\t_\tDET{rest}\n2\tcat\t_\tNOUN{rest}" for line in lines)
    blank = tree.replace("DET", "_").replace("NOUN", "_")
    for name, text in (("train", tree), ("dev", tree), ("new", blank)):
        Path(f"{name}.conllu").write_text(f"{text}\n\n")
    Path("names.conll").write_text("\n\n".join(f"{line.split()[0]} B-PER\ncat O" for line in lines))
    follow("a-language-of-its-own.md", {"15m": "4steps", "my-tagger": "runs/tags/model"}, monkeypatch, capsys)
    found = Path("tagged.conllu").read_text().split("\n")
    assert {row.split("\t")[3] for row in found if row} <= {"DET", "NOUN"}


def test_wrong_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    word, Word = (f'<span class="ocrx_word">{each}</span>' for each in ("hridge", "The"))
    (tmp_path / "scans").mkdir()
    Path("scans/page-1.hocr").write_text(f"<p class='ocr_par'>{Word} {word}</p>")
    Path("scans/page-2.hocr").write_text("<p class='ocr_par'></p>")
    lines = [f"The old bridge near the mill of village {i} was built of stone ." for i in range(60)]
    for name in ("clean.txt", "german.txt"):
        Path(name).write_text("\n".join(lines))
    said = follow("wrong-words.md", {"10m": "4steps"}, monkeypatch, capsys)
    with pytest.warns(Note, match="page-2"):
        electra.detect("tiny-en", "scans", by="page")
    assert "hridge" in said[0] and "1 line" in said[2] and "made wrong" in said[5] and "2 words" in said[6]
    with open("marked.csv", encoding="utf-8", newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["file"], row["text"]) == ("scans/page-1.hocr", "The hridge")


def test_from_a_published_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "texts")
    (tmp_path / "more").mkdir()
    Path("more/more.txt").write_text("a film that is good and long")
    write_rows("labelled.csv", "a film {} that is", ("bad", "good"))
    model = str(toy_task.save_encoder(tmp_path / "toy", "modern"))
    instead = {
        "answerdotai/ModernBERT-base": model,
        "2h": "4steps",
        "3": "1",
        "16384": "600",
        "deberta": str(tmp_path / "deberta"),
    }
    words = Tokenizer.load(model)
    words.save(tmp_path / "deberta")
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    shape |= {"relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False}
    config = transformers.DebertaV2Config(vocab_size=words.vocab_size, type_vocab_size=0, **shape)
    transformers.DebertaV2Model(config).save_pretrained(tmp_path / "deberta")
    script = Path(__file__).parents[2] / "examples" / "longer.py"
    for changes, out in ((["600"], "longer"), (["--layers", "4"], "deeper")):
        subprocess.run([sys.executable, str(script), model, *changes, "--out", out], check=True)
    assert json.loads(Path("deeper/config.json").read_text())["num_hidden_layers"] == 4
    said = follow("from-a-published-encoder.md", instead, monkeypatch, capsys)
    assert "counts" in said[0] and "kept" in said[2]
    assert json.loads(Path("longer/config.json").read_text())["max_position_embeddings"] == 600
    assert Path("runs/after/report.html").is_file() and Path("adapted/config.json").is_file()


def test_distillation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """From a multilingual encoder: XLM-RoBERTa's shape, and a Unigram vocabulary of two languages."""
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "texts")
    write_rows("labelled.csv", "a film {} that is", ("bad", "good"))
    lines = [path.read_text() for path in Path("texts").iterdir()]
    found = tokenizers.Tokenizer(tokenizers.models.Unigram())
    found.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    others = ["".join(chr(ord(letter) + 0x350) for letter in line) for line in lines]
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=300, show_progress=False)
    found.train_from_iterator(lines + others, trainer)
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    entries = [
        *((token, 0.0) for token in specials),
        *map(tuple, json.loads(found.to_str())["model"]["vocab"]),
    ]
    found = tokenizers.Tokenizer(tokenizers.models.Unigram([*entries, ("<mask>", 0.0)], 3, False))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    found.add_special_tokens([*specials, "<mask>"])
    found.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    shape = {"hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.XLMRobertaConfig(
        vocab_size=found.get_vocab_size(), max_position_embeddings=130, type_vocab_size=1, **shape
    )
    transformers.XLMRobertaModel(config).save_pretrained("big")
    Tokenizer(found.to_str(), {}).save("big")
    instead = {"MULTILINGUAL": "big", "TEACHER": "big", "2h": "4steps", "30m": "4steps", "1Mtokens": "4steps"}
    monkeypatch.setitem(QUICK, "distil", QUICK["pretrain"])
    follow("distillation.md", instead, monkeypatch, capsys)
    sizes = {name: electra.load(name).config.vocab_size for name in ("big", "mine", "small", "runs/three")}
    assert sizes["mine"] == sizes["small"] < sizes["big"] == sizes["runs/three"]


SMALLER = {  # what python.md says, and what is run
    "vocab_size=8192": "vocab_size=70, heldout=0.2",
    'budget="30m"': 'budget="4steps", overrides={"training.batch_size": 4, "training.threads": 1}',
    "seeds=2": "seeds=2, epochs=1, max_length=16",
}


def test_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "texts")
    write_rows("reviews.csv", "film number {} was", ("bad", "good"))
    code = "\n".join(blocks("python.md"))
    for said, run in SMALLER.items():
        assert said in code
        code = code.replace(said, run)
    exec(compile(code, "python.md", "exec"), {"__name__": "page"})
    assert "nowhere" in capsys.readouterr().out
    assert [name for name in electra.__all__ if f"`{name}" not in text_of("python.md")] == []


STUTTER = "\n".join(block for block in blocks("write-an-objective.md") if "electra.testing" not in block)


def test_write_an_objective(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its tests, as the page says to write them, and its training."""
    monkeypatch.chdir(tmp_path)
    Path("stutter.py").write_text(STUTTER)
    store = request.getfixturevalue("toy_store")
    follow("write-an-objective.md", {"store": str(store), "10m": "4steps"}, monkeypatch, capsys)
    assert main(["detect", "runs/stutter", "the the cat sees"]) == 0
    [tests] = [block for block in blocks("write-an-objective.md") if "electra.testing" in block]
    Path("test_stutter.py").write_text(tests)
    typed = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_stutter.py"]
    done = subprocess.run(typed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
