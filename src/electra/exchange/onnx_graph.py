"""A network as an ONNX graph: written by torch's exporter, if the graph computes the same.

The folder is a model folder with a graph in the place of weights; onnx_session.py says what goes in and comes
out.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electra.artifacts.model import CARD, CONFIG, ONNX, TASK, ModelFolder
from electra.exchange.configs import HALF, LOG_ODDS, OUTPUT, THRESHOLD, write_config
from electra.exchange.huggingface import refuse_foreign_folder, tokenizer_files
from electra.exchange.load import NEEDS, Loaded
from electra.exchange.onnx_session import HIDDEN, IDS, LOGITS, MASK, TYPES, open_session
from electra.exchange.pooling import pooling_files
from electra.foundation import durable
from electra.foundation.errors import ModelError
from electra.foundation.machine import library

KINDS = ("discriminator", "encoder")
TOLERANCE = 1e-3  # of every output in fp32; measured: 1e-5
INT8_TOLERANCE = 0.05  # of int8: the mean difference of a probability, or one minus the vectors' cosine
ROWS, LENGTH = 16, 64  # of the pass that graph and network are compared on
README = """# {name}

The {kind} of a text encoder trained by replaced token detection, as an ONNX graph. `electra detect` and
`electra embed` run it with `--backend onnx`. Inputs: `input_ids` and `attention_mask`. Outputs: `hidden` and,
of a discriminator, `logits`, the log-odds that a token was replaced.
"""


@dataclass(frozen=True)
class Written:
    """How a graph compares with the network that it was made of."""

    difference: float  # the largest of any output; of int8 the mean one of a probability, or 1 - cosine
    bytes_before: int
    bytes_after: int
    seconds_before: float  # of one pass of 16 rows of 64 tokens
    seconds_after: float

    def __str__(self) -> str:
        mebibytes = [size / 2**20 for size in (self.bytes_after, self.bytes_before)]
        after, before = 1000 * self.seconds_after, 1000 * self.seconds_before
        return (
            f"difference {self.difference:.2g}; {mebibytes[0]:.1f} MiB beside {mebibytes[1]:.1f};"
            f" {after:.1f} ms a pass of {ROWS} x {LENGTH} tokens beside {before:.1f} in PyTorch"
            f" ({before / after:.1f} times as fast)"
        )


class Graph(nn.Module):
    """What is traced: token ids [B, T] -> hidden [B, T, D] and, with a head, logits."""

    per_token = True  # logits are [B, T, ...], else [B, ...]

    def __init__(self, encoder: nn.Module, head: nn.Module | None = None, *, types: bool = False) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.inputs = (IDS, MASK, TYPES) if types else (IDS, MASK)
        self.outputs = (HIDDEN,) if head is None else (HIDDEN, LOGITS)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        hidden_BTD = self.encoder(input_ids, piece_ids=attention_mask - 1, token_type_ids=token_type_ids)
        if self.head is None:
            return (hidden_BTD,)
        return hidden_BTD, self.judge(hidden_BTD, attention_mask, token_type_ids)

    def judge(self, hidden_BTD: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        assert self.head is not None
        return torch.as_tensor(self.head(hidden_BTD))


def write_onnx(loaded: Loaded, out: Path, *, int8: bool = False) -> Written:
    """Write `loaded` as a folder with a graph, if the graph computes the same.

    int8: store and multiply weights as 8-bit integers.
    Raises ModelError where it does not, and for networks of another kind than KINDS.
    """
    if loaded.kind == "generator":  # what detects and makes vectors needs no output layer over the vocabulary
        loaded = replace(loaded, kind="encoder", head=None)
    if loaded.kind not in KINDS:
        what = f"this is {NEEDS[loaded.kind]}; a discriminator or an encoder can be exported as ONNX"
        raise ModelError(what, where=loaded.folder)
    specials = loaded.tokenizer.specials
    config = write_config(
        loaded.config, loaded.kind, loaded.labels, "float32", {"cls": specials.cls, "sep": specials.sep}
    )
    judges = loaded.kind == "discriminator"
    if judges and (loaded.config.architecture == "modern" or loaded.output != LOG_ODDS):
        config[OUTPUT] = loaded.output
    if judges and loaded.threshold != HALF:
        config[THRESHOLD] = loaded.threshold
    files: dict[str, durable.Content] = {
        CONFIG: durable.to_json(config),
        CARD: README.format(name=out.resolve().name, kind=loaded.kind).encode(),
    }
    graph = Graph(loaded.encoder, loaded.head if judges else None)
    return commit_graph(loaded, graph, out, files, torch.sigmoid if judges else None, int8=int8)


def commit_graph(
    loaded: Loaded,
    graph: Graph,
    out: Path,
    files: Mapping[str, durable.Content],
    probabilities: Callable[[Tensor], Tensor] | None,
    *,
    int8: bool,
) -> Written:
    """Write `graph`, made of `loaded`, with `files` and those that every such folder has.

    probabilities: of logits, by which an int8 graph is compared; None: by its hidden states.
    """
    refuse_foreign_folder(out, (ONNX, TASK))
    if ModelFolder(out).weights.is_file():
        what = "the folder holds a model with its weights, which a graph would replace"
        raise ModelError(what, where=out, fix="Choose another `out`")
    with tempfile.TemporaryDirectory(prefix="electra-") as folder:
        plain = made = Path(folder) / ONNX
        _trace(graph.eval(), loaded, plain)
        if int8:
            made = _quantize(plain, Path(folder) / "int8.onnx")
        written = _compare(loaded, graph, made, probabilities, int8)
        config = loaded.config
        common: dict[str, durable.Content] = {
            **tokenizer_files(loaded.tokenizer, config.architecture, config.max_positions, loaded.kind),
            **(loaded.text_vector.files or pooling_files(loaded.pooling, config.hidden_size)),
            ONNX: made.read_bytes(),
        }
        durable.commit_directory(out, {**common, **files})
    return written


def _trace(graph: Graph, loaded: Loaded, path: Path) -> None:
    library("onnxscript", "onnx")
    ids = torch.full((2, 8), loaded.config.pad_id)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    given = {IDS: ids, MASK: mask, TYPES: torch.zeros_like(ids)}
    free = {
        0: torch.export.Dim("batch", max=1 << 16),
        1: torch.export.Dim("tokens", min=2, max=loaded.config.max_positions),
    }
    with torch.no_grad(), _quietly():
        program = torch.onnx.export(
            graph, tuple(given[name] for name in graph.inputs), dynamo=True, verbose=False,
            dynamic_shapes=tuple(free for _ in graph.inputs),
            input_names=list(graph.inputs), output_names=list(graph.outputs),
        )  # fmt: skip
        assert program is not None
        with durable.explain_disk_errors(path):
            program.save(str(path))
            _forget_sources(path)


def _forget_sources(path: Path) -> None:
    """Remove what the exporter notes of each node: lines of source files, with the paths of this machine."""
    onnx = library("onnx", "onnx")
    model = onnx.load(str(path))

    def forget(part: Any) -> None:
        for name in ("doc_string", "metadata_props"):
            if name in part.DESCRIPTOR.fields_by_name:
                part.ClearField(name)
        for field, value in part.ListFields():
            if field.message_type is not None and field.name != "metadata_props":
                for inner in value if field.is_repeated else [value]:
                    forget(inner)

    forget(model)
    onnx.save(model, str(path))


def _quantize(plain: Path, made: Path) -> Path:
    library("onnxruntime", "onnx")
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # 7 bits: processors with AVX2 or AVX512 but without VNNI add two products of 8 bits in 16, which saturate
    with _quietly():
        quantize_dynamic(plain, made, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    return made


def _compare(
    loaded: Loaded, graph: Graph, path: Path, probabilities: Callable[[Tensor], Tensor] | None, int8: bool
) -> Written:
    """Run both on padded rows of random tokens."""
    draw = torch.Generator().manual_seed(0)
    length = min(LENGTH, loaded.config.max_positions)
    ids = torch.randint(0, loaded.tokenizer.vocab_size, (ROWS, length), generator=draw)
    mask = torch.ones_like(ids)
    mask[ROWS // 2 :, length // 2 :] = 0
    types = (torch.arange(length) > length // 4).long().expand_as(ids).contiguous()
    given = {name: {IDS: ids, MASK: mask, TYPES: types}[name] for name in graph.inputs}
    session, arrays = open_session(path), {name: tensor.numpy() for name, tensor in given.items()}
    real = mask > 0
    with torch.inference_mode():
        before = dict(zip(graph.outputs, graph(*given.values()), strict=True))
        after = {
            name: torch.from_numpy(found)
            for name, found in zip(graph.outputs, session.run(list(graph.outputs), arrays), strict=True)
        }
        for found in (before, after):
            found[HIDDEN] = found[HIDDEN][real]
            if LOGITS in found and graph.per_token:
                found[LOGITS] = found[LOGITS][real]
        if not int8:
            difference = max(float((before[name] - after[name]).abs().max()) for name in graph.outputs)
        elif probabilities is not None:
            one, other = (probabilities(found[LOGITS]) for found in (before, after))
            difference = float((one - other).abs().mean())
        else:
            difference = float(1 - torch.cosine_similarity(before[HIDDEN], after[HIDDEN], dim=-1).mean())
        seconds = _timed(lambda: graph(*given.values())), _timed(lambda: session.run(None, arrays))
    if not difference <= (allowed := INT8_TOLERANCE if int8 else TOLERANCE):
        what = f"the graph differs from the network by {difference:.2g}, more than {allowed:g}"
        raise ModelError(what, where=loaded.folder, fix="Leave `int8` out" if int8 else "Report it")
    size = sum(tensor.nbytes for tensor in graph.state_dict().values())
    return Written(difference, size, path.stat().st_size, *seconds)


def _timed(run: Callable[[], object], rounds: int = 5) -> float:
    """The shortest of some runs, in seconds."""
    run()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """The exporters talk to the terminal of their inner workings."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
