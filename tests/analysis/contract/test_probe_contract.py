"""The contract of every probe, and how options, data and models are found."""

import math
from pathlib import Path

import numpy as np
import pytest
from contracts import small
from contracts.probes import Oracle, ProbeContract, run_probe, scorer, write_data

from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.extensions import PROBES
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import Estimate, Findings, Input, as_json, named_models
from electra.laboratory.analysis.probes.layer_similarity import encoders_of


class TestEveryProbe(ProbeContract):
    probe = PROBES.names()


def test_permuted_labels_give_chance(tmp_path: Path) -> None:
    permuted = write_data(tmp_path / "data", permute=True, sentences=400)
    estimate = run_probe("errors", scorer(tmp_path, Oracle), permuted).headline["AUC"]
    assert estimate.low is not None and estimate.high is not None and estimate.value is not None
    assert estimate.low < 0.5 < estimate.high and abs(estimate.value - 0.5) < 0.08


def test_options_reach_the_probes_that_have_them() -> None:
    given = ["resamples=7", "errors.language=de", "rows=3", "surprisal=false"]
    options = analysis.options_for(["calibration", "errors"], given)
    assert options["calibration"] == {"resamples": 7, "rows": 3}
    assert options["errors"] == {"resamples": 7, "language": "de", "surprisal": False}
    several = analysis.options_for(["minimal_pairs", "reranking"], ["scorers=odds,pll", "total=5"])
    assert several["minimal_pairs"] == {"scorers": ["odds", "pll"]} and several["reranking"]["total"] == "5"
    assert analysis.create("reranking", {"scorers": ["pll"]}).config.scorers == ("pll",)


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (["resample=7"], "resamples"),
        (["resamples"], "key=value"),
        (["bias.rows=3"], "'bias'"),
        (["resamples=many"], "many"),
        (["language=fr"], "fr"),
    ],
)
def test_invalid_options_are_named(options: list[str], fact: str) -> None:
    with pytest.raises(ConfigError) as caught:
        analysis.options_for(["calibration", "errors"], options)
    assert fact in str(caught.value)


def test_an_unknown_probe_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError) as caught:
        analysis.create("calibrate")
    assert "'calibration'" in caught.value.fix
    assert analysis.create("minimal-pairs").title == analysis.create("minimal_pairs").title


def test_data_are_found_by_the_first_pattern_that_matches(tmp_path: Path) -> None:
    (tmp_path / "a" / "ged" / "fce-x").mkdir(parents=True)
    for name in ("a/ged/fce-x/dev.tsv.gz", "a/dev.tsv", "a/ged/fce-x/notes.md"):
        (tmp_path / name).touch()
    item = Input("learners", "sentences", ("ged/fce*/dev.tsv*", "dev.tsv*"))
    assert item.find([tmp_path]) == [tmp_path / "a/ged/fce-x/dev.tsv.gz"]
    assert item.find([tmp_path / "a/dev.tsv"]) == [tmp_path / "a/dev.tsv"]  # a file that the user names
    assert item.find([tmp_path / "a/ged/fce-x/notes.md"]) == []
    assert item.find([]) == []
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "data").symlink_to(tmp_path / "a")
    assert item.find([tmp_path / "linked"]) == [tmp_path / "linked/data/ged/fce-x/dev.tsv.gz"]
    for name in ("up", "again"):
        # links back up end, and a file is read once, however many links lead to it
        (tmp_path / "a" / name).symlink_to(tmp_path)
    assert item.find([tmp_path / "a"]) == [tmp_path / "a/ged/fce-x/dev.tsv.gz"]
    assert len(item.find([tmp_path])) == 1
    # a file is read once, whatever folders lead to it, and one that is named comes first
    assert item.find([tmp_path, tmp_path / "a"]) == item.find([tmp_path])
    assert item.find([tmp_path / "a", tmp_path / "a/dev.tsv"]) == [tmp_path / "a/dev.tsv"]
    for name in ("dev.tsv", "dev.tsv~", "dev.tsv.gz.part"):
        (tmp_path / "a/ged/fce-x" / name).touch()
    # not its compressed copy too, nor an editor's
    assert item.find([tmp_path / "a"]) == [tmp_path / "a/ged/fce-x/dev.tsv"]
    direct = Input("learners", "sentences", ("./dev.tsv*",))  # not just any dev.tsv below
    assert direct.find([tmp_path]) == [] and direct.find([tmp_path / "a"]) == [tmp_path / "a/dev.tsv"]


def test_findings_become_plain_json() -> None:
    findings = Findings({"a": Estimate(float("nan"), 0.1, np.float64(0.2))})
    findings.add(np.int64(3), measure="n", of="y")
    findings.add(Estimate(1.0, 0.5), measure="m", of="y")
    encoded = findings.to_json()
    assert encoded["headline"]["a"] == {"value": None, "low": 0.1, "high": 0.2}
    rows = [["n", "y", 3], ["m", "y", 1.0, 0.5, None]]
    assert encoded["numbers"] == [{"axes": ["measure", "of"], "rows": rows}]
    plain = {"x": [1.0, None], "p": "a/b", "t": True}
    assert as_json({"x": np.array([1.0, math.inf]), "p": Path("a/b"), "t": True}) == plain


@pytest.mark.parametrize(
    ("probe", "option", "value"),
    [
        ("bias", "draws", 0),
        ("calibration", "bins", -3),
        ("calibration", "length", 2),
        ("generators", "fraction", 1.5),
        ("generators", "rows", 0),
        ("errors", "resamples", -1),
    ],
)
def test_options_out_of_range_are_refused(probe: str, option: str, value: float) -> None:
    with pytest.raises(ConfigError) as caught:
        analysis.create(probe, {option: value})
    assert caught.value.where == f"--probe-option {probe}.{option}"


def test_a_model_cannot_be_named_like_the_untrained_encoder(tmp_path: Path) -> None:
    model = small.model(tmp_path, "one")
    model.name = "untrained"
    assert len(encoders_of([model], untrained=False)) == 1
    with pytest.raises(ModelError):
        encoders_of([model], untrained=True)


def test_models_get_distinct_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert [model.name for model in named_models([".", ".."])] == ["here", tmp_path.name]
    names = [model.name for model in named_models(["runs/a", "other/a/", "hub/b"])]
    assert names == ["runs/a", "other/a", "b"]
    with pytest.raises(ModelError) as caught:
        named_models(["runs/a", "runs/a"])
    assert caught.value.where == "runs/a"


def test_different_vocabularies_are_refused_by_name(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    one, two = small.model(tmp_path, "one"), small.model(tmp_path, "two", extra="cats")
    probe = analysis.create("generators", {"resamples": 5, "length": 20})
    with pytest.raises(ModelError) as caught:
        probe.run([one, two], probe.find([data]), lambda *_: None)
    assert {"one", "two"} <= set(caught.value.what.split())
