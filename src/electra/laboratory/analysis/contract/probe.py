"""The contract between a probe and whatever runs it.

A probe asks models one question about data and answers in `Findings`: plain numbers, and
which of them make a table, a figure or the headline.

    class Probe(contract.Probe):
        title, question, version = "Calibration", "Is P(replaced) a probability?", 1
        source = "Guo et al. 2017"
        needs = ("discriminator", "generator")

        def inputs(self) -> tuple[Input, ...]: ...
        def run(self, models, data, progress) -> Findings: ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from electra.foundation.progress import Progress
from electra.laboratory.analysis.contract.findings import Findings
from electra.laboratory.analysis.contract.inputs import Data, Input, ProbeDataError
from electra.laboratory.analysis.contract.models import Model, Network


@dataclass(frozen=True)
class Probe(ABC):
    """Subclass as `Probe` in one file, beside a frozen dataclass `Config` with a default for every option."""

    config: Any = field()

    title: ClassVar[str]
    question: ClassVar[str]
    """In plain words: what the numbers answer."""
    source: ClassVar[str]
    """Who asked, and where the method comes from."""
    version: ClassVar[int]
    """Goes up whenever a change alters a number."""
    needs: ClassVar[tuple[Network, ...]]
    """The networks that every model must have. What is only wanted, `model.optional(network)` gives."""
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Headline numbers that have a scale: what a scorer gets that says the same of everything, and what a
    perfect one gets.
    """

    @property
    def beside(self) -> tuple[Network, ...]:
        """A model that is compared with the first may take part with any one of these instead."""
        return ()

    @abstractmethod
    def inputs(self) -> tuple[Input, ...]:
        """The data it looks for."""

    @abstractmethod
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        """Ask. `models[0]` is the model that is asked about, the others are what it is compared with."""

    def find(self, roots: Sequence[Path]) -> dict[str, list[Path]]:
        """The files of each input; raises when a required one is absent."""
        found = {wanted.key: wanted.find(roots) for wanted in self.inputs()}
        for wanted in self.inputs():
            if wanted.required and not found[wanted.key]:
                told = " or ".join(wanted.patterns)
                raise ProbeDataError(
                    f"no {wanted.what} here ({told})",
                    where=", ".join(map(str, roots)) or "data",
                    fix="Give its folder",
                )
        return {key: paths for key, paths in found.items() if paths}
