"""Which files a value passes: those whose functions held it when they returned, by a profile of a command.

    python benchmarks/walks.py [recipe | batch-size | detect | predict | finetune]...

recipe and batch-size end where the training loop begins. `foundation/` counts for detect alone.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import electra
from electra.commands.framework.main import main
from electra.training.recipe import Recipe, TrainingSection
from electra.training.request import Request

SOURCE = str(Path(electra.__file__).parent)
MARK = "wqzxj"  # a word of the text that is followed
WORDS = ["the", "a", "river", "church", "old", "walked", "they", "along", "child", "house", "garden", "book"]
SHORT = "--training.steps 2 --training.threads 1 --training.batch-size 4 --training.length 32"
TRAIN = f"pretrain texts.txt --out run {SHORT} --training.micro-batch 2"
TUNE = "finetune tiny-en --task classification --data rows.csv --epochs 1 --head transformers --no-baselines"
COMMANDS = {
    "recipe": TRAIN,
    "batch-size": TRAIN,
    "detect": f"detect tiny-en 'They walked along {MARK} to the old church.'",
    "predict": "predict tuned new.csv --out answers.csv",
    "finetune": f"{TUNE} --out other",
}


class Walk:
    """Collects the files, in the order in which they are passed."""

    def __init__(self, what: str) -> None:
        self.what, self.files, self.ended = what, list[str](), False

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if self.ended or not code.co_filename.startswith(SOURCE):
            return
        file = code.co_filename[len(SOURCE) + 1 :]
        follows_text = self.what not in ("recipe", "batch-size")
        if not follows_text and event == "call" and (file, code.co_name) == ("training/loop.py", "train"):
            self.ended = True
            self.files.append(file)
        elif event == "return" and file not in self.files and self.counts(file):
            if self.what == "batch-size":
                names = f"{code.co_names} {code.co_varnames} {code.co_consts}"
                held = "batch_size" in names
            else:
                held = any(map(self.holds, [*frame.f_locals.values(), *([] if follows_text else [result])]))
            if held:
                self.files.append(file)

    def counts(self, file: str) -> bool:
        return self.what == "detect" or not file.startswith(("foundation/", "testing/"))

    def holds(self, value: Any, depth: int = 3) -> bool:
        """Whether this is the recipe (a part of it, the request), or a text with MARK, or contains one."""
        if self.what == "recipe" and isinstance(value, Recipe | TrainingSection | Request):
            return True
        if isinstance(value, str):
            return self.what != "recipe" and MARK in value
        if not depth or value is None:
            return False
        inner: Sequence[Any] = ()
        if isinstance(value, list | tuple):
            inner = value[:6]
        elif isinstance(value, dict):
            inner = [*value.values()][:12]
        elif self.what != "recipe" and type(value).__module__.startswith("electra"):
            inner = [*getattr(value, "__dict__", {}).values()][:20]
        return any(self.holds(each, depth - 1) for each in inner)


def sentence(draw: random.Random, size: int) -> str:
    return " ".join(draw.choices(WORDS, k=size))


def walk(what: str) -> list[str]:
    """Returns the files that a value passes, in a folder of its own."""
    import shlex

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        draw = random.Random(1)
        Path("texts.txt").write_text("\n\n".join(sentence(draw, 30) for _ in range(300)))
        rows = [f"{MARK} {sentence(draw, 6)},{'ab'[number % 2]}\n" for number in range(60)]
        Path("rows.csv").write_text("text,label\n" + "".join(rows))
        Path("new.csv").write_text(f"text\n{MARK} river\n")
        if what == "predict":
            main(shlex.split(f"{TUNE} --out tuned"))
        found = Walk(what)
        sys.setprofile(found)
        threading.setprofile(found)
        try:
            main(shlex.split(COMMANDS[what]))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            os.chdir("/")
    return found.files


if __name__ == "__main__":
    for name in sys.argv[1:] or COMMANDS:
        passed = walk(name)
        print(f"{name}: {len(passed)} files", *passed, sep="\n    ", file=sys.stderr)
