"""electra analyze: the files and the page it writes, several models, and what it says when
something is wrong.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from contracts import small
from contracts.probes import write_data

from electra.commands.framework.main import main
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.foundation import durable
from electra.model.networks import Networks
from electra.model.pair import Pair, build_networks
from electra.model.sizes import generator_config
from electra.pages import probes
from electra.testing import toy

QUICK = "--probe-option resamples=20 --probe-option rows=8 --probe-option length=20"


def make_pair(vocab_size: int, seed: int) -> Pair:
    full = toy.config(vocab_size=vocab_size, max_positions=32)
    pair = Networks.pair(full, generator_config(full, 0.5, 1.0))
    return build_networks(pair, seed=seed, initialisation="fan_in")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/, pair/ and twin/ (discriminator/ and generator/)."""
    folder = tmp_path_factory.mktemp("analyze")
    (folder / "words").mkdir()
    words = small.tokenizer(folder / "words", "wrong")
    write_data(folder / "data")
    for number, name in enumerate(("pair", "twin")):
        pair = make_pair(words.vocab_size, number)
        for kind in ("discriminator", "generator"):
            export_network(folder / name / kind, getattr(pair, kind), words, Card(kind, kind))  # type: ignore[arg-type]
    return folder


@pytest.fixture(autouse=True)
def in_the_folder(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def analyze(typed: str, out: Path) -> int:
    """Runs a command in the folder of the models; {out} is a folder to write to."""
    return main(["analyze", *typed.format(out=out).split()])


def numbers(value: Any) -> set[str]:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return set[str]().union(*map(numbers, inner))
    return {repr(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()


def record(out: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / f"{name}.probe.json").read_text())
    return found


@pytest.mark.slow
def test_probes_write_json_and_one_page_whose_numbers_are_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze(f"pair --probe calibration --data data --out {{out}} {QUICK}", tmp_path) == 0
    asked = "--probe errors --probe generators --probe bias --probe-option draws=1"
    assert analyze(f"--data data {asked} pair twin --out {{out}} {QUICK}", tmp_path) == 0
    assert "page: " in capsys.readouterr().out
    records = {name: record(tmp_path, name) for name in ("calibration", "errors", "generators", "bias")}
    assert records["calibration"]["data"]["learners"][0]["file"] == "dev.tsv"
    assert records["calibration"]["options"]["resamples"] == 20
    assert [model["name"] for model in records["errors"]["models"]] == ["pair", "twin"]
    html = (tmp_path / "analysis.html").read_text()
    shown = set(re.findall(r'<data value="([^"]+)"', html))
    assert shown and shown <= numbers(list(records.values()))
    assert all(each["title"].replace("'", "&#39;") in html for each in records.values())
    assert html.count("<figure>") > 5
    probes.write_page(tmp_path)
    assert (tmp_path / "analysis.html").read_text() == html  # the same files, the same page


def test_a_model_without_the_network_is_left_out_of_a_comparison(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "--data data --probe-option resamples=5 --probe-option surprisal=false --out {out}"
    both = "--probe errors --probe layer_similarity"
    assert analyze(f"pair twin/generator {both} {options}", tmp_path) == 0
    said = capsys.readouterr().out
    assert "errors: generator " in said and said.count("left out") == 1
    found = record(tmp_path, "errors"), record(tmp_path, "layer_similarity")
    assert [[model["name"] for model in each["models"]] for each in found] == [
        ["pair"],
        ["pair", "generator"],
    ]
    assert "left out" in found[0]["notes"][-1]
    assert analyze(f"twin/generator pair --probe errors {options}", tmp_path) == 2  # MODEL itself
    assert analyze(f"pair data --probe errors {options}", tmp_path) == 2  # no model at all
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "finetune.json").write_text("{}")
    capsys.readouterr()
    assert analyze(f"{tmp_path}/tuned --probe errors {options}", tmp_path) == 2
    assert "model/" in capsys.readouterr().err


@pytest.mark.slow
def test_a_result_is_reused_until_options_model_or_data_change(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folders / "pair", tmp_path / "pair")
    data = tmp_path / "dev.tsv"
    shutil.copy(folders / "data" / "ged" / "fce-toy" / "dev.tsv", data)
    result = tmp_path / "out" / "errors.probe.json"
    told: list[str] = []

    def run(resamples: int = 5, beside: str = "") -> bool:
        """Whether the probe was run, not its answer kept."""
        options = f"--probe errors --data {{out}}/dev.tsv --probe-option resamples={resamples}"
        assert analyze(f"{{out}}/pair {beside} {options} --out {{out}}/out", tmp_path) == 0
        said = capsys.readouterr().out
        told[:] = re.findall(r"replaced an earlier result \((.*) changed\)", said)
        return "(reused" not in said

    assert run() and not run()
    assert not told and run(6) and told == ["options.resamples"]
    assert run()
    assert run(beside="twin") and told == ["models"] and not run(beside="twin")
    assert run()
    data.write_text(data.read_text() + "\nthe\tc\nwrong\ti\n")
    assert run() and not run()
    for kind in ("generator", "discriminator"):
        weights = Path(kind) / "model.safetensors"
        shutil.copy(folders / "twin" / weights, tmp_path / "pair" / weights)
        assert run() and not run()
    result.write_text(json.dumps(json.loads(result.read_text()) | {"question": "Worded otherwise?"}))
    assert not run(), "how a record says it is no part of the question"
    result.write_text("half a rec")
    assert run()


STOPS = """
import os, signal
from electra.laboratory.analysis.contract import Findings
from electra.laboratory.analysis.contract import Probe as Base
from dataclasses import dataclass

@dataclass(frozen=True)
class Config:
    pass

class Probe(Base):
    title, question, source, version, needs = "Stops", "Does it?", "nobody", 1, ()

    def inputs(self):
        return ()

    def run(self, models, data, progress):
        os.kill(os.getpid(), signal.SIGNAL)
        return Findings()
"""


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_stops_after_the_probe_at_hand_and_the_same_command_resumes(
    number: str, code: int, folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stops.py").write_text(STOPS.replace("SIGNAL", number))
    out = tmp_path / "out"
    options = "--data data --probe-option resamples=5 --probe-option surprisal=false --out {out}/out"
    words = f"pair --probe {{out}}/stops.py --probe errors {options}"
    assert analyze(words, tmp_path) == code
    assert {path.name for path in out.glob("*.probe.json")} == {"stops.probe.json"}
    assert (out / "analysis.html").exists() and "stopped; rerun" in (out / "log.txt").read_text()
    with durable.lock(out):
        assert analyze(words, tmp_path) == 2
        assert "in use by process" in capsys.readouterr().err
    assert analyze(words, tmp_path) == 0
    said = capsys.readouterr().out
    assert f"{out / 'stops.probe.json'} (reused" in said and (out / "errors.probe.json").exists()
    assert said.splitlines()[-1].partition(": ")[2] in (out / "log.txt").read_text()


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("--probe errors --out {out}/out", "MODELS"),
        ("pair --probe errors", "--out"),
        ("pair/generator --probe errors --out {out}/out", "generator"),
        ("pair/discriminator --probe bias --out {out}/out", "generator"),
        ("pair --probe eroors --out {out}/out", "'errors'"),
        ("pair --probe errors --probe-option kind=x --out {out}/out", "--probe-option kind"),
        ("pair pair --probe errors --out {out}/out", "pair"),
        ("nowhere --probe errors --out {out}/out", "nowhere"),
        ("nowhere --probe all --out {out}/out", "nowhere: "),
        ("pair --probe errors --data {out}/dev.tsv --out {out}/out", "dev.tsv"),
        ("pair --probe errors --data {out}/no --out {out}/out", "no: "),
        ("pair --probe errors --data {out} --out {out}/out", "dev.tsv"),
        ("pair --probe errors --data {out}/withheld --out {out}/out", "withheld?"),
        ("pair --probe calibration --data data --out {out}", "bad.probe.json"),
    ],
)
def test_an_error_is_one_line(
    typed: str, named: str, folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev.tsv").write_text("all\tc\ngood\tc\n")
    (tmp_path / "withheld" / "test").mkdir(parents=True)
    shutil.copy(folders / "data" / "ged" / "fce-toy" / "dev.tsv", tmp_path / "withheld" / "dev.tsv")
    (tmp_path / "withheld" / "test.tsv").write_text("all\tc\ngood\tc\n")
    (tmp_path / "bad.probe.json").write_text("{}")
    assert analyze(typed if "--data" in typed else f"{typed} --data data", tmp_path) == 2
    said = capsys.readouterr().err
    assert named in said and said.count("\n") == 1 and not list((tmp_path / "out").glob("*.json"))
