"""What the scores of a study are worth: an untrained encoder's, and whether the vocabulary fits the tasks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from electra.artifacts.network_names import EXPORTED, network_tables
from electra.artifacts.run_files import RunFolder
from electra.artifacts.study_files import StudyFolder
from electra.data.corpus.tokenizer import Tokenizer
from electra.finetuning.tasks import load_task
from electra.foundation import durable
from electra.foundation.progress import Say
from electra.foundation.signals import Stop
from electra.laboratory.ablation.runs import Scored, StudyRun, panel_scores, panel_tasks

SAMPLED = 500  # examples of each task whose words are counted
MANY_PIECES, MANY_UNKNOWN = 2.0, 0.05  # of a word, and of all tokens: the vocabulary is of another language


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
