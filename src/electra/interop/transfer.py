"""Models from one folder to another: a run's network to a Hugging Face folder, published checkpoints to a
pair to go on training.
"""

from __future__ import annotations

from pathlib import Path

from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.run import RunFolder
from electra.errors import ModelError
from electra.interop import run_folder
from electra.interop.card import Card, card_of_run
from electra.interop.huggingface import Dtype, write_model
from electra.interop.load import Loaded, load
from electra.interop.names import Kind


def export(loaded: Loaded, out: Path, source: str | Path, *, dtype: Dtype = "float32") -> None:
    """Write a loaded model as a Hugging Face folder, with the card of the run it comes from, if it comes from
    one.
    """
    run = Path(source).expanduser()
    if RunFolder.is_at(run):
        step = Checkpoint(loaded.folder).step if Checkpoint.is_at(loaded.folder) else None
        card = card_of_run(run, loaded.kind, step=step)
    else:
        base = str(source) if not run.exists() else ""
        card = Card(name=Path(out).resolve().name, kind=loaded.kind, base_model=base, output=loaded.output)
    write_model(
        Path(out),
        loaded.encoder,
        loaded.head,
        kind=loaded.kind,
        labels=loaded.labels,
        tokenizer=loaded.tokenizer,
        card=card,
        dtype=dtype,
        pooling=loaded.pooling,
    )


def import_pair(
    source: str, out: Path, generator: str | None = None, *, allow_pickle: bool = False
) -> list[str]:
    """Write the networks of `source` (and `generator`) to out/discriminator and out/generator. Returns lines
    for the user.
    """
    out, path = Path(out), Path(source).expanduser()
    wanted: list[tuple[str, Kind]] = [(source, "encoder")]
    if generator is not None:
        wanted = [(source, "discriminator"), (generator, "generator")]
    elif run_folder.holds_networks(path):
        wanted = [(source, kind) for kind in run_folder.networks(path)]
    models = [load(name, kind, allow_pickle=allow_pickle) for name, kind in wanted]
    if models[0].tokenizer.digest != models[-1].tokenizer.digest:
        raise ModelError(
            "the two networks have different tokenizers",
            where=generator,
            fix="Give the two networks of one pair",
        )
    if models[0].kind not in run_folder.NETWORKS:
        raise ModelError(
            f"this is a {models[0].kind}, not a pre-trained network",
            where=source,
            fix="Give a discriminator or a generator",
        )
    lines = []
    for model, (name, _) in zip(models, wanted, strict=True):
        export(model, out / model.kind, name)
        config = model.config
        shape = f"{config.num_layers} layers of {config.hidden_size}, vocabulary {config.vocab_size:,}"
        lines += [f"{out / model.kind}  {model.kind}, {shape}", *(f"note: {note}" for note in model.notes)]
    return lines
