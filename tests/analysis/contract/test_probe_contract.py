"""What every probe promises, whoever wrote it; and how options, data and models are found."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from electra.foundation.errors import ConfigError, ModelError
from electra.laboratory import analysis
from electra.laboratory.analysis.contract import (
    Estimate,
    Findings,
    Input,
    as_json,
    named_models,
    require_same_vocabulary,
)
from electra.laboratory.analysis.representations.encoders import encoders_of
from electra.testing import ProbeContract, small
from electra.testing.probes import Oracle, ask, scorer, write_data


class TestEveryProbe(ProbeContract):
    probe = analysis.names()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "key", "chance"), [("errors", "AUC", 0.5), ("generators", "AUC, learners' errors", 0.5)]
)
def test_permuted_labels_give_chance(name: str, key: str, chance: float, tmp_path: Path) -> None:
    permuted = write_data(tmp_path / "data", permute=True, sentences=400)
    found = ask(name, scorer(tmp_path, Oracle), permuted).headline[key]
    assert found.low is not None and found.high is not None and found.value is not None
    assert found.low < chance < found.high and abs(found.value - chance) < 0.08


def test_options_reach_the_probes_that_have_them() -> None:
    given = analysis.options_for(
        ["calibration", "errors"], ["resamples=7", "errors.combine=mean", "rows=3", "surprisal=false"]
    )
    assert given == {
        "calibration": {"resamples": 7, "rows": 3},
        "errors": {"resamples": 7, "combine": "mean", "surprisal": False},
    }
    assert analysis.options_for(["generators"], ["kinds=swaps,pairs"]) == {
        "generators": {"kinds": ["swaps", "pairs"]}
    }
    assert analysis.options_for(["errors"], ["detector=5"]) == {"errors": {"detector": "5"}}
    assert analysis.create("generators", {"kinds": ["swaps"]}).config.kinds == ("swaps",)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["resample=7"], "no such option.*resamples"),
        (["resamples"], "not key=value"),
        (["bias.rows=3"], "not among the chosen probes"),
        (["resamples=many"], "not a whole number"),
        (["combine=longest"], "not one of"),
    ],
)
def test_wrong_options_are_told(options: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        analysis.options_for(["calibration", "errors"], options)


def test_unknown_probes_are_told() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'calibration'"):
        analysis.create("calibrate")
    assert analysis.create("minimal-pairs").title == analysis.create("minimal_pairs").title


def test_data_is_found_by_name_and_the_first_pattern_that_matches_counts(tmp_path: Path) -> None:
    (tmp_path / "a" / "ged" / "fce-x").mkdir(parents=True)
    for name in ("a/ged/fce-x/dev.tsv.gz", "a/dev.tsv", "a/ged/fce-x/notes.md"):
        (tmp_path / name).touch()
    wanted = Input("learners", "sentences", ("ged/fce*/dev.tsv*", "dev.tsv*"))
    assert wanted.find([tmp_path]) == [tmp_path / "a/ged/fce-x/dev.tsv.gz"]
    assert wanted.find([tmp_path / "a/dev.tsv"]) == [tmp_path / "a/dev.tsv"]  # a file that the user names
    assert wanted.find([tmp_path / "a/ged/fce-x/notes.md"]) == []
    assert wanted.find([]) == []
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "data").symlink_to(tmp_path / "a")
    assert wanted.find([tmp_path / "linked"]) == [tmp_path / "linked/data/ged/fce-x/dev.tsv.gz"]
    for name in ("up", "again"):
        (tmp_path / "a" / name).symlink_to(
            tmp_path
        )  # links back up end, and a file is read once, however many links lead to it
    assert (
        wanted.find([tmp_path / "a"]) == [tmp_path / "a/ged/fce-x/dev.tsv.gz"]
        and len(wanted.find([tmp_path])) == 1
    )
    assert wanted.find([tmp_path, tmp_path / "a"]) == wanted.find(
        [tmp_path]
    )  # a file is read once, whatever folders lead to it
    assert wanted.find([tmp_path / "a", tmp_path / "a/dev.tsv"]) == [
        tmp_path / "a/dev.tsv"
    ]  # and one that is named comes first
    for name in ("dev.tsv", "dev.tsv~", "dev.tsv.gz.part"):
        (tmp_path / "a/ged/fce-x" / name).touch()
    assert wanted.find([tmp_path / "a"]) == [
        tmp_path / "a/ged/fce-x/dev.tsv"
    ]  # not its compressed copy too, nor an editor's
    near = Input("learners", "sentences", ("./dev.tsv*",))
    assert near.find([tmp_path]) == [] and near.find([tmp_path / "a"]) == [
        tmp_path / "a/dev.tsv"
    ]  # not just any dev.tsv below


def test_findings_become_plain_json() -> None:
    findings = Findings({"a": Estimate(float("nan"), 0.1, np.float64(0.2))})
    findings.add(np.int64(3), measure="n", of="y")
    findings.add(Estimate(1.0, 0.5), measure="m", of="y")
    found = findings.to_json()
    assert found["headline"]["a"] == {"value": None, "low": 0.1, "high": 0.2}
    assert found["numbers"] == [
        {"axes": ["measure", "of"], "rows": [["n", "y", 3], ["m", "y", 1.0, 0.5, None]]}
    ]
    assert as_json({"x": np.array([1.0, math.inf]), "p": Path("a/b"), "t": True}) == {
        "x": [1.0, None],
        "p": "a/b",
        "t": True,
    }


@pytest.mark.parametrize(
    ("probe", "option", "value"),
    [
        ("bias", "draws", 0),
        ("bias", "threshold", 1.0),
        ("calibration", "bins", -3),
        ("calibration", "length", 2),
        ("generators", "fraction", 1.5),
        ("generators", "rows", 0),
        ("errors", "resamples", -1),
    ],
)
def test_options_out_of_range_are_refused(probe: str, option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"--probe-option {probe}.{option}: must be"):
        analysis.create(probe, {option: value})


def test_a_model_named_untrained_would_hide_the_untrained_one(tmp_path: Path) -> None:
    model = replace(small.model(tmp_path, "one"), name="untrained")
    assert len(encoders_of([model], untrained=False)) == 1
    with pytest.raises(ModelError, match="cannot be named 'untrained'"):
        encoders_of([model], untrained=True)


def test_models_get_distinct_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert [model.name for model in named_models([".", ".."])] == ["here", tmp_path.name]
    assert [model.name for model in named_models(["runs/a", "other/a/", "hub/b"])] == [
        "runs/a",
        "other/a",
        "b",
    ]
    with pytest.raises(ModelError, match="named twice"):
        named_models(["runs/a", "runs/a"])


def test_different_vocabularies_are_refused_by_name(tmp_path: Path) -> None:
    one, two = small.model(tmp_path, "one"), small.model(tmp_path, "two", extra="cats")
    require_same_vocabulary([one, one], "this")
    with pytest.raises(ModelError, match="one and two have different vocabularies"):
        require_same_vocabulary([one, two], "this")


def test_generators_allows_other_vocabularies_only_where_texts_are_tokenised_anew(
    tmp_path: Path, data: Path
) -> None:
    one, two = small.model(tmp_path, "one"), small.model(tmp_path, "two", extra="cats")
    probe = analysis.create("generators", {"resamples": 5, "length": 20})
    with pytest.raises(ModelError, match=r"one and two have different vocabularies.*kinds=swaps"):
        probe.run([one, two], probe.find([data]), lambda *_: None)
    words = analysis.create("generators", {"resamples": 5, "kinds": ["swaps", "pairs", "learners"]})
    report = small.shown(words.run([one, two], words.find([data]), lambda *_: None))
    assert {row[0] for row in report.tables[0].rows} == {"one", "two"}
