"""The runs of a study, as pieces of work: each trains an arm, then scores its encoder with a suite of tasks.

A run folder has the form of one written by `electra pretrain`, checkpoints included, so an interrupted run
resumes from its last checkpoint. Its score.json is written last. In records the suite's tasks are the study's
`panel`, and "panel" is the mean of their scores: between 0 and 1, or correlations; higher is better. An
untrained encoder is scored, too (`floors_of`); `language_notes` says whether the vocabulary fits the tasks.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import override

from electra.artifacts.evaluation_files import StudyFolder
from electra.artifacts.network_names import EXPORTED, network_tables
from electra.artifacts.run_files import RunFolder
from electra.data.corpus.store import TokenStore
from electra.data.corpus.tokenizer import Tokenizer
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.foundation import durable
from electra.foundation.errors import DataError, Interrupted, RunFolderError
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.foundation.work import Piece
from electra.laboratory.ablation.plan import Job, job_recipe, read_plan
from electra.laboratory.evaluation.suite import load_suite
from electra.laboratory.evaluation.tasks import ReadyTask, find_tasks, score_settings
from electra.training.assemble import start
from electra.training.distributed import World
from electra.training.loop import train
from electra.training.record import parts_of, read_record

SAMPLED = 500  # examples of each task whose words are counted
MANY_PIECES, MANY_UNKNOWN = 2.0, 0.05  # of a word, and of all tokens: the vocabulary is of another language


@dataclass(frozen=True, kw_only=True)
class Scored(Piece):
    """Work that ends with the scores of an encoder, in score.json."""

    panel_identity: Mapping[str, Any]  # what the scores depend on: settings and files of each task

    def scores(self) -> dict[str, float]:
        """Returns the score on each task; {} before it is finished."""
        record = self._record() if self.is_finished() else {"scores": {}}
        return {name: float(score["value"]) for name, score in record["scores"].items()}

    @override
    def is_finished(self) -> bool:
        """Whether the scores are there, and are of these tasks."""
        return (self.folder / self.record).exists() and self._record().get("panel") == self.panel_identity

    def _record(self) -> dict[str, Any]:
        fix = "Delete it to score the run again"
        record = durable.read_json(self.folder / self.record, RunFolderError, fix=fix)
        return record if isinstance(record, dict) else {}


@dataclass(frozen=True, kw_only=True)
class StudyRun(Scored):
    """A run of a study."""

    job: Job


def runs_of(
    out: Path, plan: Mapping[str, Any], jobs: Sequence[Job], threads: int = 1, *, fixed: bool = True
) -> list[StudyRun]:
    """Returns the runs of these jobs, with `threads` threads each.

    Unless that number is `fixed`, a run that resumes takes as many as it began with.
    """
    return [
        StudyRun(
            str(job),
            job.folder(out),
            RunFolder(job.folder(out)).score.name,
            partial(run_job, out.resolve(), job, threads, fixed),
            job=job,
            panel_identity=plan["panel"]["identity"],
        )
        for job in jobs
    ]


def run_job(out: Path, job: Job, threads: int, fixed: bool = True, *, say: Say, stop: Stop) -> None:
    """Trains a job's arm from its last checkpoint and scores it; Interrupted if a stop was requested."""
    plan, folder = read_plan(out), job.folder(out)
    with durable.lock(folder):
        if not fixed and (recorded := read_record(folder)) is not None:
            threads = parts_of(recorded)[-1].get("threads", threads)
        store = TokenStore.open(plan["store"], Tokenizer.load(StudyFolder(out).tokenizer))
        if not RunFolder(folder).tokenizer.exists():
            store.tokenizer.save(RunFolder(folder).tokenizer)  # makes the run usable by itself
        recipe, name = job_recipe(plan, job, threads), plan["recipe"]
        status = lambda line, share: say(line)  # noqa: E731
        with start(recipe, folder, store, World(), name=name, say=say, progress=status) as run:
            if not train(run, stop):
                raise Interrupted(folder)
            message = f"finished {run.step} steps in {run.seconds:.0f} s of training"
            run.telemetry.record_event(run.step, "finished", message)
            how: Any = {"stop": stop, "say": run.telemetry.say, "seed": job.seed}
            record = panel_scores(str(folder), plan["panel"], folder, **how)
        durable.commit_json(RunFolder(folder).score, record)


def panel_record(data: Path | None, suite: str) -> dict[str, Any]:
    """Returns the suite that scores a study's runs, as study.json records it (`data` None: none).

    `identity` is what the scores depend on. Raises DataError if a task lacks files, ConfigError for no suite.
    """
    if data is None:
        return {"folder": "", "suite": "", "tasks": {}, "identity": {}}
    entries, ready = load_suite(suite).task, find_tasks(load_suite(suite), {}, [data])
    found = {task.entry.name for task in ready if task.files.dev is not None}
    if missing := [entry.name for entry in entries if entry.name not in found]:
        fix = f"Put training and dev files into folders such as {entries[0].folders[0]}"
        raise DataError(f"no data for {', '.join(missing)}", where=data, fix=fix)
    return {
        "folder": str(data.resolve()),
        "suite": str(Path(suite).resolve()) if Path(suite).is_file() else suite,
        "tasks": {t.entry.name: {"title": t.entry.title, "metric": metric_of(t)} for t in ready},
        "identity": {
            task.entry.name: {"version": task.version, "settings": task.settings, **task.files.digests()}
            for task in ready
        },
    }


def metric_of(task: ReadyTask) -> str:
    """Returns the metric that scores a task: its first in the suite, or its primary one."""
    return (task.entry.metrics or load_task(task.entry.task).metrics)[0]


def panel_tasks(panel: Mapping[str, Any]) -> list[ReadyTask]:
    """Returns the tasks that score a study's runs; [] if it has none."""
    return find_tasks(load_suite(panel["suite"]), {}, [Path(panel["folder"])]) if panel["tasks"] else []


def panel_scores(
    model: str, panel: Mapping[str, Any], out: Path, *, stop: Stop, say: Say, seed: int, **changes: Any
) -> dict[str, Any]:
    """Returns the contents of score.json: dev scores of a model, fine-tuned in `out`, settings changed."""
    began, scores = time.perf_counter(), dict[str, Any]()
    for task in panel_tasks(panel):
        if stop():
            raise Interrupted(out)
        name = task.entry.name
        settings = score_settings(task, out / "panel" / name, seed=seed, **changes)
        results = finetune(model, settings, say, stop)
        # A score may be undefined if all predictions are the same; such an encoder scores 0.
        scores[name] = {"value": results[f"eval_{metric_of(task)}"] or 0.0}
        say(f"panel: {name} {scores[name]['value']:.4f}")
    seconds = round(time.perf_counter() - began, 1)
    return {"panel": panel["identity"], "scores": scores, "seconds": seconds}


@dataclass(frozen=True, kw_only=True)
class Floor(Scored):
    """An untrained encoder in the shape of some arms."""

    arms: tuple[str, ...]


def floors_of(out: Path, plan: Mapping[str, Any], runs: Sequence[StudyRun]) -> list[Floor]:
    """Returns a piece of work for each shape among the trained runs, if the study has tasks."""
    shapes: dict[str, dict[str, RunFolder]] = {}
    for run in runs:
        folder = RunFolder(run.folder)
        if plan["panel"]["tasks"] and run.is_finished() and folder.exists():
            tables = network_tables(folder.record)
            main = next((tables[name] for name in EXPORTED if name in tables), None)
            shapes.setdefault(json.dumps(main, sort_keys=True), {}).setdefault(run.job.arm, folder)
    floors, identity = [], plan["panel"]["identity"]
    for arms in shapes.values():
        first, folder = next(iter(arms.items()))
        place, name = StudyFolder(out).untrained / first, f"untrained, as {first}"
        work = partial(_score, folder.path, plan["panel"], place)
        floors.append(Floor(name, place, folder.score.name, work, arms=(*arms,), panel_identity=identity))
    return floors


def _score(model: Path, panel: Mapping[str, Any], out: Path, *, say: Say, stop: Stop) -> None:
    record = panel_scores(str(model), panel, out, stop=stop, say=say, seed=1, init="random")
    durable.commit_json(RunFolder(out).score, record)


def language_notes(panel: Mapping[str, Any], tokenizer: Tokenizer) -> list[str]:
    """Returns a note for each task whose words the vocabulary does not know as a language it was made for."""
    notes = []
    for task in panel_tasks(panel):
        examples = load_task(task.entry.task).read(task.files.train).examples[:SAMPLED]
        texts = [" ".join(example.texts) for example in examples]
        ids, words = tokenizer.encode_corpus(texts), sum(len(text.split()) for text in texts)
        pieces = sum(map(len, ids))
        unknown = sum(int((each == tokenizer.specials.unk).sum()) for each in ids) / max(1, pieces)
        ratio = pieces / max(1, words)
        if ratio >= MANY_PIECES or unknown >= MANY_UNKNOWN:
            notes.append(
                f"{task.entry.title}: the vocabulary splits its words into {ratio:.1f} pieces on average, and"
                f" {unknown:.0%} of these are unknown: is it of another language?"
            )
    return notes
