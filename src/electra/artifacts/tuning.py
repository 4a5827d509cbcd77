"""Fine-tunings: what a model came to on labelled data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.folder import File, Finding, Folder, Inside, Sealed, numbered, problem_of
from electra.artifacts.model import WEIGHTS, ModelFolder
from electra.artifacts.session import LOG
from electra.foundation import durable
from electra.foundation.errors import RunFolderError

FEW_TO_JUDGE = 2000  # examples


class SeedFolder(Sealed):
    """One finished seed: results.json, predictions (dev.tsv, test.tsv, ...), model.safetensors."""

    KIND = "results of a seed"
    RECORD = "results.json"
    WEIGHTS = WEIGHTS

    results = File(RECORD)
    weights = File(WEIGHTS)

    @classmethod
    def is_at(cls, path: Path) -> bool:
        return super().is_at(path) and (path / durable.MANIFEST).is_file()

    def table(self, split: str) -> Path:
        """The predictions of a split."""
        return self.path / f"{split}.tsv"


class EnsembleFolder(Sealed):
    """The predictions of all seeds as one."""

    KIND = "ensemble"
    RECORD = durable.MANIFEST


class TuningFolder(Folder):
    """What `electra finetune` writes.

    OUT/  finetune.json      settings, what identifies the run, what it ran on
          log.txt            data/ (rows given from Python)
          seeds/seed-0/      results.json, predictions, model.safetensors: whole or absent
          checkpoints/seed-0/   of a seed in work (search-...: of a training of the search)
          model/             the chosen seed's model
          ensemble/          predictions averaged over the seeds, with --ensemble
          search.json        the trainings of a search, and what it chose
          floors.json        the scores of what needs no network
          untrained/seeds/   the same with fresh weights, with --untrained-baseline
          dev.jsonl          dev by the chosen seed: texts, gold answers, predicted ones, probabilities
          all_results.json   the numbers, written last
    """

    KIND = "fine-tuning"
    VERB, MADE = "finetune", "a model"
    RECORD = "finetune.json"
    BESIDE = (LOG, "data")  # rows that were given from Python
    IDENTITY = ("settings", "identity")

    search = File("search.json")
    floors = File("floors.json")
    model = Inside(ModelFolder, "model")
    ensemble = Inside(EnsembleFolder, "ensemble")
    dev = File("dev.jsonl")
    results = File("all_results.json")

    def seed(self, number: int) -> SeedFolder:
        return SeedFolder(self.path / "seeds" / f"seed-{number}")

    def seeds(self) -> list[tuple[int, SeedFolder]]:
        """The seeds that have been finished, by their numbers."""
        return [(number, SeedFolder(path)) for number, path in numbered(self.path / "seeds", "seed-")]

    def checkpoints(self, seed: int) -> Path:
        return self.path / "checkpoints" / f"seed-{seed}"

    def seed_in_work(self) -> bool:
        return any((self.path / "checkpoints").glob("seed-*"))

    def read_search(self) -> dict[str, Any]:
        """What a search has found so far; {} before its first training has ended."""
        return _read_if_there(self.search)

    def trial(self, name: str) -> Path:
        """The checkpoints of a training of the search."""
        return self.path / "checkpoints" / f"search-{name}"

    def read_floors(self) -> dict[str, dict[str, Any]]:
        """Floor -> its scores; {} where they were not measured."""
        return _read_if_there(self.floors)

    @property
    def untrained(self) -> TuningFolder:
        """The twin that begins with fresh weights: its seeds."""
        return TuningFolder(self.path / "untrained")

    def read_dev(self) -> list[dict[str, Any]]:
        """The chosen seed's answers on dev beside the gold ones; [] in a folder of an older version."""
        if not self.dev.is_file():
            return []
        fix = "Rerun electra finetune"
        try:
            lines = self.dev.read_text(encoding="utf-8").split("\n")  # a text may hold other ends of lines
            rows = [json.loads(line) for line in lines if line]
        except (ValueError, RecursionError) as error:
            raise RunFolderError(f"not readable as JSON lines ({error})", where=self.dev, fix=fix) from None
        if not rows or not all(isinstance(row, dict) and "gold" in row for row in rows):
            raise RunFolderError("not the answers of a fine-tuning", where=self.dev, fix=fix)
        return rows

    def read_results(self) -> dict[str, Any]:
        """The numbers, once the work is finished."""
        fix = f"Run electra {self.VERB} to its end"
        results = durable.read_json(self.results, RunFolderError, fix=fix)
        if not isinstance(results, dict) or not results:
            raise RunFolderError(f"not the results of a {self.KIND}", where=self.results, fix=fix)
        return results

    def digested(self) -> list[Path]:
        return [self.path / self.RECORD, self.search, self.floors, self.results, self.dev]

    def check(self) -> Iterator[Finding]:
        yield from super().check()
        yield from self.check_digests()
        if self.results.is_file():
            yield Finding(self.results, "results", problem_of(self.read_results))
        elif not self.model.path.is_dir():
            yield Finding(self.path, f"{self.KIND} without {self.MADE}: not finished")

    def parts(self) -> Iterator[Folder]:
        yield from (seed for _, seed in (*self.seeds(), *self.untrained.seeds()))
        yield from (part for part in (self.ensemble, self.model) if part.path.is_dir())

    def scores(self) -> dict[str, float]:
        """The mean over the seeds of each metric on dev, and its standard deviation as NAME_sd."""
        return {
            name.removeprefix("eval_"): float(value)
            for name, value in self.read_results().items()
            if name.startswith("eval_") and isinstance(value, int | float) and name != "eval_samples"
        }

    def facts(self) -> Sequence[tuple[str, Any]]:
        record = self.record
        scores = list(self.scores().items()) if self.results.is_file() else [("status", "in progress")]
        begun = [("task", record.get("task")), ("model", record.get("model")), ("seeds", len(self.seeds()))]
        return [*begun, *scores]


def _read_if_there(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = durable.read_json(path, RunFolderError) if path.is_file() else {}
    return found


def scatter(results: Mapping[str, Any]) -> str:
    """Of few dev examples, how far a score moves by chance: a share by 1 / sqrt(n) at most, at 95 %."""
    count = results.get("eval_samples", 0)
    if not 0 < count < FEW_TO_JUDGE:
        return ""
    return f" (on {count:,} examples a difference below {1 / math.sqrt(count):.2f} may be chance)"
