"""The commands detect, show, export and verify."""

import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

import electra
from electra.commands.framework.main import main
from electra.exchange.huggingface import export
from electra.exchange.load import load, load_language_model
from electra.model.pair import Pair

ExportPair = Callable[..., tuple[Pair, Path]]
FINETUNING = Path(__file__).parents[1] / "fixtures" / "old-finetuning"
Capture = pytest.CaptureFixture[str]


def fails(capsys: Capture, *argv: object) -> str:
    """Runs a command with wrong input: exit code 2, one line on stderr, nothing on stdout."""
    assert main([str(argument) for argument in argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("error: ")
    return err


def test_detect_marks_words(export_pair: ExportPair, capsys: Capture) -> None:
    folder = str(export_pair()[1])
    assert main(["detect", folder, "The chef ate [the] meal.", "--threshold", "0"]) == 0
    out = capsys.readouterr().out
    assert "[The 0." in out and "[chef 0." in out and "\x1b" not in out and "8 of 8 words marked" in out
    assert main(["detect", folder, "The chef ate [the] meal.", "--threshold", "1"]) == 0
    text, likeliest, summary = capsys.readouterr().out.splitlines()
    assert likeliest.startswith("  most suspicious: ") and likeliest.count(", ") == 2
    assert text == "The chef ate [the] meal." and summary.startswith("0 of 8 words marked (threshold 1,")
    assert main(["detect", folder, "the\x1b]0;title\x07 chef", "--threshold", "1"]) == 0
    assert "the\ufffd]0;title\ufffd chef" in capsys.readouterr().out
    fails(capsys, "detect", folder, " ")


def test_detect_reads_lines_and_writes_json(
    export_pair: ExportPair, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(export_pair()[1])
    lines = ["the chef", "", "caf\u00e9 \u2028 ate", "x\r"]
    (tmp_path / "texts").write_bytes("\n".join(lines).encode())
    words = ["--json", "--threshold", "0"]
    assert main(["detect", folder, str(tmp_path / "texts"), *words]) == 0
    from_file = capsys.readouterr().out
    rows = [json.loads(row) for row in from_file.removesuffix("\n").split("\n")]
    assert [row["text"] for row in rows] == ["the chef", "", "caf\u00e9 \u2028 ate", "x"]
    for row in rows:
        assert [row["text"][word["start"] : word["end"]] for word in row["words"]] == row["text"].split()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "texts").read_bytes())))
    assert main(["detect", folder, "-", *words]) == 0
    assert capsys.readouterr().out == from_file


def test_detect_and_show_refuse(export_pair: ExportPair, tmp_path: Path, capsys: Capture) -> None:
    folder = export_pair()[1]
    (tmp_path / "latin").write_bytes(b"fine\ncaf\xe9\n")
    assert "no discriminator" in fails(capsys, "detect", folder / "generator", "x", "--scorer", "discriminator")
    assert "needs TEXTS" in fails(capsys, "detect", folder)
    assert "several must be files" in fails(capsys, "detect", folder, "x", "y")
    assert "must be a probability" in fails(capsys, "detect", folder, "x", "--threshold", "2")
    assert f"{tmp_path / 'latin'}:2: not UTF-8" in fails(capsys, "detect", folder, tmp_path / "latin")
    assert "at most 1" in fails(capsys, "show", folder, "--mask-fraction", "0")


def test_show_finds_the_networks_it_needs(export_pair: ExportPair, capsys: Capture) -> None:
    folder = export_pair()[1]
    for argv in ([folder], [folder, "the chef cooked the meal"]):
        assert main(["show", *map(str, argv)]) == 0
        shown = capsys.readouterr().out
        assert shown.count("[MASK]") == 2 and "cooked" in shown
    assert main(["show", str(folder), "the meals"]) == 0
    assert "##s" in capsys.readouterr().out
    assert main(["show", str(folder / "discriminator"), "the meals"]) == 0
    assert "no generator" in capsys.readouterr().err
    assert main(["show", str(folder / "generator"), "the meals", "--mask-fraction", "1"]) == 0
    assert capsys.readouterr().out.count("[MASK]") == 3


def test_export_writes_a_folder_once_more(export_pair: ExportPair, tmp_path: Path, capsys: Capture) -> None:
    pair, folder = export_pair()
    argv = ["export", str(folder), "--network", "generator", "--out", str(tmp_path / "out")]
    argv += ["--dtype", "bfloat16"]
    assert main(argv) == 0 and main(argv) == 0
    assert transformers.ElectraForMaskedLM.from_pretrained(tmp_path / "out").dtype == torch.bfloat16
    assert pair.auxiliary is not None
    table = load(tmp_path / "out", "generator").encoder.token_table()
    assert torch.equal(table, pair.auxiliary.encoder.token_table().bfloat16().float())
    capsys.readouterr()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    assert "other files (thesis.tex)" in fails(capsys, "export", folder, "--out", tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()
    assert "not a run folder" in fails(capsys, "export", folder / "generator", "--out", tmp_path / "new", "--step", "3")
    assert "no such folder" in fails(capsys, "export", tmp_path / "none", "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_export_of_a_run_keeps_what_its_language_model_is(export_pair: ExportPair, tmp_path: Path) -> None:
    _, run = export_pair("law")
    export(replace(load(run, "generator"), threshold=0.2), run / "language_model", run)
    (run / "run.toml").write_text('[objective]\nname = "rtd_mlm"\n')
    metrics = {"mlm_accuracy": 0.4, "best_f1_threshold": 0.3}
    row = {"kind": "eval", "step": 3, "metrics": metrics}
    (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    for network in ("discriminator", "generator", "language_model"):
        words = ["export", str(run), "--network", network, "--out", str(tmp_path / "pair" / network)]
        assert main(words) == 0
        card = (tmp_path / "pair" / network / "README.md").read_text()
        assert f"# law-{network.replace('_', '-')}\n" in card and "| mlm_accuracy | 0.4 |" in card
    kept = load_language_model(tmp_path / "pair")
    assert kept is not None and kept.threshold == 0.2
    assert load(tmp_path / "pair").threshold == 0.3, "which the run measured"


def test_export_of_a_fine_tuning_exports_its_model(tmp_path: Path) -> None:
    tuning = tmp_path / "tuning"
    shutil.copytree(FINETUNING, tuning)
    assert main(["export", str(tuning), "--out", str(tmp_path / "new")]) == 0
    both = [electra.predict(folder, "a fine film").records() for folder in (tuning, tmp_path / "new")]
    assert both[0] == both[1]
