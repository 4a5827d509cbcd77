"""Networks as ONNX graphs: exports them, checks that both give the same outputs, and runs them.

A graph is in a model folder, instead of weights; that of another program is run too. Shapes: B texts, T
tokens, D hidden size; B and T are dynamic. Inputs: input_ids, attention_mask and, for some models,
token_type_ids, all [B, T]. Outputs: hidden (elsewhere last_hidden_state, or another name) [B, T, D] and, with
a head, logits; those of a discriminator are 0 and the log-odds [B, T, 2], or the log-odds alone [B, T].
"""

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.artifacts.model_files import CARD, CONFIG, ONNX, TASK, ModelFolder
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.configs import (
    DEFAULT_THRESHOLD,
    ORIGINAL,
    OUTPUT,
    REPLACED,
    FolderConfig,
    read_config,
    write_config,
)
from electra.exchange.huggingface import require_replaceable, tokenizer_files
from electra.exchange.load import KIND_PHRASES, Loaded, absent, require_entries
from electra.exchange.pooling import MEAN, read_text_vector, vector_files
from electra.exchange.weight_names import Kind
from electra.foundation import durable
from electra.foundation.errors import ModelError, translated
from electra.foundation.machine import library
from electra.foundation.progress import doing
from electra.model.encoder import PLAIN, Encoder, Variation
from electra.model.precision import finite
from electra.model.sizes import EncoderConfig

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
HIDDEN, LOGITS = "hidden", "logits"
STATES = (HIDDEN, "last_hidden_state", "token_embeddings")  # names of the states in graphs of any program
REEXPORT = "Export it again"
TOLERANCE = 1e-3  # maximum difference of any output; measured: 1e-5
ROWS, LENGTH = 16, 64  # shape of the batch on which graph and network are compared
README = Template(Path(__file__).with_name("onnx_card.md").read_text(encoding="utf-8"))


class Graph(nn.Module):
    """The module to trace: returns hidden [B, T, D] and, with a head, logits for token ids [B, T].

    `types` says whether token types are an input of the graph.
    """

    per_token = True  # logits are [B, T, ...], otherwise [B, ...]

    def __init__(self, encoder: nn.Module, head: nn.Module | None = None, *, types: bool = False) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.inputs = (IDS, MASK, TYPES) if types else (IDS, MASK)
        self.outputs = (HIDDEN,) if head is None else (HIDDEN, LOGITS)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Returns hidden [B, T, D] and, with a head, its logits. `attention_mask` [B, T] is 1 at tokens."""
        hidden_BTD = self.encoder(input_ids, document_ids=attention_mask - 1, token_type_ids=token_type_ids)
        if self.head is None:
            return (hidden_BTD,)
        return hidden_BTD, self.logits(hidden_BTD, attention_mask, token_type_ids)

    def logits(self, hidden_BTD: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """Returns the head's logits for hidden states [B, T, D], in the shape that `per_token` states."""
        assert self.head is not None
        log_odds_BT = torch.as_tensor(self.head(hidden_BTD))
        return torch.stack([torch.zeros_like(log_odds_BT), log_odds_BT], -1)


def write_onnx(loaded: Loaded, out: Path) -> float:
    """Writes a discriminator or an encoder (also that of a generator) as a folder with an ONNX graph.

    Returns the largest difference between the outputs of the graph and the network. Raises ModelError if the
    network is fine-tuned, the graph's outputs differ from its own, or `out` cannot be written; and
    ConfigError if a library that this needs is not installed.
    """
    if loaded.kind == "generator":  # neither detection nor embedding needs its output layer
        loaded = replace(loaded, kind="encoder", head=None)
    if loaded.kind not in ("discriminator", "encoder"):
        phrase = KIND_PHRASES[loaded.kind]
        problem = f"this is {phrase}; only discriminators and encoders can be exported here"
        raise ModelError(problem, where=loaded.folder)
    if loaded.config.settings:
        problem = "encoders that run through transformers are not exported here"
        raise ModelError(problem, where=loaded.folder, fix="Use optimum-cli export onnx")
    kind: Kind = "encoder"
    labels: tuple[str, ...] = ()
    further: dict[str, Any] = {}
    if loaded.kind == "discriminator":  # programs that read the graph see a tagger
        kind, labels, further = "tagger", (ORIGINAL, REPLACED), {OUTPUT: loaded.output}
    threshold = loaded.threshold if further and loaded.threshold != DEFAULT_THRESHOLD else None
    specials = loaded.tokenizer.specials
    settings = write_config(loaded.config, kind, labels, "float32", specials, threshold=threshold, further=further)
    return commit_graph(loaded, Graph(loaded.encoder, loaded.head), out, settings)


def commit_graph(  # noqa: PLR0917
    loaded: Loaded,
    graph: Graph,
    out: Path,
    settings: Mapping[str, Any],
    purpose: str = "",
    further: Mapping[str, durable.Content] = {},
) -> float:
    """Traces and checks `graph`, then writes it as a model folder with the config.json `settings`.

    `purpose` is what the card says of a fine-tuned model, and `further` has its other files. Returns and
    raises as `write_onnx`.
    """
    require_replaceable(out, (ONNX, TASK))
    if ModelFolder(out).weights.is_file():
        problem = "the folder contains a model with weights, which the graph would replace"
        raise ModelError(problem, where=out, fix="Choose another `out`")
    with tempfile.TemporaryDirectory(prefix="electra-") as folder:
        path = Path(folder) / ONNX
        doing("tracing the graph")
        _trace(graph.eval(), loaded, path)
        doing("comparing the graph with the model")
        difference = _compare(loaded, graph, path)
        inputs = ", ".join(f"`{name}`" for name in graph.inputs)
        files: dict[str, durable.Content] = {
            **vector_files(loaded.text_vector, loaded.config.hidden_size),
            **tokenizer_files(loaded, loaded.config.max_positions),
            ONNX: path.read_bytes(),
            CONFIG: durable.to_json(settings),
            CARD: README.substitute(name=out.resolve().name, purpose=purpose, inputs=inputs).encode(),
        }
        durable.commit_directory(out, {**files, **further})
    return difference


def _trace(graph: Graph, loaded: Loaded, path: Path) -> None:
    """Saves `graph` at `path` in ONNX format, with any number of texts and tokens."""
    library("onnxscript", "onnx")
    ids = torch.full((2, 8), loaded.config.pad_id)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    inputs = {IDS: ids, MASK: mask, TYPES: torch.zeros_like(ids)}
    dynamic_dims = {
        0: torch.export.Dim("batch", max=1 << 16),
        1: torch.export.Dim("tokens", min=2, max=loaded.config.max_positions),
    }
    logging_level = logging.root.manager.disable
    with contextlib.ExitStack() as quiet:  # the exporter prints, logs and warns
        quiet.enter_context(torch.no_grad())
        quiet.enter_context(warnings.catch_warnings(action="ignore"))
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.callback(logging.disable, logging_level)
        logging.disable(logging.ERROR)
        program = torch.onnx.export(
            graph, tuple(inputs[name] for name in graph.inputs), dynamo=True, verbose=False,
            dynamic_shapes=tuple(dynamic_dims for _ in graph.inputs),
            input_names=list(graph.inputs), output_names=list(graph.outputs),
        )  # fmt: skip
        assert program is not None
        made: Any = program.model.graph
        parts: list[Any] = [made, *made.all_nodes(), *made.initializers.values()]
        for part in parts:
            part.metadata_props.clear()  # source code of each node, with paths of this machine
        with durable.explain_disk_errors(path):
            program.save(str(path))


def _compare(loaded: Loaded, graph: Graph, path: Path) -> float:
    """Returns the largest difference on padded rows of random tokens. Raises ModelError above TOLERANCE."""
    rng = torch.Generator().manual_seed(0)
    length = min(LENGTH, loaded.config.max_positions)
    ids = torch.randint(0, loaded.tokenizer.vocab_size, (ROWS, length), generator=rng)
    mask = torch.ones_like(ids)
    mask[ROWS // 2 :, length // 2 :] = 0
    types = (torch.arange(length) > length // 4).long().expand_as(ids).contiguous()
    inputs = {name: {IDS: ids, MASK: mask, TYPES: types}[name] for name in graph.inputs}
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    with torch.inference_mode():
        expected = graph(*inputs.values())
    actual = open_session(path).run(list(graph.outputs), arrays)
    largest = []
    for name, ours, theirs in zip(graph.outputs, expected, actual, strict=True):
        differences = (ours - torch.from_numpy(theirs)).abs()
        per_token = name == HIDDEN or graph.per_token
        largest.append((differences[mask > 0] if per_token else differences).max())
    difference = float(torch.stack(largest).max())  # NaN if any is
    if not difference <= TOLERANCE:
        problem = f"the graph differs from the network by {difference:.2g}; the tolerance is {TOLERANCE:g}"
        raise ModelError(problem, where=loaded.folder, fix="Please report this")
    return difference


def load_onnx(folder: Path, network: Kind) -> Loaded:
    """Loads the model folder of a graph; as the kind of network, "encoder" accepts any.

    Raises AbsentNetwork if it is of another kind, ModelError if it is missing, damaged or unlike config.json.
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
        problem = "an ONNX graph has no accessible token table"
        raise ModelError(problem, fix="Use the model it was exported from")

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
        problem = f"the graph cannot compute {output!r}"
        with translated(ModelError, problem, where=self.path, fix=REEXPORT):
            [result] = self.session.run([self.outputs[output]], given)
        return np.asarray(result, np.float32)


def _check_graph(encoder: OnnxEncoder, config: FolderConfig, tokenizer: Tokenizer, folder: Path) -> None:
    """Runs the graph once, on the last token id. Raises ModelError if it does not match its config.json."""
    require_entries(tokenizer, encoder.config, folder)
    kind, num_labels = config.kind, len(config.labels)
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
    """Opens a session on the CPU with one thread: threads that share out batches use it at the same time.

    Raises ModelError if the graph is damaged, and ConfigError if onnxruntime is not installed.
    """
    runtime = library("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    with translated(ModelError, "onnxruntime cannot open the graph", where=path, fix=REEXPORT):
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
