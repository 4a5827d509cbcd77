"""What one GPU decides in a quarter of an hour: its tests, its speed, ELECTRA-Small as in the paper, GLUE.

    python benchmarks/quarter_hour.py DATA [--stages test speed train glue] [--minutes 14] [--out OUT]
    python benchmarks/quarter_hour.py DATA --rehearse      # tiny shapes on the CPU, to try every part

DATA holds the public data sets (docs/corpora.md). A finished stage is not run again, one that fails or takes
too long does not stop the next, results are written as they come, and runs resume. Files in OUT/keep are
below 16 MiB: the two networks in 16 bits, split where they are larger.

    test    the tests marked cuda: the CPU's losses
    speed   tokens/s and MFU: a transformers loop in bf16, compiled; electra with and without compiled
            layers. ELECTRA-Small at 128 x 128 and 512 rows, Base at 128 x 128
    train   ELECTRA-Small on all English text of DATA, for as long as is left
    glue    the discriminator on GLUE's dev sets, with default settings
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from contest import HERE, electra, python

ENGLISH = ("enwiki-*", "english-novels-*", "babylm-mix-*")
LIMITS = {"test": 90, "speed": 210, "train": 480, "glue": 120}  # seconds
PIECE = 15 << 20  # bytes of a file to bring back
TASKS = ["cola", "mrpc", "rte", "sst-2", "sts-b"]


class Stages:
    """The stages, each a method that returns what it found."""

    def __init__(self, data: Path, out: Path, rehearse: bool, ends: float) -> None:
        self.data, self.out, self.rehearse, self.ends = data, out, rehearse, ends
        self.device = "cpu" if rehearse else "cuda"
        self.keep = out / "keep"
        self.keep.mkdir(parents=True, exist_ok=True)

    def left(self, stage: str) -> float:
        """Returns the seconds that a stage may take."""
        return min(LIMITS[stage], self.ends - time.monotonic())

    def call(self, stage: str, command: list[str], name: str) -> str:
        """Runs a command with what is left of the stage, keeps its output, and returns its last line."""
        log = self.keep / f"{name}.txt"
        with log.open("w") as file:
            subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=True, timeout=self.left(stage))
        return log.read_text().splitlines()[-1]

    def test(self) -> Any:
        marked = ["-k", "cpu"] if self.rehearse else ["-m", "cuda"]
        tests = HERE.parent / "tests" / "training" / "test_devices.py"
        return self.call("test", python("-m", "pytest", "-q", "-p", "no:cacheprovider", *marked, tests), "test")

    def speed(self) -> Any:
        found = self.so_far("speed")
        shapes = [("tiny", 2)] if self.rehearse else [("small", 128), ("small", 512), ("base", 128)]
        for size, rows in shapes:
            shared = ["--length", 128, "--seconds", 1 if self.rehearse else 6, "--device", self.device]
            recipe = ["--recipe", "tiny" if self.rehearse else f"paper-{size}", "--vocab-size", 30522]
            ours = python(HERE / "speed.py", *recipe, "--batch-size", rows, "--dropout", 0.1, *shared)
            loop = ["--size", size, "--batch", rows, "--dropout", 0.1, "--precision", "bf16", *shared]
            ways = {
                "transformers, bf16, compiled": python(HERE / "transformers_loop.py", *loop, "--compile"),
                "electra": ours,
                "electra, compiled layers": [*ours, "--compile", "on"],
            }
            if self.rehearse:  # compiling takes minutes on a CPU
                ways = {name: command for name, command in ways.items() if "compiled" not in name}
            for name, command in ways.items():
                if f"{size} {rows} {name}" in found:
                    continue
                try:
                    row = json.loads(self.call("speed", command, f"speed-{size}-{rows}-{name.replace(', ', '-')}"))
                    found[f"{size} {rows} {name}"] = {key: row.get(key) for key in ("tokens_per_s_median", "mfu")}
                except (subprocess.SubprocessError, ValueError, IndexError) as error:
                    found[f"{size} {rows} {name}"] = {"failed": str(error)[:300]}
                self.record("speed-so-far", found)
        return checked(found)

    def train(self) -> Any:
        store, run = self.out / "store", self.out / "run"
        if not (store / "manifest.json").exists():
            texts = [str(file) for pattern in ENGLISH for file in sorted((self.data / "corpora").glob(pattern))]
            texts = ["python-docs"] if self.rehearse else texts
            size = ["--vocab-size", 2000 if self.rehearse else 30522]
            self.call("train", electra("prepare", *texts, "--out", store, *size), "prepare")
        budget = "5steps" if self.rehearse else f"{int(self.left('train') - 20)}s"
        shape = ["--recipe", "tiny" if self.rehearse else "paper-small", "--device", self.device]
        every = [] if self.rehearse else ["--training.checkpoint-every", 2000, "--training.batch-size", 512]
        rate = [] if self.rehearse else ["--learning-rate", 1e-3]
        command = electra("pretrain", store, "--out", run, "--budget", budget, *shape, *every, *rate)
        last = self.call("train", command, "train")
        for network in ("discriminator", "generator"):
            saved = self.out / f"{network}-16"
            command = electra("export", run, "--network", network, "--dtype", "bfloat16", "--out", saved)
            self.call("train", command, f"export-{network}")
            self.bring(saved)
        for name in ("run.json", "ledger.jsonl", "report.html"):
            if (run / name).exists():
                shutil.copy(run / name, self.keep / name)
        return last

    def bring(self, folder: Path) -> None:
        """Packs a model folder into what is kept, in pieces that `cat` puts together again."""
        packed = Path(shutil.make_archive(str(folder), "gztar", folder))
        content = packed.read_bytes()
        for number, start in enumerate(range(0, len(content), PIECE)):
            (self.keep / f"{packed.name}.{number}").write_bytes(content[start : start + PIECE])

    def glue(self) -> Any:
        found = self.so_far("glue")
        for task in {*(TASKS[:1] if self.rehearse else TASKS)} - found.keys():
            few = ["--limit-train", 50, "--limit-eval", 50, "--epochs", 0.1] if self.rehearse else []
            out = self.out / "glue" / task
            command = electra("finetune", self.out / "run", "--task", task.replace("-", ""), "--out", out)
            command += [*map(str, ["--data", self.data / "glue" / task, "--device", self.device, *few])]
            try:
                self.call("glue", command, f"glue-{task}")
                found[task] = json.loads((out / "all_results.json").read_text())
            except subprocess.SubprocessError as error:
                found[task] = {"failed": str(error)[:300]}
            self.record("glue-so-far", found)
        return {
            task: {key: value for key, value in row.items() if key.startswith("eval_")}
            for task, row in checked(found).items()
        }

    def so_far(self, stage: str) -> dict[str, Any]:
        """Returns the parts of a stage that an earlier call finished."""
        path = self.keep / f"{stage}-so-far.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        return {name: row for name, row in found.items() if "failed" not in row}

    def record(self, stage: str, found: Any) -> None:
        (self.keep / f"{stage}.json").write_text(json.dumps(found, indent=1) + "\n")


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """Returns the parts of a stage. Raises ValueError if one failed."""
    if failed := [f"{name}: {row['failed']}" for name, row in found.items() if "failed" in row]:
        raise ValueError("; ".join(failed))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--stages", nargs="+", choices=list(LIMITS), default=list(LIMITS))
    parser.add_argument("--minutes", type=float, default=14)
    parser.add_argument("--out", type=Path, default=Path("runs/quarter-hour"))
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes on the CPU")
    arguments = parser.parse_args()
    stages = Stages(arguments.data, arguments.out, arguments.rehearse, time.monotonic() + 60 * arguments.minutes)
    failed = False
    for stage in arguments.stages:
        if (stages.keep / f"{stage}.json").exists():
            continue
        began = time.monotonic()
        try:
            found = getattr(stages, stage)()
        except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
            failed = True
            print(f"{stage}: failed after {time.monotonic() - began:.0f} s: {str(error)[:300]}", flush=True)
            continue
        stages.record(stage, found)
        print(f"{stage}: {time.monotonic() - began:.0f} s: {json.dumps(found)[:1500]}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
