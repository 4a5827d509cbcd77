"""Keep what a study has found so far, small enough for git; `electra ablate` resumes it on another machine.

    python results/keep_study.py runs/objectives results/FOLDER/records/study
    python results/records.py pack results/FOLDER

and there, to resume or to draw the page:

    python results/records.py unpack results/FOLDER
    cp -r results/FOLDER/records/study runs/objectives && electra ablate objectives ... --out runs/objectives

Kept are the plan and, for each finished run, its scores, its held-out evaluations and its last training row.
Weights, checkpoints and the tokenizer are left out (the store holds the tokenizer, and its digest must agree),
and so are paths.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PLAN = "study.json"


def keep(study: Path, kept: Path) -> list[str]:
    """Copy, and return the runs that were kept, as arms/ARM/..."""
    plan = json.loads((study / PLAN).read_text(encoding="utf-8"))
    plan["store"], plan["panel"]["folder"], plan["recipe"] = "", "", Path(plan["recipe"]).name
    plan["panel"]["suite"] = Path(plan["panel"].get("suite", "")).name
    kept.mkdir(parents=True, exist_ok=True)
    (kept / PLAN).write_text(json.dumps(plan, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    runs = sorted(path.parent for path in (study / "arms").rglob("score.json"))
    for run in runs:
        there = kept / run.relative_to(study)
        there.mkdir(parents=True, exist_ok=True)
        (there / "score.json").write_bytes((run / "score.json").read_bytes())
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        last = max((index for index, row in enumerate(rows) if row.get("kind") == "train"), default=-1)
        few = [row for index, row in enumerate(rows) if row.get("kind") != "train" or index == last]
        (there / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in few), encoding="utf-8")
    return [str(run.relative_to(study)) for run in runs]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} STUDY_OUT FOLDER")
    sys.stdout.write("".join(f"{run}\n" for run in keep(Path(sys.argv[1]), Path(sys.argv[2]))))
