"""The contract between a probe and the code that runs it.

A probe asks one question about models and answers it in `Findings`: plain numbers, and which of them make a
table, a figure or the headline.

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
    """Base class of all probes.

    The file of a probe defines a subclass named `Probe`, and a frozen dataclass `Config` with defaults for
    all options.
    """

    config: Any = field()

    title: ClassVar[str]
    question: ClassVar[str]
    """The question that the numbers answer, in plain words."""
    source: ClassVar[str]
    """Where the method, the data or the question comes from."""
    version: ClassVar[int]
    """Increase it whenever a change alters a number."""
    needs: ClassVar[tuple[Network, ...]]
    """The networks that every model must have. `model.optional(network)` gives others where they exist."""
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Headline number -> its value for a constant scorer, and for a perfect one."""

    @property
    def beside(self) -> tuple[Network, ...]:
        """Networks of which any one suffices, instead of `needs`, for each model after the first."""
        return ()

    @abstractmethod
    def inputs(self) -> tuple[Input, ...]:
        """Returns the data that the probe looks for."""

    @abstractmethod
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        """Runs the probe.

        Args:
            models: The model under study, then those it is compared with.
            data: The files of each input, by its key.
            progress: Receives the current activity and the fraction done.
        """

    def find(self, roots: Sequence[Path]) -> dict[str, list[Path]]:
        """Returns the files of each input that has any, by the input's key.

        Raises:
            ProbeDataError: A required input has none.
        """
        files = {item.key: item.find(roots) for item in self.inputs()}
        for item in self.inputs():
            if item.required and not files[item.key]:
                patterns = " or ".join(item.patterns)
                raise ProbeDataError(
                    f"no {item.what} found ({patterns})",
                    where=", ".join(map(str, roots)) or "data",
                    fix="Pass the folder that holds it",
                )
        return {key: paths for key, paths in files.items() if paths}
