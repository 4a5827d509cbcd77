"""Every tutorial is followed from top to bottom, in an empty folder; with few rows and few steps."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import driven
import pytest
import torch
from driven import toy_store  # noqa: F401
from safetensors.torch import load_file
from test_snippets import FENCE, ROOT

from electra.commands.framework.main import main
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.model.pair import build_pair
from electra.model.sizes import EncoderConfig
from electra.testing import small, toy_task

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
        replaced, quick = [instead.get(word, word) for word in words], QUICK.get(words[0], [])
        for option in {*quick[::2]} & {*replaced}:  # an option is given once
            place = replaced.index(option)
            del replaced[place : place + 2]
        code = main([*replaced, *quick])
        out, err = capsys.readouterr()
        assert code == 0, f"{page}: electra {shlex.join(words)}\n{err}"
        said.append(out)
    return said


def test_from_a_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
    rows = [f"der Film {i} war {'gut' if i % 2 else 'fad'},{'ja' if i % 2 else 'nein'}" for i in range(ROWS)]
    Path("bewertungen.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    said = "".join(
        follow("from-your-own-text.md", {"8192": "90", "30m": "4steps", "3": "1"}, monkeypatch, capsys)
    )
    assert "P(replaced)" in said and Path("runs/mine/report.html").is_file()
    names: dict[str, object] = {}
    exec(compile(blocks("from-your-own-text.md")[0], "from-your-own-text.md", "exec"), names)
    assert type(names["encoder"]).__name__ == "ModernBertModel"


def write_deberta(folder: Path) -> Path:
    """Writes both networks as Microsoft publishes them: pickles in one folder."""
    words = toy_task.tokenizer(folder.with_name("deberta-words"))
    config = EncoderConfig("deberta", words.vocab_size, 32, 32, 2, 2, 64, norm_eps=1e-7, num_token_types=0)
    pair = build_pair(config, config, sharing="disentangled", seed=3, initialisation="fan_in")
    for kind, network, name in (
        ("discriminator", pair.main, "pytorch_model.bin"),
        ("generator", pair.auxiliary, "pytorch_model.generator.bin"),
    ):
        given = folder.with_name(f"deberta-{kind}")
        export_network(given, network, words, Card(name="toy", kind=kind))
        if kind == "discriminator":
            shutil.copytree(
                given, folder, ignore=shutil.ignore_patterns("model.safetensors", "manifest.json")
            )
        torch.save(load_file(given / "model.safetensors"), folder / name)
    return folder


def test_from_a_published_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "texts")
    (tmp_path / "more").mkdir()
    Path("more/more.txt").write_text("a film that is good and long")
    rows = [
        f"a film {i} that is {'good' if i % 2 else 'bad'},{'yes' if i % 2 else 'no'}" for i in range(ROWS)
    ]
    Path("labelled.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    model = str(toy_task.save_encoder(tmp_path / "toy", "modern"))
    instead = {"answerdotai/ModernBERT-base": model, "2h": "4steps", "3": "1", "16384": "600"}
    [longer] = [block for block in blocks("from-a-published-encoder.md") if "lengthen" in block]
    for word in ("answerdotai/ModernBERT-base", "16384"):
        longer = longer.replace(word, instead[word])
    exec(compile(longer, "from-a-published-encoder.md", "exec"), {})
    said = follow("from-a-published-encoder.md", instead, monkeypatch, capsys)
    assert "TF-IDF" in said[0] and "mixed: general" in said[2]
    assert json.loads(Path("longer/config.json").read_text())["max_position_embeddings"] == 600
    assert Path("runs/after/report.html").is_file() and Path("adapted/config.json").is_file()


def test_continue_deberta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "texts")
    rows = [
        f"a film {i} that is {'good' if i % 2 else 'bad'},{'yes' if i % 2 else 'no'}" for i in range(ROWS)
    ]
    Path("labelled.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    given = str(write_deberta(tmp_path / "deberta"))
    instead = {"microsoft/deberta-v3-small": given, "2h": "4steps", "3": "1"}
    script = Path(__file__).parents[2] / "examples" / "from_pickle.py"
    subprocess.run([sys.executable, str(script), given, "--out", "pair"], check=True)
    follow("continue-deberta.md", instead, monkeypatch, capsys)
    assert Path("runs/after/report.html").is_file()
    names: dict[str, Any] = {}
    exec(compile(blocks("continue-deberta.md")[0], "continue-deberta.md", "exec"), names)
    assert type(names["encoder"]).__name__ == "DebertaV2Model"
    assert names["states"].shape[-1] == names["encoder"].config.hidden_size


SMALLER = """
[base.training]
length = 16
batch_size = 4
precision = "fp32"
[base.evaluation]
rows = 8
"""


def write_panel(folder: Path) -> None:
    """Part of speech and chunks, as few as do."""
    for name in ("ud-english-ewt", "chunking/conll2000"):
        (folder / name).mkdir(parents=True)
    for split in ("train", "dev"):
        small.write_treebank(folder / "ud-english-ewt" / f"{split}.conllu", repeats=4)
    chunks = "".join(f"the DT B-NP\n{subject} NN I-NP\nsees VBD B-VP\n\n" for subject in ("cat", "dog") * 9)
    for split in ("train", "test"):
        (folder / "chunking" / "conll2000" / f"{split}.txt").write_text(chunks)


def test_compare_two_objectives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "texts")
    write_panel(tmp_path / "DATA")
    [study] = blocks("compare-two-objectives.md", "toml")
    Path("objectives.toml").write_text(study + SMALLER)
    instead = {"8192": "90", "2Mtokens": "10steps", "3": "2"}
    follow("compare-two-objectives.md", instead, monkeypatch, capsys)
    results = json.loads(Path("runs/rtd-or-mlm/results.json").read_text())
    assert results["complete"] and set(results["budgets"][0]["arms"]) == {"mlm", "rtd"}
    assert results["primary"] == "panel", "as the page promises"


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
