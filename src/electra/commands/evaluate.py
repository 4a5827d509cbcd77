"""The command `electra evaluate`; suites are run by `electra.laboratory.evaluation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import override

from electra.artifacts.evaluation_files import EvaluationFolder
from electra.commands.framework.command import Command, Sections, function
from electra.commands.results.result_folders import Evaluation
from electra.commands.results.rows import Rows
from electra.finetuning.settings import CHOSEN_BY_SUITE, Settings
from electra.foundation.config import check_at_least
from electra.foundation.display import display_for
from electra.foundation.errors import Interrupted
from electra.foundation.machine import OnDevice
from electra.foundation.options import RepeatedSources, Source, Sources, as_names, checked_path
from electra.foundation.signals import StopRequest, stops_after

FINETUNE = "finetune"


def _sections(words: Sequence[str]) -> Mapping[str, Any]:
    return {FINETUNE: Settings}


@dataclass(frozen=True)
class Evaluate(
    OnDevice,
    Command[Evaluation],
    examples=(
        "electra evaluate runs/mine runs/other --suite glue --data GLUE/ --out runs/glue --seeds 3",
        "electra evaluate tiny-en --suite tagging --data tags/ --out runs/tags --finetune.epochs 2",
    ),
):
    """Evaluate models on a suite of tasks (GLUE, tagging, SQuAD, BabyLM), with baselines.

    All models get the same head: the suite's, or the standard one, which measures the encoder.
    A failed task does not stop the others; the report lists it, as does `Evaluation.failures` in Python. The
    same command may run several times at once: each does the tasks that no other is doing.
    """

    models: Sources
    """One model, or several to compare: run folders, model folders, names on the hub, or models that come
    with the package (tiny-en, small-en).
    """
    _: KW_ONLY
    suite: str = "glue"
    """The suite: glue, superglue-mini, tagging, squad, sentences, babylm, transfer; or your own TOML file."""
    data: RepeatedSources
    """A folder with a subfolder of data for each task, named after it; may be repeated."""
    out: Source
    """The folder for results. Rerun the command to resume an interrupted evaluation."""
    seeds: int = 1
    """How many times to fine-tune on each task. Published scores are often medians of several."""
    baselines: bool = True
    """Also score the baselines that need no network: the most frequent label, and counted features."""
    settings: Annotated[Mapping[str, Any] | None, Sections(_sections, {}, CHOSEN_BY_SUITE)] = None
    """Settings of electra finetune for all tasks, such as {"epochs": 1}. They override the suite's."""

    @override
    def run(self) -> Evaluation:
        from electra.laboratory.evaluation import tasks
        from electra.laboratory.evaluation.suite import load_suite
        from electra.pages.suite_page import write_page

        folder, models = checked_path(self.out, "out"), as_names(self.models, "models")
        roots = [Path(root) for root in as_names(self.data, "data")]
        suite = load_suite(self.suite)
        settings = {name.removeprefix(f"{FINETUNE}."): value for name, value in (self.settings or {}).items()}
        check_at_least(self, {"seeds": 1})
        entries = tasks.model_entries(models, self.baselines)
        how: Any = {"settings": settings, "seeds": self.seeds, "device": self.device}
        with display_for(self.progress) as display, StopRequest() as stop:
            stopped = False
            try:
                with stops_after("this update; finished tasks are kept"):
                    tasks.evaluate(suite, entries, roots, folder, **how, say=display.say, stop=stop)
            except Interrupted:
                stopped = True
            with EvaluationFolder(folder).locked():
                page = write_page(folder)  # with what is done so far, if it was stopped
            if stopped:
                display.say("stopped; rerun the command to resume")
                raise Interrupted(str(folder), stop.exit_code or 130)
            evaluation = Evaluation(folder)
            table = Rows(
                {"task": row["task"], "metric": row["metric"]}
                | {model: score.get("median", score["status"]) for model, score in row["scores"].items()}
                for row in evaluation.folder.record["rows"]
            )
            for line in repr(table).splitlines():
                display.say(line)
            display.say(f"page: {page}")
            for failure in evaluation.failures:
                display.say(f"failed: {failure['task']} ({failure['model']}): {failure['reason']}")
        return evaluation

    @override
    def main(self) -> int:
        return 1 if self.run().failures else 0


evaluate = function(Evaluate)
