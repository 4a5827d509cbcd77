"""The networks of a run: its finished folders, or those of a checkpoint while there are none.

Also reads a pair of folders, discriminator/ and generator/, without a run around them: what `electra import`
writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from electra import durable
from electra.config import read_toml
from electra.data.tokenizer import Tokenizer
from electra.errors import AbsentNetwork, CheckpointError, ModelError, RunFolderError
from electra.interop.configs import LOG_ODDS
from electra.interop.names import Kind
from electra.model.pair import Discriminator, Generator, Pair, build_pair, fold
from electra.model.sizes import EncoderConfig

NETWORKS: tuple[Kind, Kind] = ("discriminator", "generator")
_STEP = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Opened:
    """One network of a checkpoint."""

    network: Discriminator | Generator
    kind: Kind
    tokenizer: Tokenizer
    checkpoint: Path
    notes: tuple[str, ...]
    output: str  # of a discriminator: what its logits are


def is_run(path: Path) -> bool:
    return (path / "run.toml").is_file()


def holds_networks(path: Path) -> bool:
    """A run folder, or a bare pair of model folders."""
    return is_run(path) or any((path / name / "config.json").is_file() for name in NETWORKS)


def finished_network(path: Path, network: Kind) -> Path | None:
    """The folder of a finished network; of a bare pair, or an error."""
    wanted = NETWORKS if network == "encoder" else (network,)
    found = [path / name for name in wanted if name in NETWORKS and (path / name / "config.json").is_file()]
    if found:
        return found[0]
    if network not in (*NETWORKS, "encoder"):
        raise ModelError(
            f"this is a pre-trained pair, and a fine-tuned {network} is needed",
            where=path,
            fix="Run electra finetune",
        )
    if not is_run(path):
        raise AbsentNetwork(
            f"there is no {network} in this folder", where=path, fix=f"Give one that has a folder {network}/"
        )
    return None


def networks(path: Path) -> list[Kind]:
    """Which networks a run or pair holds: finished ones, else those of its newest checkpoint."""
    finished = [name for name in NETWORKS if (path / name / "config.json").is_file()]
    if finished:
        return finished
    with safe_open(_choose(path, None)[0] / "model.safetensors", "pt") as file:
        return _networks_in(file.keys())


def step_of(checkpoint: Path) -> int | None:
    match = _STEP.fullmatch(checkpoint.name)
    return int(match[1]) if match else None


def checkpoints(run: Path) -> list[tuple[int, Path]]:
    """(step, directory) of each checkpoint, newest first."""
    found = ((step_of(path), path) for path in (run / "checkpoints").glob("step-*") if path.is_dir())
    return sorted(((step, path) for step, path in found if step is not None), reverse=True)


def open_checkpoint(run: Path, network: Kind, step: int | None = None) -> Opened:
    """A network as of `step`, or as of the newest checkpoint that verifies."""
    chosen, notes = _choose(run, step)
    tensors = load_file(chosen / "model.safetensors")
    present = _networks_in(tensors)
    kind = present[0] if network == "encoder" and present else network
    record = read_toml(run / "run.toml")
    if kind not in present:
        objective = record.get("objective", {}).get("name", "unknown")
        raise AbsentNetwork(
            f"this run has no {kind} (its objective is {objective})",
            where=run,
            fix=f"Give a run or folder that has a {kind}",
        )
    tokenizer = find_tokenizer(run)
    pair = _pair(run, present)
    _fill(pair, tensors, chosen)
    opened = pair.discriminator if kind == "discriminator" else pair.generator
    assert opened is not None
    fold(opened.encoder)
    output = record.get("identity", {}).get("output", LOG_ODDS) if kind == "discriminator" else LOG_ODDS
    return Opened(opened.eval(), kind, tokenizer, chosen, notes, output)


def find_tokenizer(run: Path) -> Tokenizer:
    for place in ("tokenizer", "store/tokenizer", *NETWORKS):
        if (run / place).is_dir():
            return Tokenizer.load(run / place)
    raise RunFolderError(
        "the run folder holds no tokenizer",
        where=run,
        fix="Copy the folder tokenizer/ of its token store into it",
    )


def _choose(run: Path, step: int | None) -> tuple[Path, tuple[str, ...]]:
    found = checkpoints(run)
    if step is not None:
        path = dict(found).get(step)
        if path is None:
            steps = ", ".join(str(number) for number, _ in reversed(found)) or "none"
            raise CheckpointError(f"no checkpoint of step {step}", where=run, fix=f"There are: {steps}")
        problem = durable.verify_directory(path)
        if problem is not None:
            raise CheckpointError(f"damaged: {problem}", where=path, fix="Choose another --step")
        return path, ()
    notes: list[str] = []
    for _, path in found:
        problem = durable.verify_directory(path)
        if problem is None:
            return path, tuple(notes)
        notes.append(f"{path} is damaged ({problem}): the one before it is used")
    what = "none of its checkpoints is whole" if found else "this run has no checkpoint yet"
    raise CheckpointError(what, where=run, fix="Let it run until it has saved one")


def _pair(run: Path, present: list[Kind]) -> Pair:
    """The networks as run.toml describes them, with weights still to be filled in."""
    record = read_toml(run / "run.toml")
    try:
        # the sampler is never handed out, but the generator may be made of its weights
        shapes = {
            kind: EncoderConfig(**record[kind])
            for kind in (*present, "sampler")
            if kind in present or kind in record
        }
        sharing = record["model"]["sharing"]
        return build_pair(
            shapes.get("generator"), shapes.get("discriminator"), shapes.get("sampler"), sharing=sharing
        )
    except (KeyError, TypeError) as problem:
        raise RunFolderError(
            f"does not describe the networks ({problem})",
            where=run / "run.toml",
            fix="Is it of this version?",
        ) from None


def _networks_in(tensors: Iterable[str]) -> list[Kind]:
    keys = list(tensors)
    return [name for name in NETWORKS if any(key.startswith(f"{name}.") for key in keys)]


def _fill(pair: Pair, tensors: dict[str, Tensor], checkpoint: Path) -> None:
    """A tensor that both networks share is kept under one of their names only, so it is the pair that is
    filled.
    """
    for name, parameter in pair.named_parameters():
        if name not in tensors or tensors[name].shape != parameter.shape:
            shape = list(tensors[name].shape) if name in tensors else "no shape"
            raise CheckpointError(
                f"tensor {name} has {shape}, where run.toml makes it {list(parameter.shape)}",
                where=checkpoint,
            )
        parameter.data.copy_(tensors[name])
