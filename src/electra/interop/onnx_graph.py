"""A discriminator or an encoder as an ONNX graph: written by torch's exporter, run by onnxruntime.

The folder is a model folder with a graph in the place of weights. Shapes: B texts, T tokens, D hidden size;
B and T are free. Inputs: input_ids and attention_mask [B, T]. Outputs: hidden [B, T, D], and of a
discriminator logits [B, T].
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from electra import durable
from electra.artifacts.model import CARD, CONFIG, ONNX, ModelFolder
from electra.data.tokenizer import Tokenizer
from electra.errors import AbsentNetwork, ConfigError, ModelError
from electra.interop.configs import OUTPUT, read_config, write_config
from electra.interop.huggingface import refuse_foreign_folder, tokenizer_files
from electra.interop.load import NEEDS, Loaded
from electra.interop.names import Kind
from electra.interop.pooling import pooling_files, read_pooling
from electra.model.encoder import PLAIN, Encoder, Variation
from electra.model.sizes import EncoderConfig

HIDDEN, LOGITS = "hidden", "logits"
KINDS = ("discriminator", "encoder")
TOLERANCE = 1e-3  # of every output in fp32; measured: 1e-5
INT8_TOLERANCE = 0.05  # of int8: the mean difference of P(replaced), or one minus the vectors' cosine
README = """# {name}

The {kind} of a text encoder trained by replaced token detection, as an ONNX graph. `electra detect` and
`electra embed` run it with `--backend onnx`. Inputs: `input_ids` and `attention_mask`. Outputs: `hidden` and,
of a discriminator, `logits`, the log-odds that a token was replaced.
"""


@dataclass(frozen=True)
class Written:
    """How a graph compares with the network that it was made of."""

    difference: float  # the largest of any output; of int8 the mean one of P(replaced), or 1 - cosine
    bytes_before: int
    bytes_after: int
    seconds_before: float  # of one pass of 16 rows of 64 tokens
    seconds_after: float

    def __str__(self) -> str:
        faster = self.seconds_before / self.seconds_after
        return (
            f"difference {self.difference:.2g}; {self.bytes_after / 2**20:.1f} MiB beside"
            f" {self.bytes_before / 2**20:.1f}; {1000 * self.seconds_after:.1f} ms a pass of 16 x 64 tokens"
            f" beside {1000 * self.seconds_before:.1f} in PyTorch ({faster:.1f} times as fast)"
        )


class _Graph(nn.Module):
    def __init__(self, loaded: Loaded) -> None:
        super().__init__()
        self.encoder = loaded.encoder
        self.head = loaded.head if loaded.kind == "discriminator" else None

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        hidden_BTD = self.encoder(input_ids, piece_ids=attention_mask - 1)
        return (hidden_BTD,) if self.head is None else (hidden_BTD, self.head(hidden_BTD))


def write_onnx(loaded: Loaded, out: Path, *, int8: bool = False) -> Written:
    """Write `loaded` as a folder with a graph, if the graph computes the same.

    int8: store and multiply weights as 8-bit integers.
    Raises ModelError where it does not, and for networks of another kind than KINDS.
    """
    if loaded.kind not in KINDS:
        what = f"this is {NEEDS[loaded.kind]}; a discriminator or an encoder can be exported as ONNX"
        raise ModelError(what, where=loaded.folder)
    refuse_foreign_folder(out, (ONNX,))
    with tempfile.TemporaryDirectory(prefix="electra-") as folder:
        plain = made = Path(folder) / ONNX
        _trace(_Graph(loaded).eval(), loaded.config, plain)
        if int8:
            made = _quantize(plain, Path(folder) / "int8.onnx")
        written = _compare(loaded, made, int8)
        specials = loaded.tokenizer.specials
        config = write_config(
            loaded.config, loaded.kind, loaded.labels, "float32", {"cls": specials.cls, "sep": specials.sep}
        ) | {OUTPUT: loaded.output}
        files: dict[str, durable.Content] = {
            CONFIG: durable.to_json(config),
            **tokenizer_files(
                loaded.tokenizer, loaded.config.architecture, loaded.config.max_positions, loaded.kind
            ),
            **pooling_files(loaded.pooling, loaded.config.hidden_size),
            ONNX: made.read_bytes(),
            CARD: README.format(name=out.resolve().name, kind=loaded.kind).encode(),
        }
        durable.commit_directory(out, files)
    return written


def load_onnx(folder: Path, network: Kind) -> Loaded:
    """The graph of a folder, ready for use. Raises ModelError where there is none, or a damaged one."""
    model = ModelFolder(folder)
    if not model.onnx.is_file():
        fix = "Make one: electra export MODEL --format onnx --out FOLDER"
        raise ModelError(f"no {ONNX} here", where=folder, fix=fix)
    damage = durable.verify_directory(folder)
    if damage:
        raise ModelError(damage, where=folder, fix="Export it again")
    described = read_config(folder)
    if network not in (described.kind, "encoder"):
        what = f"this is {NEEDS.get(described.kind, 'an encoder')}, and {NEEDS[network]} is needed"
        raise AbsentNetwork(what, where=folder)
    encoder = OnnxEncoder(described.encoder, _session(model.onnx))
    tokenizer = Tokenizer.load(folder)
    return OnnxLoaded(
        encoder, None, described.encoder, tokenizer, described.kind, described.labels, folder,
        pooling=read_pooling(model) or "mean", output=described.output,
    )  # fmt: skip


class OnnxEncoder(Encoder):
    """Computes what the encoder it was made of computes; without weights of its own."""

    def __init__(self, config: EncoderConfig, session: Any) -> None:
        super().__init__()
        self.config, self.session = config, session
        self.nothing = nn.Parameter(torch.empty(0))  # whose device is asked for

    def token_table(self) -> Tensor:
        raise ModelError(
            "an ONNX graph has no table of tokens to hand out", fix="Use the model it is made of"
        )

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        piece_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        variation: Variation = PLAIN,
    ) -> Tensor:
        return torch.from_numpy(self.run(HIDDEN, input_ids, piece_ids))

    def run(self, output: str, input_ids: Tensor, piece_ids: Tensor | None) -> npt.NDArray[np.float32]:
        mask = torch.ones_like(input_ids) if piece_ids is None else piece_ids + 1
        given = {"input_ids": input_ids.numpy(), "attention_mask": mask.numpy()}
        found: npt.NDArray[np.float32] = self.session.run([output], given)[0]
        return found


class OnnxLoaded(Loaded):
    def logits(self, input_ids: Tensor, piece_ids: Tensor | None = None) -> Tensor:
        assert isinstance(self.encoder, OnnxEncoder)
        return torch.from_numpy(self.encoder.run(LOGITS, input_ids, piece_ids))


def _trace(graph: nn.Module, config: EncoderConfig, path: Path) -> None:
    _installed("onnxscript")
    ids = torch.full((2, 8), config.pad_id)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    free = {
        0: torch.export.Dim("batch", max=1 << 16),
        1: torch.export.Dim("tokens", min=2, max=config.max_positions),
    }
    outputs = [HIDDEN] if getattr(graph, "head", None) is None else [HIDDEN, LOGITS]
    with torch.no_grad(), _quietly():
        program = torch.onnx.export(
            graph, (ids, mask), dynamo=True, verbose=False, dynamic_shapes=(free, free),
            input_names=["input_ids", "attention_mask"], output_names=outputs,
        )  # fmt: skip
        assert program is not None
        program.save(str(path))


def _quantize(plain: Path, made: Path) -> Path:
    _installed("onnxruntime")
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quietly():
        quantize_dynamic(plain, made, weight_type=QuantType.QInt8, per_channel=True)
    return made


def _compare(loaded: Loaded, path: Path, int8: bool) -> Written:
    """Run both on padded rows of random tokens."""
    draw = torch.Generator().manual_seed(0)
    length = min(64, loaded.config.max_positions)
    ids = torch.randint(0, loaded.tokenizer.vocab_size, (16, length), generator=draw)
    pieces = torch.zeros_like(ids)
    pieces[8:, length // 2 :] = -1
    real = pieces >= 0
    encoder = OnnxEncoder(loaded.config, _session(path))
    with torch.inference_mode():
        before, after = loaded.encoder(ids, piece_ids=pieces)[real], encoder(ids, piece_ids=pieces)[real]
        difference = float((before - after).abs().max())
        if loaded.kind == "discriminator":
            logits = (
                loaded.logits(ids, pieces)[real],
                torch.from_numpy(encoder.run(LOGITS, ids, pieces))[real],
            )
            difference = max(difference, float((logits[0] - logits[1]).abs().max()))
        if int8 and loaded.kind == "discriminator":
            difference = float((logits[0].sigmoid() - logits[1].sigmoid()).abs().mean())
        elif int8:
            difference = float(1 - torch.cosine_similarity(before, after, dim=-1).mean())
        seconds = [_timed(lambda run=run: run(ids, piece_ids=pieces)) for run in (loaded.encoder, encoder)]  # type: ignore[misc]
    if not difference <= (allowed := INT8_TOLERANCE if int8 else TOLERANCE):
        what = f"the graph differs from the network by {difference:.2g}, more than {allowed:g}"
        raise ModelError(what, where=loaded.folder, fix="Leave `int8` out" if int8 else "Report it")
    size = sum(tensor.nbytes for tensor in _Graph(loaded).state_dict().values())
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


def _session(path: Path) -> Any:
    runtime = _installed("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 4
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as problem:  # the library raises a dozen kinds of its own
        what = f"not a graph that onnxruntime can run ({str(problem).splitlines()[0]})"
        raise ModelError(what, where=path, fix="Export it again") from None


def _installed(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(f"{name} is not installed", fix='Install it: pip install "electra[onnx]"') from None


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
