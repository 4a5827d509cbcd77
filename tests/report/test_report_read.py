from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_run import make_run, write_metrics

from electra.foundation.errors import RunFolderError
from electra.pages.read import read_run


def train(step: int, loss: float = 1.0, **more: object) -> dict[str, object]:
    return {
        "kind": "train",
        "step": step,
        "tokens": step * 10,
        "flops": step * 1e6,
        "seconds": step / 2,
        "loss": loss,
        **more,
    }


def evaluation(step: int, **metrics: float | None) -> dict[str, object]:
    return {
        "kind": "eval",
        "step": step,
        "tokens": step * 10,
        "flops": step * 1e6,
        "seconds": step / 2,
        "metrics": metrics,
    }


def event(step: int, name: str) -> dict[str, object]:
    return {"kind": "event", "step": step, "event": name, "message": "a line"}


def test_a_whole_run(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", steps=200, eval_every=50))
    assert (run.name, run.status, run.objective, run.total_steps, run.notes) == (
        "run",
        "finished",
        "rtd",
        200,
        (),
    )
    assert run.setting("nothing.here", "model.size") == "tiny"
    assert run.loss_names == ["mlm", "rtd"]
    assert run.last is not None and run.final is not None and run.last.step == run.final.step == 200
    assert run.last.tokens == 200 * 4096
    assert [point.step for point in run.ledger.evals] == [0, 50, 100, 150, 200]
    assert (
        "identity" not in run.recipe
        and run.identity["seed_scheme"] == 1
        and run.environment["device"] == "cpu"
    )
    assert run.audit["documents_train"] == 41873
    assert run.examples[0].rows[1].generated == "cook" and run.examples[0].rows[1].p_replaced == 0.83


def test_curves_follow_any_axis_and_leave_undefined_values_out(tmp_path: Path) -> None:
    write_metrics(
        tmp_path,
        [
            train(1, losses={"mlm": 6.5}),
            train(2, losses={"mlm": 6.0}),
            evaluation(2, auc=None),
            evaluation(4, auc=0.7),
        ],
    )
    run = read_run(tmp_path)
    assert run.ledger.curve("train", "losses.mlm") == ([1, 2], [6.5, 6.0])
    assert run.ledger.curve("train", "loss", "flops") == ([1e6, 2e6], [1.0, 1.0])
    assert run.ledger.curve("eval", "auc", "tokens") == ([40], [0.7])
    assert run.ledger.evals[0].values == {"auc": None}
    assert run.ledger.curve("eval", "unheard of") == ([], [])


def test_a_resumed_run_replaces_the_steps_it_repeats(tmp_path: Path) -> None:
    abandoned = [
        train(10, 5.0),
        train(20, 4.0),
        evaluation(20, auc=0.4),
        train(30, 3.0),
        evaluation(30, auc=0.3),
    ]
    write_metrics(
        tmp_path, [*abandoned, event(15, "resumed"), train(16, 9.0), train(20, 8.0), evaluation(20, auc=0.8)]
    )
    run = read_run(tmp_path)
    assert run.ledger.curve("train", "loss") == ([10, 16, 20], [5.0, 9.0, 8.0])
    assert run.ledger.curve("eval", "auc") == ([20], [0.8])


def test_the_last_of_two_rows_at_a_step_wins(tmp_path: Path) -> None:
    write_metrics(
        tmp_path, [train(10, 5.0), evaluation(10, auc=0.5), train(10, 4.0), evaluation(10, auc=0.6)]
    )
    run = read_run(tmp_path)
    assert run.ledger.curve("train", "loss") == ([10], [4.0])
    assert run.ledger.curve("eval", "auc") == ([10], [0.6])


def test_a_torn_last_line_is_no_news_but_a_damaged_one_is(tmp_path: Path) -> None:
    whole = json.dumps(train(10))
    (tmp_path / "metrics.jsonl").write_text(f'{whole}\n{{"kind":"tra', encoding="utf-8")
    run = read_run(tmp_path)
    assert [point.step for point in run.ledger.train] == [10] and len(
        run.notes
    ) == 1  # the note is about the files that are missing
    damaged = [
        "{",
        "[]",
        '{"kind":"train"}',
        '{"kind":"train","step":"x"}',
        '{"kind":"train","step":1e999}',
        '{"step":-1}',
        "\x80",
        "[" * 5000,
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*damaged, whole, ""]), encoding="latin-1")
    run = read_run(tmp_path)
    assert [point.step for point in run.ledger.train] == [10]
    assert run.notes[-1] == f"Unreadable lines of metrics.jsonl, left out: {len(damaged)}."


def test_not_a_number_is_undefined_and_unknown_keys_are_kept(tmp_path: Path) -> None:
    lines = [
        '{"kind":"train","step":1,"tokens":NaN,"loss":Infinity,"shiny":7,"words":"no","deep":{"er":{"x":1}}}',
        '{"kind":"mystery","step":2}',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    [point] = read_run(tmp_path).ledger.train
    assert point.tokens is None and dict(point.values) == {"loss": None, "shiny": 7}


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([], "in progress"),
        (["started"], "in progress"),
        (["started", "stopped"], "stopped"),
        (["started", "stopped", "resumed"], "in progress"),
        (["started", "stopped", "resumed", "checkpoint", "finished"], "finished"),
    ],
)
def test_status(tmp_path: Path, events: list[str], status: str) -> None:
    write_metrics(tmp_path, [event(0, name) for name in events])
    assert read_run(tmp_path).status == status


def test_a_run_with_all_its_steps_is_finished_before_it_says_so(tmp_path: Path) -> None:
    write_metrics(tmp_path, [event(0, "started"), train(10)])
    (tmp_path / "run.toml").write_text("[training]\nsteps = 10\n", encoding="utf-8")
    assert read_run(tmp_path).status == "finished"


def test_an_emptied_record_becomes_a_sentence(tmp_path: Path) -> None:
    write_metrics(tmp_path, [train(10)])
    (tmp_path / "run.toml").write_text("", encoding="utf-8")
    assert "run.toml is empty." in read_run(tmp_path).notes


def test_damaged_files_become_sentences(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[model\n", encoding="utf-8")
    (tmp_path / "audit.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "examples.json").write_text(
        '[{"rows":[1]}, 7, {"rows":[{"original":3,"p_replaced":"x"}]}]', encoding="utf-8"
    )
    run = read_run(tmp_path)
    assert not run.recipe and not run.audit
    assert [(row.original, row.p_replaced) for row in run.examples[0].rows] == [("", None)]
    said = " ".join(run.notes)
    for name in ("metrics.jsonl", "run.toml", "audit.json", "examples.json"):
        assert name in said


@pytest.mark.parametrize("kind", ["missing", "file", "stranger"])
def test_a_folder_without_a_run_is_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "place"
    if kind == "file":
        path.write_text("x", encoding="utf-8")
    elif kind == "stranger":
        path.mkdir()
        (path / "notes.txt").write_text("x", encoding="utf-8")
    with pytest.raises(RunFolderError) as caught:
        read_run(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value) and "--out" in str(caught.value)
