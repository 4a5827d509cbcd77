"""Opens the networks of a run: the finished ones, or those of a checkpoint.

It also opens a pair of folders outside a run, discriminator/ and generator/.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from electra.artifacts import checkpoints
from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.networks import EXPORTED, Head, network_tables
from electra.artifacts.run import PairFolder, RunFolder
from electra.data.tokenizer import Tokenizer
from electra.exchange.configs import LOG_ODDS, validate
from electra.exchange.loaded import Loaded
from electra.exchange.pooling import MEAN, TextVector, read_text_vector
from electra.exchange.weight_names import Kind
from electra.exchange.weights import require_numbers
from electra.foundation.config import convert
from electra.foundation.errors import (
    AbsentNetwork,
    CheckpointError,
    ConfigError,
    DamagedModel,
    ModelError,
    RunFolderError,
)
from electra.model.networks import Network, Networks
from electra.model.pair import EncoderAlone, Pair, Sharing, build_networks, merge_token_table
from electra.model.sizes import UnsupportedConfig, recorded_config

NETWORKS: tuple[Kind, ...] = EXPORTED
PRETRAINED: tuple[Kind, ...] = (*NETWORKS, "encoder")  # without a fine-tuned head


def holds_networks(path: Path) -> bool:
    """Whether `path` is a run folder or a pair of model folders."""
    return RunFolder.is_at(path) or PairFolder.is_at(path)


def finished_network(path: Path, network: Kind) -> Path | None:
    """Returns the folder of a finished network; None if it must be read from a checkpoint of the run."""
    kinds = NETWORKS if network == "encoder" else (network,)
    pair = PairFolder(path)
    finished_kinds = [name for name in kinds if name in pair.finished_networks()]
    if finished_kinds:
        return pair.network(finished_kinds[0]).path
    if network not in PRETRAINED:
        problem = f"this is a pre-trained pair, not a fine-tuned {network}"
        raise ModelError(problem, where=path, fix="Run electra finetune")
    if not RunFolder.is_at(path):
        fix = f"Pass a folder with a subfolder {network}/"
        raise AbsentNetwork(f"there is no {network} in this folder", where=path, fix=fix)
    return None


def network_kinds(path: Path) -> list[Kind]:
    """Returns the kinds of the finished networks of a run or pair, or of those in its newest checkpoint.

    Raises CheckpointError if no network is finished and there is no intact checkpoint.
    """
    finished = PairFolder(path).finished_networks()
    if finished:
        return [name for name in NETWORKS if name in finished]
    with safe_open(_checkpoint(RunFolder(path), None)[0].weights, "pt") as file:
        return _networks_in(file.keys())


def open_checkpoint(run: Path, network: Kind, step: int | None = None) -> Loaded:
    """Opens a network of the checkpoint at `step`, or of the newest intact one.

    `electra.exchange.load.load` says what it takes and raises; ModelError also if a weight is not finite.
    """
    folder = RunFolder(run)
    checkpoint, damaged = _checkpoint(folder, step)
    tensors: dict[str, Tensor] = load_file(checkpoint.weights)
    require_numbers(tensors, checkpoint.weights)
    present_kinds = _networks_in(tensors)
    kind = present_kinds[0] if network == "encoder" and present_kinds else network
    record = folder.record
    if kind not in present_kinds:
        objective = record.get("objective", {}).get("name", "unknown")
        problem = f"this run has no {kind} (its objective is {objective})"
        raise AbsentNetwork(problem, where=run, fix=f"Pass a run or folder that has a {kind}")
    is_headless = kind == "discriminator" and not folder.trains_detection(record)
    if is_headless and network != "encoder":
        problem = "this run's discriminator is an encoder without a head (its discriminator_weight is 0)"
        raise AbsentNetwork(problem, where=run, fix="Pass a run or folder whose objective trains detection")
    tokenizer = find_tokenizer(run)
    pair = _build_pair(folder, present_kinds)
    _fill(pair, tensors, checkpoint.path)
    module = pair.named[kind].eval()
    merge_token_table(module.encoder)
    identity = record.get("identity", {})
    has_output = isinstance(identity, dict) and kind == "discriminator" and not is_headless
    for problem in damaged:
        warnings.warn(problem, DamagedModel, stacklevel=3)
    note = f"the run has not ended; this is step {checkpoint.step:,}"
    return Loaded(
        module.encoder,
        None if is_headless or isinstance(module, EncoderAlone) else module.head,
        module.encoder.config,
        tokenizer,
        "encoder" if is_headless else kind,
        (),
        checkpoint.path,
        notes=(note,) if step is None else (),
        text_vector=text_vector_of(run) if module is pair.main else MEAN,
        output=str(identity.get("output", LOG_ODDS)) if has_output else LOG_ODDS,
    )


def text_vector_of(run: Path) -> TextVector:
    """Returns how a run's main network turns texts into vectors: as the model that it started from, if any.

    Raises the errors of `read_text_vector`.
    """
    return read_text_vector(RunFolder(run).vectors) or MEAN


def find_tokenizer(run: Path) -> Tokenizer:
    """Loads a run's tokenizer. Raises RunFolderError if it is missing, TokenizerError if it is damaged."""
    for folder in RunFolder(run).tokenizers():
        if folder.is_dir():
            return Tokenizer.load(folder)
    fix = "Copy the folder tokenizer/ from its token store"
    raise RunFolderError("the run folder has no tokenizer", where=run, fix=fix)


def _checkpoint(run: RunFolder, step: int | None) -> tuple[Checkpoint, tuple[str, ...]]:
    """Returns a checkpoint, and a line about each damaged one that was skipped."""
    if step is not None:
        return checkpoints.verified_checkpoint(run.checkpoints, step), ()
    newest, notes = checkpoints.newest_checkpoint(run.checkpoints)
    if newest is None:
        raise CheckpointError("this run has no checkpoint yet", where=run, fix="Wait until it has saved one")
    return newest, notes


def _build_pair(run: RunFolder, present: list[Kind]) -> Pair:
    """Builds the networks that run.toml describes, with random weights."""
    record = run.record
    try:
        # Includes networks that are never exported, because others may share their weights.
        shapes = {name: record[name] for name in present} | network_tables(record)
        main_name: Head = next(name for name in EXPORTED if name in shapes)
        networks = []
        for name, shape in shapes.items():
            role, head = ("main", main_name) if name == main_name else ("auxiliary", "generator")
            networks.append(Network(name, role, validate(recorded_config(shape)), head))  # type: ignore[arg-type]
        sharing = convert(Sharing, record["model"]["sharing"], "model.sharing")
        return build_networks(Networks.in_order(networks), sharing=sharing)
    except (KeyError, TypeError, ConfigError, UnsupportedConfig) as problem:
        message = f"it does not describe the networks ({problem})"
        fix = "Open the run with the version that wrote it"
        raise RunFolderError(message, where=run.path / run.RECORD, fix=fix) from None


def _networks_in(tensors: Iterable[str]) -> list[Kind]:
    names = list(tensors)
    return [name for name in NETWORKS if any(key.startswith(f"{name}.") for key in names)]


def _fill(pair: Pair, tensors: dict[str, Tensor], checkpoint: Path) -> None:
    """Copies a checkpoint into all networks of a pair at once: tensors that they share are stored once."""
    parameters = dict(pair.named_parameters())
    encoders = {f"{kind}.encoder" for kind in NETWORKS}
    unknown = [name for name in tensors if name.rsplit(".layers.")[0] in encoders and name not in parameters]
    if unknown:
        problem = f"the networks in run.toml have no parameter for tensor {unknown[0]}"
        raise CheckpointError(problem, where=checkpoint)
    for name, parameter in parameters.items():
        if name not in tensors or tensors[name].shape != parameter.shape:
            problem = f"has the shape {list(tensors[name].shape)}" if name in tensors else "is missing"
            problem = f"tensor {name} {problem}; the expected shape is {list(parameter.shape)}"
            raise CheckpointError(problem, where=checkpoint)
        parameter.data.copy_(tensors[name])
