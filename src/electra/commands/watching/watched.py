"""A run as the page shows it: what its ledger says so far, whether its process lives, what should alarm."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from statistics import median
from typing import Any

from electra.artifacts.ledger import Event, Follower, Ledger, Point, Row, point_of
from electra.artifacts.run import RunFolder
from electra.commands.watching.series import Series
from electra.foundation import durable
from electra.foundation.errors import ElectraError
from electra.pages.read import Example, read_examples, refuse_no_run

SILENCE = 60.0  # seconds without a line after which a run that lives is called stalled, at least
GRACE = (
    20.0  # seconds until a run whose process was never seen is called dead: it may train on another machine
)
GAPS = 10  # either may take so many times as long as a line of this run usually takes
SLOW = 0.5  # of the median throughput
RECENT = 5  # training rows that tell the throughput now
SHOWN_EVENTS = 30


class Watched:
    """One run. `look` brings it up to date; `version` changes when the curves or the examples do."""

    def __init__(self, path: Path, name: str) -> None:
        refuse_no_run(path)
        self.folder, self.name = RunFolder(path), name
        self.version = 0
        self._follower = Follower(self.folder.metrics)
        self._examples: tuple[Example, ...] = ()
        self._examples_at = 0.0
        self._recipe: dict[str, Any] = {}
        self._seen = False  # whether its process was there at a look
        self._clear()

    def _clear(self) -> None:
        self.curves: dict[str, Series] = {}
        self.events: list[Event] = []
        self.first: Point | None = None
        self.last: Point | None = None
        self.final: Point | None = None  # the last held-out evaluation
        self._told: list[Row] = []  # the rows that tell how the run ended
        self._undefined: int | None = None  # the first step without a finite loss
        self._gaps: deque[float] = deque(maxlen=200)
        self._speeds: deque[float] = deque(maxlen=1000)

    def look(self) -> None:
        rows, anew = self._follower.look()
        if anew:
            self._clear()
        for row in rows:
            self._add(row)
        changed = _changed_at(self.folder.examples)
        if changed != self._examples_at:
            self._examples, self._examples_at = read_examples(self.folder.examples, []), changed
        elif not rows and not anew:
            return
        self.version += 1

    def _add(self, row: Row) -> None:
        kind = row.get("kind")
        if kind == "event":
            self.events.append(Ledger([row]).events[0])
            self._told.append(row)
        if kind not in ("train", "eval"):
            return
        point = point_of(row)
        before, self.last = self.last, point
        if kind == "eval":
            self.final = point
        else:
            self._train(point, before)
        for name, value in point.values.items():
            if value is not None and not name.startswith("counts."):
                series = self.curves.setdefault(f"{kind}.{name}", Series())
                series.add(point.step, point.tokens, point.seconds, value)

    def _train(self, point: Point, before: Point | None) -> None:
        self.first = self.first or point
        if before is not None and point.seconds is not None and before.seconds is not None:
            self._gaps.append(point.seconds - before.seconds)
        if (speed := point.values.get("tokens_per_s")) is not None:
            self._speeds.append(speed)
        if self._undefined is None and point.values.get("loss", 0.0) is None:
            self._undefined = point.step

    @property
    def total_steps(self) -> int | None:
        return RunFolder.steps_of(self.recipe)

    @property
    def recipe(self) -> dict[str, Any]:
        """run.toml, read until it is there."""
        if not self._recipe:
            try:
                self._recipe = self.folder.record
            except (ElectraError, OSError):  # not there yet, or damaged: the ledger still tells its story
                return {}
        return self._recipe

    def state(self) -> dict[str, Any]:
        """How the run is now: small, and different at every look."""
        status, said = self._status()
        last, total, speed = self.last, self.total_steps, self._speed()
        left = None
        if status == "training" and last and last.tokens and total and speed:
            left = max(0, total - last.step) * last.tokens / max(1, last.step) / speed
        return {
            "name": self.name,
            "objective": self.recipe.get("objective", {}).get("name"),
            "size": ", ".join(filter(None, RunFolder.shape(self.recipe))) if self.recipe else "",
            "status": status,
            "said": said,
            "step": last.step if last else 0,
            "total": total,
            "tokens": last.tokens if last else None,
            "flops": last.flops if last else None,
            "seconds": last.seconds if last else None,
            "tokens_per_s": speed,
            "seconds_left": left,
            "metrics": dict(self.final.values) if self.final else {},
            "alarms": [{"text": text, "grave": grave} for text, grave in self._alarms(status, said)],
            "version": self.version,
        }

    def drawn(self) -> dict[str, Any]:
        """Curves, events and examples: sent when `version` has changed."""
        shown = [event for event in self.events if event.name != "checkpoint"][-SHOWN_EVENTS:]
        return {
            "curves": {name: series.columns() for name, series in self.curves.items()},
            "events": [event.__dict__ for event in shown],
            "examples": [
                {"text": one.text, "rows": [row.__dict__ for row in one.rows]} for one in self._examples
            ],
        }

    def _status(self) -> tuple[str, str]:
        rows = [*self._told, {"kind": "train", "step": self.last.step}] if self.last else self._told
        ended = Ledger(rows).status(self.total_steps)
        step = f"{self.last.step if self.last else 0:,}"
        if ended == "finished":
            return "finished", "Finished."
        if ended == "stopped":
            return "stopped", f"Stopped at step {step}. Rerun the same command to resume."
        silent = max(0.0, time.time() - _changed_at(self.folder.metrics))
        usual = median(self._gaps) if self._gaps else 0.0
        alive = durable.held(self.folder.path)
        gone, self._seen = self._seen and not alive, self._seen or alive
        if alive:
            if silent > max(SILENCE, GAPS * usual):
                return "stalled", f"No new line for {_duration(silent)}, though its process lives."
            return "training", f"Training; last line {_duration(silent)} ago."
        if gone or silent > max(GRACE, GAPS * usual):
            why = "its process is gone: killed or failed (see log.txt). Rerun the same command to resume."
            return "killed", f"Ended without a word after step {step}; {why}"
        return "training", f"Training; last line {_duration(silent)} ago."

    def _speed(self) -> float | None:
        """Tokens per second now."""
        recent = list(self._speeds)[-RECENT:]
        return median(recent) if recent else None

    def _alarms(self, status: str, said: str) -> list[tuple[str, bool]]:
        """What should not be missed, the gravest first, and whether it is grave."""
        found: list[tuple[str, bool]] = []
        if status in ("killed", "stalled"):
            found.append((said, True))
        if self._undefined is not None:
            found.append((f"The loss is not a number at step {self._undefined:,}.", True))
        found += [
            (event.message or "collapse alarm", True) for event in self.events if event.name == "collapse"
        ]
        spikes = [event for event in self.events if event.name == "spike"]
        if spikes:
            count = f"{len(spikes)} loss spike{'s' * (len(spikes) > 1)}; the last: "
            found.append((f"{count}{spikes[-1].message or f'step {spikes[-1].step:,}'}", False))
        now, usual = self._speed(), median(self._speeds) if self._speeds else 0.0
        if status == "training" and now is not None and len(self._speeds) > 2 * RECENT and now < SLOW * usual:
            found.append((f"{now:,.0f} tokens per second, where {usual:,.0f} are usual in this run.", False))
        return found


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
