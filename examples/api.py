"""A complete run through the Python API, from text to predictions and a report.

Pre-training is interrupted halfway and resumed; fine-tuning reads a DataFrame.

    python examples/api.py FOLDER     # takes about twenty seconds on one core; writes only to FOLDER
"""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas

import electra

ANIMALS, PEOPLE = ["the cat", "a dog", "the horse"], ["my friend", "our teacher", "the queen"]
VERBS = ["sees", "likes", "finds", "eats", "draws", "remembers"]
OBJECTS = ["the house", "a green apple", "the long road", "some bread", "the sea", "an old book"]
SMALL = {
    "training.length": 16,
    "training.batch_size": 8,
    "training.learning_rate": 2e-3,
    "training.checkpoint_every": 20,
    "training.evaluate_every": 30,
    "training.precision": "fp32",
    "evaluation.rows": 16,
}


def write_text(path: Path) -> Path:
    """Writes a corpus of simple sentences, with one document per line. Returns its path."""
    rng = random.Random(0)
    sentences = [f"{rng.choice(ANIMALS + PEOPLE)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} ." for _ in range(900)]
    path.write_text("\n".join(" ".join(sentences[i : i + 4]) for i in range(0, 900, 4)))
    return path


def interrupt_at(share: float) -> Callable[[str, float | None], None]:
    """Returns a progress callback that acts as if the user pressed Ctrl-C once this fraction is done."""

    def progress(line: str, done: float | None) -> None:
        if done is not None and done >= share:
            signal.raise_signal(signal.SIGINT)

    return progress


def journey(folder: Path) -> dict[str, object]:
    """Runs all steps in order and returns their results."""
    folder.mkdir(parents=True, exist_ok=True)
    store = electra.prepare(
        write_text(folder / "text.txt"), out=folder / "store", vocab_size=100, unit="line", heldout=0.1
    )

    # Pre-training stops after the current update, saves, and raises; the same call resumes.
    settings: dict[str, Any] = {
        "out": folder / "run",
        "recipe": "tiny",
        "budget": "60steps",
        "overrides": SMALL,
    }
    try:
        electra.pretrain(store, progress=interrupt_at(0.5), **settings)
    except electra.Interrupted as stopped:
        interrupted_at = electra.Run(folder / "run").step
        assert stopped.exit_code == 130
    run = electra.pretrain(store, **settings)

    model = electra.load(run)
    [detection] = model.detect(["The cat eats the sea."])
    table = electra.show(model, "the cat sees the house .", seed=3)
    vectors = model.embed(["the cat sees the house .", "our teacher likes some bread ."])

    frame = pandas.DataFrame(
        [
            {"text": f"{subject} {verb} the house .", "label": kind}
            for kind, subjects in (("animal", ANIMALS), ("person", PEOPLE))
            for subject in subjects
            for verb in VERBS
        ]
    )
    tuned = electra.finetune(
        model,
        task="classification",
        data=frame,
        out=folder / "tuned",
        epochs=2,
        max_length=16,
        precision="fp32",
    )
    predictions = tuned.predict(["a dog finds an old book .", "the queen draws the sea ."])
    return {
        "store": store,
        "interrupted_at": interrupted_at,
        "run": run,
        "detection": detection,
        "table": table,
        "vectors": vectors,
        "tuned": tuned,
        "predictions": predictions,
        "page": run.report(),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/api.py FOLDER")
    for name, value in journey(Path(sys.argv[1])).items():
        print(f"\n{name}\n{value}")
