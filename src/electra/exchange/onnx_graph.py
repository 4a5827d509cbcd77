"""Exports a network as an ONNX graph, and checks that both give the same outputs.

The result is a model folder with a graph instead of weights; onnx_session.py describes inputs and outputs.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electra.artifacts.model import CARD, CONFIG, ONNX, TASK, ModelFolder
from electra.exchange.configs import DEFAULT_THRESHOLD, ORIGINAL, OUTPUT, REPLACED, write_config
from electra.exchange.huggingface import require_replaceable, tokenizer_files
from electra.exchange.load import KIND_PHRASES, Loaded
from electra.exchange.onnx_session import HIDDEN, IDS, LOGITS, MASK, TYPES, open_session
from electra.exchange.pooling import vector_files
from electra.foundation import durable
from electra.foundation.errors import ModelError
from electra.foundation.machine import library
from electra.foundation.progress import doing

TOLERANCE = 1e-3  # maximum difference of any output; measured: 1e-5
ROWS, LENGTH = 16, 64  # shape of the batch on which graph and network are compared
README = """# {name}

A text encoder trained by replaced token detection{purpose}, as an ONNX graph, which `electra` runs with
`--backend onnx`. Inputs: {inputs}. Outputs: `hidden`, the states of the last layer, and, with a head,
`logits`; those of a discriminator are of the labels ORIGINAL and REPLACED; their softmax is the probability.
"""


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

    Returns the largest difference between the outputs of the graph and the network.

    Raises:
        ModelError: the network is fine-tuned, the graph's outputs differ from its own, or `out` cannot be
            written.
        ConfigError: a library that this needs is not installed.
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
    is_discriminator = loaded.kind == "discriminator"
    labels = (ORIGINAL, REPLACED) if is_discriminator else ()  # programs that read the graph see a tagger
    config = write_config(
        loaded.config, "tagger" if is_discriminator else "encoder", labels, "float32",
        loaded.tokenizer.specials,
        threshold=loaded.threshold if is_discriminator and loaded.threshold != DEFAULT_THRESHOLD else None,
        further={OUTPUT: loaded.output} if is_discriminator else {},
    )  # fmt: skip
    graph = Graph(loaded.encoder, loaded.head if is_discriminator else None)
    return commit_graph(loaded, graph, out, config)


def commit_graph(  # noqa: PLR0917
    loaded: Loaded,
    graph: Graph,
    out: Path,
    settings: Mapping[str, Any],
    purpose: str = "",
    further: Mapping[str, durable.Content] = {},
) -> float:
    """Traces and checks `graph`, then writes it as a model folder with the config.json `settings`.

    `purpose` is what the card says of a fine-tuned model, and `further` has its other files. Returns the
    largest difference between the outputs of the graph and the network.

    Raises:
        ModelError: the graph's outputs differ from the network's, or `out` cannot be written.
        ConfigError: a library that this needs is not installed.
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
            CARD: README.format(name=out.resolve().name, purpose=purpose, inputs=inputs).encode(),
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
