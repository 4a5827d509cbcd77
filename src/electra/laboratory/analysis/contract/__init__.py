"""The contract of probes: the models and data that they receive, their findings, and their records."""

from electra.foundation.progress import Progress
from electra.laboratory.analysis.contract.findings import Cell, Estimate, Findings, as_json
from electra.laboratory.analysis.contract.probe import Data, Input, Probe, ProbeDataError
from electra.laboratory.analysis.contract.studied_models import Network, StudiedModel, named_models

__all__ = [
    "Cell", "Data", "Estimate", "Findings", "Input", "Network", "Probe", "ProbeDataError", "Progress",
    "StudiedModel", "as_json", "named_models",
]  # fmt: skip
