"""The reader and the writer of metrics.jsonl."""

import json
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts.ledger import Ledger, Writer
from electra.foundation.errors import FullDisk


def train(step: int, loss: float = 1.0, **more: Any) -> dict[str, Any]:
    place = {"step": step, "tokens": step * 10, "flops": 1e6 * step, "seconds": 1.0}
    return {"kind": "train", **place, "loss": loss, **more}


def held_out(step: int, **metrics: Any) -> dict[str, Any]:
    return {"kind": "eval", "step": step, "tokens": step * 10, "metrics": metrics}


def event(step: int, name: str) -> dict[str, Any]:
    return {"kind": "event", "step": step, "event": name, "message": "a line"}


def write(path: Path, rows: list[dict[str, Any]], more: str = "") -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + more)
    return path


def test_rows_curves_and_last_row_of_each_kind(tmp_path: Path) -> None:
    first = [event(0, "started"), train(1, losses={"mlm": 6.5}), held_out(2, auc=None)]
    rows = [*first, train(3), held_out(4, auc=0.7)]
    ledger = Ledger.read(write(tmp_path / "metrics.jsonl", rows))
    assert ledger.rows == rows and ledger.notes == ()
    assert ledger.curve("eval", "auc", "tokens") == ([40], [0.7])
    assert ledger.curve("train", "losses.mlm") == ([1], [6.5])
    assert ledger.last("train") == rows[3] and ledger.last("train", "eval") == rows[4]
    assert ledger.until(2).last("eval") == rows[2] and ledger.last("nothing") is None
    assert [event.name for event in ledger.events] == ["started"]


def test_unreadable_lines_are_skipped_and_reported(tmp_path: Path) -> None:
    others = '123\n[]\n{"kind":"train"}\n\n"x"\n{"step":-1}\n{"kind":"tra'
    path = write(tmp_path / "metrics.jsonl", [train(1)], others)
    ledger = Ledger.read(path)
    assert ledger.rows == [train(1)]
    assert ledger.notes == ("Unreadable lines of metrics.jsonl, left out: 5.",)
    assert Ledger.read(tmp_path / "absent").notes == ("absent is missing.",)


@pytest.mark.parametrize(
    ("names", "total", "status"),
    [
        (["started"], 10, "in progress"),
        (["started", "stopped"], 10, "stopped"),
        (["stopped", "resumed"], 10, "in progress"),
        (["finished"], None, "finished"),
        (["started"], 5, "finished"),
    ],
)
def test_status_follows_the_events(names: list[str], total: int | None, status: str) -> None:
    assert Ledger([*(event(0, name) for name in names), train(5)]).status(total) == status


def test_the_writer_moves_aside_rows_that_will_be_repeated(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.jsonl", [train(1), train(2), train(3)], "123\n{")
    writer = Writer(path, 2)
    assert writer.rows == [train(1), train(2)]
    writer.add(train(3, 0.5))
    writer.close()
    assert Ledger.read(path) == Ledger([train(1), train(2), train(3, 0.5)])
    assert Ledger.read(tmp_path / "metrics.cut.jsonl").rows == [train(3)]
    Writer(tmp_path / "new.jsonl", 0).close()
    assert (tmp_path / "new.jsonl").read_bytes() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported_when_the_ledger_closes(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "metrics.jsonl", 0)
    writer._file.close()
    writer._file = open("/dev/full", "w")  # noqa: SIM115
    with pytest.raises(FullDisk, match=r"metrics\.jsonl"):
        writer.add({"kind": "train", "step": 1})
    with pytest.raises(FullDisk, match=r"metrics\.jsonl"):
        writer.close()
