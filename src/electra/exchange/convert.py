"""Writes loaded models as Hugging Face folders, with the card of the run or model that they come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.model import HEAD, TASK, Dtype, ModelFolder
from electra.artifacts.run import RunFolder
from electra.exchange.card import Card, card_of_language_model, card_of_run
from electra.exchange.configs import DEFAULT_THRESHOLD, head_settings
from electra.exchange.huggingface import write_model
from electra.exchange.load import Loaded
from electra.exchange.weight_names import TUNED


def export(loaded: Loaded, out: Path, source: str | Path, *, dtype: Dtype | None = None) -> None:
    """Writes a loaded model as a Hugging Face folder, with a card made from `source`, its path or hub name.

    Without `dtype`, weights of 16 bits stay so, and others are written as float32. Raises the errors of
    `write_model`, for example if `out` contains anything but a model.
    """
    if dtype is None:
        record = ModelFolder(loaded.folder).record if ModelFolder.is_at(loaded.folder) else {}
        stored = record.get("dtype") or record.get("torch_dtype")
        dtype = stored if stored in ("bfloat16", "float16") else "float32"
    write(loaded, Path(out), make_card(loaded, Path(out), source), dtype)


def write(loaded: Loaded, out: Path, card: Card, dtype: Dtype = "float32") -> None:
    """Writes a loaded model as a Hugging Face folder, with this card. Raises the errors of `write_model`.

    A fine-tuned head keeps its settings, and its files if transformers has no class for it.
    """
    files = {name: loaded.folder / name for name in (HEAD, TASK)}
    further = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
    values = head_settings(loaded.folder) if loaded.kind in TUNED else {}
    write_model(out, loaded, card, dtype, values=values, further=further)


def make_card(loaded: Loaded, out: Path, source: str | Path) -> Card:
    """Makes the card of a model that is written to `out`, with the run's record if `source` is a run."""
    run = RunFolder(Path(source).expanduser())
    if not run.exists():
        base = str(source) if not run.path.exists() else ""
        card = Card(out.resolve().name, loaded.kind, base_model=base, output=loaded.output)
    elif loaded.folder == run.language_model.path:
        card = card_of_language_model(run.path, None)
    else:
        step = Checkpoint(loaded.folder).step if Checkpoint.is_at(loaded.folder) else None
        card = card_of_run(run.path, loaded.kind, step=step)
    return card if loaded.threshold == DEFAULT_THRESHOLD else replace(card, threshold=loaded.threshold)
