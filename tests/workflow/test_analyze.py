"""electra analyze: the files and the page it writes, several models, checkpoints, and what it says when
something is wrong.
"""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts import digests
from electra.commands.framework.main import main
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.foundation import durable
from electra.foundation.config import merge, write_toml
from electra.foundation.errors import ModelError
from electra.laboratory.analysis.contract import models as origins
from electra.laboratory.analysis.contract import named_models
from electra.laboratory.analysis.contract import record as records_of
from electra.laboratory.analysis.probes import errors
from electra.model.pair import Pair, build_pair
from electra.model.sizes import generator_config
from electra.pages import probes
from electra.pages.figures import Figure, Series, draw, inline
from electra.pages.page import Number
from electra.testing import small, toy
from electra.testing.probes import write_data
from electra.training import checkpoint
from electra.training.optimizer import Optimizer
from electra.training.recipe import Recipe

QUICK = ["--probe-option", "resamples=20", "--probe-option", "rows=8", "--probe-option", "length=20"]


def make_pair(vocab_size: int, seed: int) -> Pair:
    full = toy.config(vocab_size=vocab_size, max_positions=32)
    return build_pair(full, generator_config(full, 0.5, 1.0), seed=seed, initialisation="fan_in")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/, pair/ and twin/ (discriminator/ and generator/), run/ with two checkpoints."""
    folder = tmp_path_factory.mktemp("analyze")
    (folder / "words").mkdir()
    words = small.tokenizer(folder / "words", "wrong")
    write_data(folder / "data")
    for number, name in enumerate(("pair", "twin")):
        pair = make_pair(words.vocab_size, number)
        for kind in ("discriminator", "generator"):
            export_network(folder / name / kind, getattr(pair, kind), words, Card(kind, kind))  # type: ignore[arg-type]
    recipe = Recipe()
    for step in (8, 16):
        pair = make_pair(words.vocab_size, step)
        checkpoint.write(
            folder / "run" / "checkpoints", pair, Optimizer(pair, recipe.training), {"step": step}, keep=9
        )
        shapes = {kind: asdict(getattr(pair, kind).encoder.config) for kind in ("generator", "discriminator")}
    (folder / "run" / "run.toml").write_text(write_toml({**recipe.to_sections(), **shapes}))
    words.save(folder / "run" / "tokenizer")
    return folder


def analyze(*words: object) -> int:
    return main(["analyze", *map(str, words)])


def numbers(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*map(numbers, value)) if value else set()
    return {repr(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()


@pytest.mark.slow
def test_probes_write_json_and_one_page_whose_numbers_are_in_it(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    names = ("calibration", "errors", "generators", "bias")
    assert (
        analyze(folders / "pair", "--probe", names[0], "--data", folders / "data", "--out", out, *QUICK) == 0
    )
    asked = [word for name in names[1:] for word in ("--probe", name)]
    draws = ("--probe-option", "draws=1")
    told = analyze(
        "--data", folders / "data", *asked, folders / "pair", folders / "twin", "--out", out, *QUICK, *draws
    )
    assert told == 0 and "page: " in capsys.readouterr().out
    records = {name: json.loads((out / f"{name}.probe.json").read_text()) for name in names}
    assert (
        records["calibration"]["data"]["learners"][0]["file"] == "dev.tsv"
        and records["calibration"]["options"]["resamples"] == 20
    )
    assert [model["name"] for model in records["errors"]["models"]] == ["pair", "twin"]
    html = (out / "analysis.html").read_text()
    shown = set(re.findall(r'<data value="([^"]+)"', html))
    assert shown and shown <= numbers(list(records.values()))
    for record in records.values():
        assert record["title"].replace("'", "&#39;") in html
    assert html.count("<figure>") > 5
    probes.write_page(out)
    assert (out / "analysis.html").read_text() == html  # the same files, the same page


@pytest.mark.slow
def test_probes_without_data_are_left_out_and_named(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learners = folders / "data" / "ged" / "fce-toy" / "dev.tsv"
    (tmp_path / "text.md").write_text("nothing")
    assert (
        analyze(
            folders / "pair", "--data", learners, "--out", tmp_path / "out", "--probe-option", "resamples=5"
        )
        == 0
    )
    said = capsys.readouterr().out
    assert re.search(r"^errors: average precision \d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\];", said, re.M)
    assert "bias: left out" in said and "gold parts of speech" in said and "errors.probe.json" in said
    assert analyze(folders / "pair", "--data", tmp_path / "text.md", "--out", tmp_path / "none") == 2
    assert "no probe could run" in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "none").glob("[!.]*")} <= {"log.txt"}


@pytest.mark.slow
def test_a_probe_follows_the_checkpoints_of_a_run(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--probe", "errors", "--data", folders / "data", "--probe-option", "resamples=5", "--out")
    assert analyze(folders / "run", *options, tmp_path, "--over-training") == 0
    record = probes.read_record(tmp_path / "errors-over-training.probe.json")
    assert [row[0] for row in record["tables"][0]["rows"]] == [8, 16] and list(record["checkpoints"]) == [
        "16",
        "8",
    ]
    assert analyze(folders / "run", *options, tmp_path) == 0  # the newest checkpoint
    newest = json.loads((tmp_path / "errors.probe.json").read_text())
    assert record["tables"][0]["rows"][1][1] == newest["headline"]["average precision"]
    assert record["tables"][0]["rows"][0][1] != newest["headline"]["average precision"]
    weights = next((folders / "run" / "checkpoints" / "step-00000008").glob("model.safetensors"))
    content = weights.read_bytes()
    try:
        weights.write_bytes(content[:-1])
        assert analyze(folders / "run", *options, tmp_path / "again", "--over-training") == 0
        record = probes.read_record(tmp_path / "again" / "errors-over-training.probe.json")
        assert [row[0] for row in record["tables"][0]["rows"]] == [16] and "step-00000008" in record["notes"][
            0
        ]
    finally:
        weights.write_bytes(content)
    capsys.readouterr()
    assert analyze(folders / "pair", *options, tmp_path, "--over-training") == 2
    assert "--over-training" in capsys.readouterr().err


def test_a_model_without_the_network_is_left_out_of_a_comparison(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (
        "--data",
        folders / "data",
        "--probe-option",
        "resamples=5",
        "--probe-option",
        "surprisal=false",
        "--out",
        tmp_path,
    )
    lone = folders / "twin" / "generator"
    assert analyze(folders / "pair", lone, "--probe", "errors", "--probe", "layer_similarity", *options) == 0
    said = capsys.readouterr().out
    assert "errors: generator " in said and said.count("left out") == 1
    records = {
        name: json.loads((tmp_path / f"{name}.probe.json").read_text())
        for name in ("errors", "layer_similarity")
    }
    assert [model["name"] for model in records["errors"]["models"]] == ["pair"] and "left out" in records[
        "errors"
    ]["notes"][-1]
    assert [model["name"] for model in records["layer_similarity"]["models"]] == ["pair", "generator"]
    assert analyze(lone, folders / "pair", "--probe", "errors", *options) == 2  # MODEL itself
    assert analyze(folders / "pair", folders / "data", "--probe", "errors", *options) == 2  # no model at all
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "finetune.json").write_text("{}")
    capsys.readouterr()
    assert analyze(tmp_path / "tuned", "--probe", "errors", *options) == 2
    assert "model/" in capsys.readouterr().err


def test_a_masked_language_model_is_compared_by_its_surprisal(folders: Path, tmp_path: Path) -> None:
    options = ("--data", folders / "data", "--probe-option", "resamples=5", "--out", tmp_path)
    assert analyze(folders / "pair", folders / "twin" / "generator", "--probe", "errors", *options) == 0
    record = probes.read_record(tmp_path / "errors.probe.json")
    assert [model["name"] for model in record["models"]] == ["pair", "generator"]
    scorers = [row[0] for row in record["tables"][0]["rows"]]
    assert scorers[:3] == [
        "discriminator of pair",
        "surprisal, generator of pair",
        "surprisal, generator of generator",
    ]
    assert record["tables"][0]["rows"][1][4] != record["tables"][0]["rows"][2][4], "two networks, two answers"


@pytest.mark.slow
def test_a_result_is_reused_until_options_model_or_data_change(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(*more: object, beside: Sequence[Path] = ()) -> bool:
        """Whether the probe was run, not its answer kept."""
        assert (
            analyze(
                tmp_path / "pair",
                *beside,
                "--probe",
                "errors",
                "--data",
                data,
                "--out",
                tmp_path / "out",
                *more,
            )
            == 0
        )
        said = capsys.readouterr().out
        told[:] = re.findall(r"replaced an earlier result \((.*) changed\)", said)
        return "(reused" not in said

    told: list[str] = []

    shutil.copytree(folders / "pair", tmp_path / "pair")
    data = tmp_path / "dev.tsv"
    shutil.copy(folders / "data" / "ged" / "fce-toy" / "dev.tsv", data)
    quick = ("--probe-option", "resamples=5")
    assert asked(*quick) and not asked(*quick)
    assert not told and asked("--probe-option", "resamples=6") and told == ["options.resamples"]
    assert asked(*quick)
    beside = [folders / "twin"]
    assert asked(*quick, beside=beside) and told == ["models"] and not asked(*quick, beside=beside)
    assert asked(*quick)
    data.write_text(data.read_text() + "\nthe\tc\nwrong\ti\n")
    assert asked(*quick) and not asked(*quick)
    for kind in ("generator", "discriminator"):
        weights = tmp_path / "pair" / kind / "model.safetensors"
        shutil.copy(folders / "twin" / kind / "model.safetensors", weights)
        assert asked(*quick) and not asked(*quick)
    record = tmp_path / "out" / "errors.probe.json"
    record.write_text(record.read_text().replace("ERRANT", "ARRANT").replace("recall", "rekall"))
    assert asked(*quick) and not asked(*quick), "what is not as it was written is no answer"
    digests.forget(record.parent)
    worded = json.loads(record.read_text()) | {"question": "Worded otherwise?"}
    record.write_text(json.dumps(worded))
    assert not asked(*quick), "how a record says it is no part of the question"
    record.write_text("half a rec")
    assert asked(*quick)


STOPS = """
import os, signal
from electra.laboratory.analysis.contract import Findings, Probe as Base
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
    out, probe = tmp_path / "out", tmp_path / "stops.py"
    words = [folders / "pair", "--probe", probe, "--probe", "errors", "--data", folders / "data"]
    words += ["--probe-option", "resamples=5", "--probe-option", "surprisal=false", "--out", out]
    assert analyze(*words) == code
    assert {path.name for path in out.glob("*.probe.json")} == {"stops.probe.json"}
    assert (out / "analysis.html").exists() and "stopped; rerun" in (out / "log.txt").read_text()
    with durable.lock(out):
        assert analyze(*words) == 2
        assert "in use by process" in capsys.readouterr().err
    assert analyze(*words) == 0
    said = capsys.readouterr().out
    assert f"{out / 'stops.probe.json'} (reused" in said and (out / "errors.probe.json").exists()
    assert said.splitlines()[-1].partition(": ")[2] in (out / "log.txt").read_text()


def test_a_folder_of_something_else_is_left_alone(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [folders / "pair", "--probe", "errors", "--data", folders / "data", *QUICK[:2]]
    assert analyze(*words, "--out", folders / "twin") == 2
    assert "(discriminator, ...)" in capsys.readouterr().err
    for name in ("analysis.html", "figures"):  # where the only record was deleted, to ask again
        (tmp_path / name).mkdir()
    (tmp_path / "analysis.html").rmdir()
    (tmp_path / "analysis.html").write_text("")
    assert analyze(*words, "--out", tmp_path) == 0


def test_a_damaged_network_is_not_an_absent_one(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "pair", tmp_path / "pair")
    weights = tmp_path / "pair" / "generator" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ModelError):
        named_models([str(tmp_path / "pair")])[0].optional("generator")


def test_a_network_added_later_is_probed(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "pair" / "discriminator", tmp_path / "pair" / "discriminator")
    model = named_models([str(tmp_path / "pair")])[0]
    assert model.network("discriminator") and model.optional("generator") is None
    described = json.loads(json.dumps(model.describe()))
    assert named_models([str(tmp_path / "pair")])[0].matches_record(described)
    shutil.copytree(folders / "pair" / "generator", tmp_path / "pair" / "generator")
    assert not named_models([str(tmp_path / "pair")])[0].matches_record(described)


def test_differences_between_two_trainings_are_named(tmp_path: Path) -> None:
    def origin(name: str, **changes: object) -> origins.Origin | None:
        recipe = merge(Recipe().to_sections(), changes)
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.toml").write_text(write_toml(recipe))
        return origins.origin_of(str(tmp_path / name))

    first = origin("first")
    assert str(first) == "rtd, seed 1"
    assert origins.difference(first, origin("again")) == origins.SAME
    seed = origin("seed", training={"seed": 2, "threads": 1, "keep": 9})
    assert origins.difference(first, seed) == origins.SEED
    assert (
        origins.difference(first, origin("rate", training={"seed": 2, "learning_rate": 1e-3}))
        == "a different recipe (training.learning_rate)"
    )
    assert origins.difference(first, origin("mlm", objective={"name": "mlm"})) == origins.OBJECTIVE
    (tmp_path / "seed" / "discriminator").mkdir()
    assert origins.origin_of(str(tmp_path / "seed" / "discriminator")) == seed  # one of its folders
    assert origins.origin_of(str(tmp_path)) is None and origins.difference(first, None) == origins.UNKNOWN
    (tmp_path / "old").mkdir()  # a record of a version that knew fewer options
    (tmp_path / "old" / "run.toml").write_text(
        '[objective]\nname = "rtd"\n[training]\nseed = 3\nlength = 128\n'
    )
    assert origins.difference(first, origins.origin_of(str(tmp_path / "old"))) == origins.SEED


def test_probe_options_are_listed_without_a_model_or_a_folder(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze("--probe", "errors", "--probe-option", "help") == 0
    assert "sentences=" in capsys.readouterr().out
    for words, told in (
        (["--probe", "errors"], "model"),
        ([folders / "pair", "--probe", "errors"], "--out"),
    ):
        assert analyze(*words) == 2
        error = capsys.readouterr().err
        assert told in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pair/generator", "--probe", "errors"], "this is a generator"),
        (["pair/discriminator", "--probe", "bias"], "generator"),
        (["pair", "--probe", "eroors"], "Did you mean 'errors'"),
        (["pair", "--probe", "errors", "--probe-option", "kind=x"], "--probe-option kind"),
        (["pair", "twin", "--probe", "errors", "--over-training"], "--over-training"),
        (["pair", "pair", "--probe", "errors"], "pair"),
        (["nowhere", "--probe", "errors"], "nowhere"),
        (["nowhere", "--probe", "all"], "nowhere: not a local folder"),
    ],
)
def test_an_error_is_one_line(  # noqa: PLR0917
    words: list[str],
    told: str,
    folders: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folders)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert analyze(*words, "--data", folders / "data", "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


def test_invalid_probe_data_is_named(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev.tsv").write_text("all\tc\ngood\tc\n")
    for data, told in (
        (tmp_path / "dev.tsv", "dev.tsv"),
        (tmp_path / "no", "no such file"),
        (tmp_path, "dev.tsv"),
    ):
        assert analyze(folders / "pair", "--probe", "errors", "--data", data, "--out", tmp_path / "out") == 2
        assert told in capsys.readouterr().err
    (tmp_path / "withheld" / "test").mkdir(parents=True)
    shutil.copy(folders / "data" / "ged" / "fce-toy" / "dev.tsv", tmp_path / "withheld" / "dev.tsv")
    (tmp_path / "withheld" / "test.tsv").write_text("all\tc\ngood\tc\n")
    assert (
        analyze(
            folders / "pair", "--probe", "errors", "--data", tmp_path / "withheld", "--out", tmp_path / "out"
        )
        == 2
    )
    assert "are the labels withheld?" in capsys.readouterr().err
    (tmp_path / "bad.probe.json").write_text("{}")
    assert (
        analyze(
            folders / "pair", "--probe", "calibration", "--data", folders / "data", "--out", tmp_path, *QUICK
        )
        == 2
    )
    assert "bad.probe.json" in capsys.readouterr().err


def test_error_types_of_the_file_are_used(folders: Path, tmp_path: Path) -> None:
    lines = []
    for number in range(60):
        lines += ["the\tc", "cat\tc", f"wrong\t{'R:SPELL' if number % 2 else 'M:DET'}", ""]
    (tmp_path / "dev.tsv").write_text("\n".join(lines))
    models = [small.model(tmp_path, "m", extra="wrong")]
    probe = errors.Probe(errors.Config(resamples=5, surprisal=False))
    report = small.render(probe.run(models, probe.find([tmp_path / "dev.tsv"]), lambda *_: None))
    assert {row[0] for row in report.tables[1].rows} <= {"R:SPELL", "M:DET"}


def test_options_of_the_chosen_probes_are_listed(
    folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        analyze(
            folders / "pair",
            "--probe",
            "generators",
            "--probe",
            "errors",
            "--probe-option",
            "help",
            "--out",
            tmp_path / "out",
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "kinds=generators,uniform,unigram," in said and "surprisal=true  " in said
    assert not (tmp_path / "out").exists()


SERIES = Series("s", [0.0, 1.0, 2.0], [0.1, None, 0.3], [0.0, None, None], [0.2, None, 0.4])


@pytest.mark.parametrize("kind", ["lines", "categories", "matrix"])
def test_charts_draw_only_known_values(kind: Any) -> None:
    one = SERIES if kind == "lines" else replace(SERIES, x=["a", "b", "_c"])
    both = [one, replace(one, label="other", style="points")]
    span = [0.0, 1.0] if kind == "lines" else None
    figure = Figure("figure", "", "", both, kind, x="$x_1$", y="y", y_range=span)
    text = draw(figure)
    assert text is not None and text == draw(figure)
    ET.fromstring(text)
    assert "currentColor" in inline(text) and "var(--series-0" in inline(text)
    assert draw(replace(figure, series=[replace(one, y=[None] * 3)])) is None


def test_references_are_straight_lines_in_any_chart() -> None:
    for kind, x in (("lines", [0.0, 1.0]), ("categories", ["a"])):
        chance = Series("chance", x, [0.5] * len(x), style="reference")
        some = SERIES if kind == "lines" else replace(SERIES, x=["a", "b", "c"])
        text = draw(Figure("f", "", "", [some, chance], kind))  # type: ignore[arg-type]
        assert text is not None and "chance" in text


def test_an_interval_is_shown_beside_its_number() -> None:
    shown = str(Number(0.25, ".3f", 0.2, 0.3).__html__())
    assert '<data value="0.25">0.250</data>' in shown and '<data value="0.2">0.200</data>' in shown
    assert "[" not in str(Number(0.25).__html__())
    assert probes._cell({"value": 0.25, "low": 0.2, "high": 0.3}) == Number(0.25, ".3f", 0.2, 0.3)
    assert probes.FORMATS[-1] == records_of.FORMAT  # two rooms that may not import each other
