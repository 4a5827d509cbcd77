"""Opens the networks of a run: the finished ones, or those of a checkpoint.

It also opens a pair of folders outside a run, discriminator/ and generator/.
"""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from electra.artifacts import checkpoints
from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.network_names import EXPORTED, Head, network_tables
from electra.artifacts.run_files import PairFolder, RunFolder
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.configs import LOG_ODDS, validate
from electra.exchange.loaded import Loaded
from electra.exchange.pooling import MEAN, TextVector, read_text_vector
from electra.exchange.weight_names import TUNED, Kind
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


def holds_networks(path: Path) -> bool:
    """Whether `path` is a run folder or a pair of model folders."""
    return RunFolder.is_at(path) or PairFolder.is_at(path)


def finished_network(path: Path, network: Kind) -> Path | None:
    """Returns the folder of a finished network; None if it must be read from a checkpoint of the run."""
    pair = PairFolder(path)
    finished = pair.finished_networks()  # the discriminator first
    if name := next((name for name in finished if network in ("encoder", name)), None):
        return pair.network(name).path
    if network in TUNED:
        problem = f"this is a pre-trained pair, not a fine-tuned {network}"
        raise ModelError(problem, where=path, fix="Run electra finetune")
    if not RunFolder.is_at(path):
        fix = f"Pass a folder with a subfolder {network}/"
        raise AbsentNetwork(f"there is no {network} in this folder", where=path, fix=fix)
    return None


def network_kinds(path: Path) -> list[str]:
    """Returns the kinds of the finished networks of a run or pair, or of those in its newest checkpoint.

    Raises CheckpointError if no network is finished and there is no intact checkpoint.
    """
    if finished := PairFolder(path).finished_networks():
        return finished
    with safe_open(_checkpoint(RunFolder(path), None)[0].weights, "pt") as file:
        return list(_networks_in(file.keys()))


def open_checkpoint(run: Path, network: Kind, step: int | None = None) -> Loaded:
    """Opens a network of the checkpoint at `step`, or of the newest intact one.

    `electra.exchange.load.load` says what it takes and raises; ModelError also if a weight is not finite.
    """
    folder = RunFolder(run)
    checkpoint, damaged = _checkpoint(folder, step)
    tensors: dict[str, Tensor] = load_file(checkpoint.weights)
    require_numbers(tensors, checkpoint.weights)
    present_kinds, record = _networks_in(tensors), folder.record
    kind = present_kinds[0] if network == "encoder" and present_kinds else network
    headless, problem = kind == "discriminator" and not folder.trains_detection(record), ""
    if kind not in present_kinds:
        objective = record.get("objective", {}).get("name", "unknown")
        problem = f"this run has no {kind} (its objective is {objective})"
    elif headless and network != "encoder":
        problem = "this run's discriminator is an encoder without a head (its discriminator_weight is 0)"
    if problem:
        raise AbsentNetwork(problem, where=run, fix=f"Pass a run or folder that has a trained {kind}")
    tokenizer = find_tokenizer(run)
    pair = _build_pair(folder, present_kinds)
    known = pair.state_dict().keys()
    for name in tensors:
        if name not in known and any(f"{kind}.encoder.layers." in name for kind in EXPORTED):
            problem = f"the networks in run.toml have no parameter for tensor {name}"
            raise CheckpointError(problem, where=checkpoint.path)
    fill(pair, tensors, checkpoint.path)
    module = pair.named[kind].eval()
    merge_token_table(module.encoder)
    identity = record.get("identity", {})
    has_output = isinstance(identity, dict) and kind == "discriminator" and not headless
    for damage in damaged:
        warnings.warn(damage, DamagedModel, stacklevel=3)
    note = f"the run has not ended; this is step {checkpoint.step:,}"
    return Loaded(
        module.encoder,
        None if headless or isinstance(module, EncoderAlone) else module.head,
        module.encoder.config,
        tokenizer,
        "encoder" if headless else kind,
        (),
        checkpoint.path,
        notes=(note,) if step is None else (),
        text_vector=text_vector_of(run) if module is pair.main else MEAN,
        output=str(identity.get("output", LOG_ODDS)) if has_output else LOG_ODDS,
    )


def text_vector_of(run: Path) -> TextVector:
    """Returns how a run's main network turns texts into vectors: as the model that it started from."""
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
    present = {name.partition(".")[0] for name in tensors}
    return [name for name in EXPORTED if name in present]


def fill(pair: Pair, tensors: Mapping[str, Tensor], checkpoint: Path) -> None:
    """Copies a checkpoint into all networks of a pair at once: tensors that they share are stored once.

    Raises CheckpointError if a tensor is missing or has another shape.
    """
    for name, parameter in pair.named_parameters():
        if name not in tensors or tensors[name].shape != parameter.shape:
            problem = f"has the shape {list(tensors[name].shape)}" if name in tensors else "is missing"
            problem = f"tensor {name} {problem}; the expected shape is {list(parameter.shape)}"
            raise CheckpointError(problem, where=checkpoint)
        parameter.data.copy_(tensors[name])
