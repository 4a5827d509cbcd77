"""The networks of a run: its finished folders, or those of a checkpoint while there are none.

Also reads a pair of folders, discriminator/ and generator/, without a run around them: what `electra import`
writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from electra.artifacts import checkpoints
from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.networks import EXPORTED, Head, shapes_in
from electra.artifacts.run import PairFolder, RunFolder
from electra.data.tokenizer import Tokenizer
from electra.exchange.configs import LOG_ODDS, Unsupported, checked
from electra.exchange.names import Kind
from electra.exchange.weights import refuse_broken
from electra.foundation.config import convert
from electra.foundation.errors import AbsentNetwork, CheckpointError, ConfigError, ModelError, RunFolderError
from electra.model.networks import Network, Networks
from electra.model.pair import Discriminator, Generator, Pair, Sharing, build_networks, merge_token_table
from electra.model.sizes import EncoderConfig

NETWORKS: tuple[Kind, ...] = EXPORTED
PRETRAINED: tuple[Kind, ...] = (*NETWORKS, "encoder")  # without a fine-tuned head


@dataclass(frozen=True)
class Opened:
    """One network of a checkpoint, or of the mean of several."""

    network: Discriminator | Generator
    kind: Kind
    tokenizer: Tokenizer
    checkpoints: tuple[Checkpoint, ...]  # oldest first
    damage: tuple[str, ...]
    output: str  # of a discriminator: what its logits are


def holds_networks(path: Path) -> bool:
    """A run folder, or a bare pair of model folders."""
    return RunFolder.is_at(path) or PairFolder.is_at(path)


def finished_network(path: Path, network: Kind) -> Path | None:
    """The folder of a finished network; of a bare pair, or an error."""
    wanted = NETWORKS if network == "encoder" else (network,)
    pair = PairFolder(path)
    found = [name for name in wanted if name in pair.finished()]
    if found:
        return pair.network(found[0]).path
    if network not in (*NETWORKS, "encoder"):
        raise ModelError(
            f"this is a pre-trained pair, and a fine-tuned {network} is needed",
            where=path,
            fix="Run electra finetune",
        )
    if not RunFolder.is_at(path):
        raise AbsentNetwork(
            f"there is no {network} in this folder", where=path, fix=f"Give one that has a folder {network}/"
        )
    return None


def networks(path: Path) -> list[Kind]:
    """Which networks a run or pair holds: finished ones, else those of its newest checkpoint."""
    finished = PairFolder(path).finished()
    if finished:
        return [name for name in NETWORKS if name in finished]
    with safe_open(_choose(RunFolder(path), None)[0][-1].weights, "pt") as file:
        return _networks_in(file.keys())


def open_checkpoint(run: Path, network: Kind, step: int | None = None, average: int | None = None) -> Opened:
    """A network as of `step`, or as of the newest checkpoint that verifies; or the mean of the `average`
    checkpoints up to there.
    """
    folder = RunFolder(run)
    chosen, notes = _choose(folder, step, average)
    tensors = mean_weights(chosen)
    present = _networks_in(tensors)
    kind = present[0] if network == "encoder" and present else network
    record = folder.record
    if kind not in present:
        objective = record.get("objective", {}).get("name", "unknown")
        raise AbsentNetwork(
            f"this run has no {kind} (its objective is {objective})",
            where=run,
            fix=f"Give a run or folder that has a {kind}",
        )
    tokenizer = find_tokenizer(run)
    pair = _pair(folder, present)
    _fill(pair, tensors, chosen[-1].path)
    opened = pair.named[kind]
    merge_token_table(opened.encoder)
    identity = record.get("identity", {})
    output = LOG_ODDS
    if isinstance(identity, dict) and kind == "discriminator":
        output = str(identity.get("output", LOG_ODDS))
    return Opened(opened.eval(), kind, tokenizer, chosen, notes, output)


def find_tokenizer(run: Path) -> Tokenizer:
    for place in RunFolder(run).tokenizers():
        if place.is_dir():
            return Tokenizer.load(place)
    raise RunFolderError(
        "the run folder holds no tokenizer",
        where=run,
        fix="Copy the folder tokenizer/ of its token store into it",
    )


def mean_weights(chosen: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """The mean of every trainable parameter over the checkpoints, each counting the same.

    Summed in float64, and rounded to the parameters' own format once; of one checkpoint, its very bits.
    """
    first, *others = chosen
    tensors = _read(first)
    if not others:
        return tensors
    sums = {name: tensor.double() for name, tensor in tensors.items()}
    for other in others:
        weights = _read(other)
        if {name: (weight.shape, weight.dtype) for name, weight in weights.items()} != {
            name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()
        }:
            raise CheckpointError(f"has other tensors than that of step {first.step}", where=other.path)
        for name, weight in weights.items():
            sums[name] += weight
    return {name: (total / len(chosen)).to(tensors[name].dtype) for name, total in sums.items()}


def _read(checkpoint: Checkpoint) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(checkpoint.weights)
    except FileNotFoundError:
        fix = "Rerun the command"
        raise CheckpointError("gone: the run has replaced it", where=checkpoint.path, fix=fix) from None
    refuse_broken(tensors, checkpoint.weights)
    return tensors


def _choose(
    run: RunFolder, step: int | None, average: int | None = None
) -> tuple[tuple[Checkpoint, ...], tuple[str, ...]]:
    if average is not None:
        return checkpoints.last(run.checkpoints, average, step)
    if step is not None:
        return (checkpoints.chosen(run.checkpoints, step),), ()
    newest, notes = checkpoints.newest(run.checkpoints)
    if newest is None:
        raise CheckpointError(
            "this run has no checkpoint yet", where=run, fix="Let it run until it has saved one"
        )
    return (newest,), notes


def _pair(run: RunFolder, present: list[Kind]) -> Pair:
    """The networks as run.toml describes them, with weights still to be filled in."""
    record = run.record
    try:
        # those that are never handed out, too: another may be made of their weights
        shapes = {name: record[name] for name in present} | shapes_in(record)
        head: Head = next(name for name in EXPORTED if name in shapes)
        rows = [
            Network(
                name,
                "main" if name == head else "auxiliary",
                checked(EncoderConfig(**shape)),
                head if name == head else "generator",
            )
            for name, shape in shapes.items()
        ]
        sharing = convert(Sharing, record["model"]["sharing"], "model.sharing")
        return build_networks(Networks.of(rows), sharing=sharing)
    except (KeyError, TypeError, ConfigError, Unsupported) as problem:
        raise RunFolderError(
            f"does not describe the networks ({problem})",
            where=run.path / run.RECORD,
            fix="Was it written by another version?",
        ) from None


def _networks_in(tensors: Iterable[str]) -> list[Kind]:
    keys = list(tensors)
    return [name for name in NETWORKS if any(key.startswith(f"{name}.") for key in keys)]


def _fill(pair: Pair, tensors: dict[str, Tensor], checkpoint: Path) -> None:
    """A tensor that both networks share is kept under one of their names only, so it is the pair that is
    filled.
    """
    own = dict(pair.named_parameters())
    kinds = {f"{kind}.encoder" for kind in NETWORKS}
    stray = [name for name in tensors if name.rsplit(".layers.")[0] in kinds and name not in own]
    if stray:
        raise CheckpointError(
            f"holds {stray[0]}, for which the networks that run.toml describes have no place",
            where=checkpoint,
        )
    for name, parameter in own.items():
        if name not in tensors or tensors[name].shape != parameter.shape:
            shape = list(tensors[name].shape) if name in tensors else "no shape"
            raise CheckpointError(
                f"tensor {name} has {shape}, where run.toml makes it {list(parameter.shape)}",
                where=checkpoint,
            )
        parameter.data.copy_(tensors[name])
