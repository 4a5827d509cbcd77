"""Options that several commands have, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from electra.foundation.machine import OnDevice

Backend = Literal["torch", "onnx"]


@dataclass(frozen=True, kw_only=True)
class OnBackend(OnDevice):
    """Where it runs."""

    HEADING: ClassVar[str] = "Where it runs"

    backend: Backend = "torch"
    """What computes: onnx runs a folder of `electra export --format onnx`, on the CPU."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """How many processes train."""

    processes: int = 1
    """Processes on this machine that share each batch: one for each GPU. On a CPU threads do as well. Across
    machines, use torchrun.
    """


@dataclass(frozen=True, kw_only=True)
class Workers:
    """How many processes encode."""

    workers: int | None = None
    """Processes that encode the corpus (default: all cores)."""
