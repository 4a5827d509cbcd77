"""Fine-tuning folders: models that were trained and scored on labelled data."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from electra.artifacts.folder import (
    Child,
    ChildPath,
    Finding,
    Folder,
    SealedFolder,
    error_message,
    numbered_folders,
)
from electra.artifacts.model_files import WEIGHTS, ModelFolder
from electra.foundation import durable
from electra.foundation.errors import RunFolderError

NOISY_BELOW = 2000  # dev examples; with fewer, the results carry a note about chance


class SeedFolder(SealedFolder):
    """One finished seed: results.json, predictions (dev.tsv, test.tsv, ...), model.safetensors."""

    KIND = "results of a seed"
    RECORD = "results.json"

    results = ChildPath(RECORD)
    weights = ChildPath(WEIGHTS)

    @classmethod
    @override
    def is_at(cls, path: Path) -> bool:
        return super().is_at(path) and (path / durable.MANIFEST).is_file()

    def table(self, split: str) -> Path:
        """Returns the predictions file of a split."""
        return self.path / f"{split}.tsv"


class FinetuningFolder(Folder):
    """The folder that `electra finetune` writes.

    OUT/  finetune.json      settings, identity of the run, environment
          log.txt
          seeds/seed-0/      results.json, predictions, model.safetensors: complete or absent
          checkpoints/seed-0/   checkpoints of a seed in progress
          model/             the best seed's model
          floors.json        the scores of the baselines, which need no network
          dev.jsonl          the dev set: texts, gold answers, the best seed's predictions, probabilities
          all_results.json   the scores, written last
    """

    KIND = "fine-tuning"

    RECORD = "finetune.json"
    IDENTITY = ("settings", "identity")

    baselines = ChildPath("floors.json")
    model = Child(ModelFolder, "model")
    dev = ChildPath("dev.jsonl")
    results = ChildPath("all_results.json")

    def seed(self, number: int) -> SeedFolder:
        """Returns the folder of a seed, whether or not it exists."""
        return SeedFolder(self.path / "seeds" / f"seed-{number}")

    def seeds(self) -> list[tuple[int, SeedFolder]]:
        """Returns the finished seeds with their numbers, in order."""
        return [(number, SeedFolder(path)) for number, path in numbered_folders(self.path / "seeds", "seed-")]

    def checkpoints(self, seed: int) -> Path:
        """Returns the folder of a seed's checkpoints."""
        return self.path / "checkpoints" / f"seed-{seed}"

    def read_dev(self) -> list[dict[str, Any]]:
        """Returns the chosen seed's dev rows with their gold answers; [] if there is no such file."""
        if not self.dev.is_file():
            return []
        fix = "Rerun electra finetune"
        try:
            lines = self.dev.read_text(encoding="utf-8").split("\n")  # strings may contain other line ends
            rows = [json.loads(line) for line in lines if line]
        except (ValueError, RecursionError) as error:
            raise RunFolderError(f"not readable as JSON lines ({error})", where=self.dev, fix=fix) from None
        if not rows or not all(isinstance(row, dict) and "gold" in row for row in rows):
            raise RunFolderError("not the dev rows of a fine-tuning", where=self.dev, fix=fix)
        return rows

    def read_results(self) -> dict[str, Any]:
        """Returns all results. Raises RunFolderError before the work is finished, or if they are damaged."""
        fix = "Run electra finetune to its end"
        results = durable.read_json(self.results, RunFolderError, fix=fix)
        if not isinstance(results, dict) or not results:
            raise RunFolderError("not the results of a fine-tuning", where=self.results, fix=fix)
        return results

    @override
    def check(self) -> Iterator[Finding]:
        yield from super().check()
        if self.results.is_file():
            yield Finding(self.results, "results", error_message(self.read_results))
        elif not self.model.path.is_dir():
            yield Finding(self.path, "fine-tuning without a model: unfinished")

    @override
    def parts(self) -> Iterator[Folder]:
        yield from (seed for _, seed in self.seeds())
        if self.model.path.is_dir():
            yield self.model

    def scores(self) -> dict[str, float]:
        """Returns each dev metric's mean over the seeds, and its standard deviation as NAME_sd."""
        numbers = {key: value for key, value in self.read_results().items() if isinstance(value, int | float)}
        names = [name for name in numbers if name.startswith("eval_") and name != "eval_samples"]
        return {name.removeprefix("eval_"): float(numbers[name]) for name in names}


def best_baseline(results: Mapping[str, Any]) -> tuple[str, float] | None:
    """Returns the baseline with the best dev score, and the score; None if no baseline has one."""
    key = f"eval_{results.get('primary_metric')}"
    scores = {name: scores.get(key) for name, scores in results.get("baselines", {}).items()}
    known = [(name, score) for name, score in scores.items() if score is not None]
    return max(known, key=lambda entry: entry[1], default=None)


def best_epoch(results: Mapping[str, Any]) -> str:
    """Says that dev chose the epoch whose score it gives; "" if it did not."""
    count = results.get("epochs_on_dev", 0)
    return f"best of {count} epochs on dev" if count > 1 else ""


def verdict(results: Mapping[str, Any]) -> str:
    """Says whether the model beats the best baseline on dev, and whether that may be chance.

    Returns "" without baselines.
    """
    score, best = results.get(f"eval_{results.get('primary_metric')}"), best_baseline(results)
    if best is None:
        return ""
    name, value = best
    found = f"does not beat the best baseline, {name}"
    if score is not None and score > value:
        found = f"is better than the best baseline, {name}, by {score - value:.3f}"
    return f"On dev, the model {found}{_chance(results, results['baselines'][name].get('eval_paired'))}."


def _chance(results: Mapping[str, Any], paired: Mapping[str, Any] | None) -> str:
    """Says how sure a difference on dev is.

    Without a paired comparison (of the accuracy of texts) the number of dev texts tells: the 95 % interval of
    a proportion of n examples extends at most 1 / sqrt(n).
    """
    rows = results.get("eval_samples", 0)
    count = paired["examples"] if paired else results.get("dev_texts", rows)
    what = "different texts that the training data lacks" if count < rows else "examples"
    texts = f"{count:,} {what}"
    if chosen := best_epoch(results):
        return f"; its score is the {chosen}, so the difference is not tested"
    if rows and not count:
        return "; the training data has all texts of dev, so nothing is tested"
    if paired:
        p = "p < 0.001" if paired["p"] < 0.001 else f"p = {paired['p']:.3f}"
        may_be = ", may be chance" if paired["p"] > 0.05 else ""
        return f"; paired over {texts}: {paired['difference']:+.3f} ({p}{may_be})"
    if 0 < count < NOISY_BELOW:
        return f" (on {texts} a difference below {1 / math.sqrt(count):.2f} may be chance)"
    return ""
