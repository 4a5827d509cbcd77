"""The update on a GPU: shapes that never change, nothing read on the host, and so one CUDA graph.

A GPU that trains a small network waits for launches: ELECTRA-Small has hundreds of kernels an update. Here
the batch is copied into tensors that stay where they are, its slots are filled up to the largest number that
a batch can have, and the whole update (both networks, clipping, the optimizer) is captured once and replayed.
Whether the gradient was finite is read an update later; an update whose gradient was not is skipped by the
optimizer itself.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from electra.foundation.seeds import key
from electra.model.adapted import AdaptedEncoder
from electra.model.pair import Pair
from electra.model.precision import autocast
from electra.objectives.parts.interface import CorruptedBatch, Objective
from electra.objectives.parts.masking import MaskingObjective
from electra.training.optimizer import Optimizer
from electra.training.recipe import TrainingSection

WARM_UPS = 3  # updates before the capture: libraries allocate their workspaces in the first ones


@dataclass
class Enqueued:
    """An update that the device may not have finished."""

    step: int
    rate: float
    counts: dict[str, float]
    results: Tensor  # the gradient's norm and the summed losses, on the host once `done`
    done: torch.cuda.Event | None

    def read(self) -> list[float]:
        """Waits for the update, and returns the gradient's norm and the summed losses."""
        if self.done is not None:
            self.done.synchronize()
        values: list[float] = self.results.tolist()
        return values


def why_not(objective: Objective, pair: Pair, training: TrainingSection, processes: int) -> str | None:
    """Returns why a run's updates have no fixed shapes; None if they can have them."""
    if not (objective.fixed_shapes and isinstance(objective, MaskingObjective)):
        return "the shapes of this objective depend on the text"
    if processes > 1:
        return "several processes train together"
    if (training.micro_batch or training.batch_size) < training.batch_size:
        return "micro-batches share an update"
    if training.summation == "fixed" or not training.bias_correction:
        return "summation = fixed and bias_correction = false need the host"
    if any(isinstance(network.encoder, AdaptedEncoder) for network in pair.named.values()):
        return "an encoder runs through transformers"
    return None


class FixedUpdate:
    """Performs a run's updates in tensors that stay where they are; on CUDA as one graph if `graph`."""

    def __init__(  # noqa: PLR0917
        self,
        objective: Objective,
        pair: Pair,
        optimizer: Optimizer,
        training: TrainingSection,
        device: torch.device,
        precision: str,
        graph: bool,
    ) -> None:
        self.objective, self.pair, self.optimizer = objective, pair, optimizer
        self.device, self.precision, self.seed = device, precision, training.seed
        config, self.note = objective.config, ""
        fraction = max(config.mask_fraction, config.final_mask_fraction or 0.0)
        self.slots = training.batch_size * max(1, int(np.rint(training.length * fraction)))
        self.use_graph, self.updates = graph and device.type == "cuda", 0
        self.names = list(objective.weights)
        self.scales = torch.zeros(len(self.names), device=device)  # weight / count of each loss
        self.results = torch.zeros(1 + len(self.names), device=device)
        self.batch: CorruptedBatch | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream() if self.use_graph else None  # type: ignore[no-untyped-call]
        self.rates = torch.zeros(len(optimizer.param_groups), device=device)

    def enqueue(
        self, step: int, rate: float, corrupted: CorruptedBatch, counts: dict[str, float]
    ) -> Enqueued:
        """Starts the update at `step`, with the learning rate relative to its peak."""
        weights = self.objective.weights
        self._copy(corrupted.filled_up(self.slots))
        self.scales.copy_(torch.tensor([weights[name] / max(1.0, counts[name]) for name in self.names]))
        self.optimizer.set_rates(rate, self.rates)
        torch.manual_seed(key(self.seed, "dropout", step, 0))
        if self.graph is not None:
            self.graph.replay()
        elif self.stream is None:
            self.compute()
        else:
            self._warm_up(self.stream)
        self.updates += 1
        host = torch.empty_like(self.results, device="cpu", pin_memory=self.use_graph)
        host.copy_(self.results, non_blocking=True)
        done = torch.cuda.Event() if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]
        if done is not None:
            done.record()
        return Enqueued(step, rate, counts, host, done)

    def compute(self) -> None:
        """Everything the device does in an update; reads nothing on the host."""
        assert self.batch is not None
        self.optimizer.zero_grad()
        with autocast(self.device, self.precision):
            losses = self.objective.forward(self.pair, self.batch).losses
        summed = torch.stack([losses[name].float() for name in self.names])
        (summed * self.scales).sum().backward()  # type: ignore[no-untyped-call]
        norm = self.optimizer.clip()
        self.optimizer.step_if_finite(norm)
        self.results.copy_(torch.cat([norm[None], summed.detach()]))

    def _warm_up(self, stream: torch.cuda.Stream) -> None:
        """Computes an update on the stream of the capture, and after the last one captures the next."""
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.compute()
        torch.cuda.current_stream().wait_stream(stream)
        if self.updates + 1 == WARM_UPS:
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, stream=stream):
                    self.compute()
            except RuntimeError as error:
                self.note = f"no CUDA graph, so the update runs kernel by kernel: {error}"
            else:
                self.graph = graph

    def _copy(self, corrupted: CorruptedBatch) -> None:
        if self.batch is None:
            tensors = {name: value.to(self.device).clone() for name, value in _tensors(corrupted).items()}
            self.batch = replace(corrupted, **tensors)
            return
        for name, value in _tensors(corrupted).items():
            source = value.pin_memory() if self.use_graph else value
            getattr(self.batch, name).copy_(source, non_blocking=True)


def _tensors(corrupted: CorruptedBatch) -> dict[str, Any]:
    values = {field.name: getattr(corrupted, field.name) for field in fields(corrupted)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
