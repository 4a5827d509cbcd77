"""Runs ONNX graphs with onnxruntime: model folders with a graph, ours or another program's.

Shapes: B texts, T tokens, D hidden size; B and T are dynamic. Inputs: input_ids, attention_mask and, for some
models, token_type_ids, all [B, T]. Outputs: hidden (elsewhere last_hidden_state, or another name) [B, T, D]
and, with a head, logits; a discriminator's are 0 and the log-odds [B, T, 2], or the log-odds alone [B, T].
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.artifacts.model import ONNX, ModelFolder
from electra.data.tokenizer import Tokenizer
from electra.exchange.configs import FolderConfig, read_config
from electra.exchange.load import Loaded, absent, require_entries
from electra.exchange.pooling import MEAN, read_text_vector
from electra.exchange.weight_names import Kind
from electra.foundation import durable
from electra.foundation.errors import ModelError, reason_of
from electra.foundation.machine import library
from electra.model.encoder import PLAIN, Encoder, Variation
from electra.model.precision import finite
from electra.model.sizes import EncoderConfig

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
HIDDEN, LOGITS = "hidden", "logits"
STATES = (HIDDEN, "last_hidden_state", "token_embeddings")  # names of the states in graphs of any program
REEXPORT = "Export it again"


def load_onnx(folder: Path, network: Kind) -> Loaded:
    """Loads the model folder of a graph; as the kind of network, "encoder" accepts any.

    Raises:
        AbsentNetwork: the graph is of another kind.
        ModelError: the graph is missing or damaged, or does not match its config.json.
        ConfigError: onnxruntime is not installed.
    """
    model = ModelFolder(folder)
    graphs = model.graphs
    if not graphs:
        fix = "Create it: electra export MODEL --format onnx --out FOLDER"
        raise ModelError(f"no {ONNX}", where=folder, fix=fix)
    if graphs[1:]:
        names = " and ".join(str(graph.relative_to(folder)) for graph in graphs[:3])
        raise ModelError(f"several graphs, {names}", where=folder, fix=f"Rename the one to run to {ONNX}")
    if (folder / durable.MANIFEST).is_file() and (damage := model.damage_of_graph()):
        raise ModelError(damage, where=folder, fix=REEXPORT)
    folder_config = read_config(folder)
    session = open_session(graphs[0])
    if network not in (folder_config.kind, "encoder"):
        raise absent(folder_config, network, folder)
    encoder = OnnxEncoder(folder_config.encoder, session, graphs[0])
    tokenizer, text_vector = Tokenizer.load(folder), read_text_vector(folder) or MEAN
    _check_graph(encoder, folder_config, tokenizer, folder)
    return OnnxLoaded(
        encoder, None, folder_config.encoder, tokenizer, folder_config.kind, folder_config.labels, folder,
        text_vector=text_vector, output=folder_config.output, threshold=folder_config.threshold,
    )  # fmt: skip


class OnnxEncoder(Encoder):
    """An encoder that is computed by an ONNX graph and has no weights in PyTorch."""

    def __init__(self, config: EncoderConfig, session: Any, path: Path) -> None:
        super().__init__()
        self.config, self.session, self.path = config, session, path
        self.inputs = {each.name: each.type for each in session.get_inputs()}
        shapes = {each.name: each.shape or () for each in session.get_outputs()}
        self.outputs = {LOGITS: LOGITS} if shapes.pop(LOGITS, None) is not None else {}
        named = [name for name in STATES if name in shapes]
        named += [name for name, shape in shapes.items() if [*shape][2:] == [config.hidden_size]]
        self.outputs |= {HIDDEN: named[0]} if named else {}  # our names of the outputs -> the graph's
        self.device_marker = nn.Parameter(torch.empty(0))  # gives the module a device

    @override
    def token_table(self) -> Tensor:
        raise ModelError(
            "an ONNX graph has no accessible token table", fix="Use the model it was exported from"
        )

    @override
    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        document_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        variation: Variation = PLAIN,
    ) -> Tensor:
        return torch.from_numpy(self.run(HIDDEN, input_ids, document_ids, token_type_ids))

    def run(
        self,
        output: str,
        input_ids: Tensor,
        document_ids: Tensor | None,
        token_type_ids: Tensor | None = None,
    ) -> npt.NDArray[np.float32]:
        """Computes one output of the graph, HIDDEN [B, T, D] or LOGITS [B, ...]. Raises ModelError.

        `document_ids` [B, T] are 0 at tokens and -1 at padding (None: no padding).
        """
        arrays = {
            IDS: input_ids,
            MASK: torch.ones_like(input_ids) if document_ids is None else document_ids + 1,
            TYPES: torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids,
        }
        if unknown := sorted(set(self.inputs) - arrays.keys()):
            raise ModelError(f"the graph has an unknown input {unknown[0]!r}", where=self.path, fix=REEXPORT)
        if output not in self.outputs:
            names = ", ".join(each.name for each in self.session.get_outputs())
            fix = "Use a graph that gives the states of the last layer, last_hidden_state"
            raise ModelError(f"the graph has no output {output!r}, only {names}", where=self.path, fix=fix)
        dtypes = {"tensor(int32)": np.int32}  # as some programs write; others have int64
        given = {name: arrays[name].numpy() for name in self.inputs}
        given = {name: given[name].astype(dtypes.get(kind, np.int64)) for name, kind in self.inputs.items()}
        try:
            [result] = self.session.run([self.outputs[output]], given)
        except Exception as error:  # the library has a dozen exception classes without a common base
            problem = f"the graph cannot compute {output!r} ({reason_of(error)})"
            raise ModelError(problem, where=self.path, fix=REEXPORT) from None
        return np.asarray(result, np.float32)


def _check_graph(
    encoder: OnnxEncoder, folder_config: FolderConfig, tokenizer: Tokenizer, folder: Path
) -> None:
    """Runs the graph once, on the last token id. Raises ModelError if it does not match its config.json."""
    require_entries(tokenizer, encoder.config, folder)
    kind, num_labels = folder_config.kind, len(folder_config.labels)
    ids = torch.full((2, 3), tokenizer.vocab_size - 1)
    shapes: dict[Kind, list[list[int]]] = {"discriminator": [[2, 3, 2], [2, 3]], "reader": [[2, 3, 2]]}
    if num_labels:
        shapes |= {"classifier": [[2, num_labels]], "tagger": [[2, 3, num_labels]]}
    expected = {LOGITS: shapes[kind]} if kind in shapes else {}
    if not expected or HIDDEN in encoder.outputs:  # another program's graph of a head has logits alone
        expected[HIDDEN] = [[2, 3, encoder.config.hidden_size]]
    for output, allowed in expected.items():
        result = encoder.run(output, ids, torch.zeros_like(ids))
        shape = list(result.shape)
        problem = "" if shape in allowed else f"the shape {shape}, expected {allowed[0]}"
        if not np.isfinite(result).all():
            problem = "values that are not finite numbers"
        if problem:
            raise ModelError(f"the graph's {output!r} has {problem}", where=encoder.path, fix=REEXPORT)


class OnnxLoaded(Loaded):
    """A loaded model whose encoder is an `OnnxEncoder`."""

    @override
    def logits(self, input_ids: Tensor, document_ids: Tensor | None = None) -> Tensor:
        assert isinstance(self.encoder, OnnxEncoder)
        logits = finite(torch.from_numpy(self.encoder.run(LOGITS, input_ids, document_ids)))
        return logits[..., 1] - logits[..., 0] if logits.ndim == 3 else logits


def open_session(path: Path) -> Any:
    """Opens a session on the CPU with PyTorch's number of threads.

    Raises:
        ModelError: the graph is damaged.
        ConfigError: onnxruntime is not installed.
    """
    runtime = library("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 4
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library has a dozen exception classes without a common base
        problem = f"onnxruntime cannot open the graph ({reason_of(error)})"
        raise ModelError(problem, where=path, fix=REEXPORT) from None
