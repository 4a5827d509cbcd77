"""What a probe is given, what it returns, and what is kept of it."""

from electra.analysis.contract.inputs import Data, Input, ProbeDataError
from electra.analysis.contract.models import Model, Network, named_models, require_same_vocabulary
from electra.analysis.contract.probe import Probe, Progress
from electra.analysis.contract.result import Cell, Estimate, Figure, Report, Series, Table, as_json

__all__ = [
    "Cell",
    "Data",
    "Estimate",
    "Figure",
    "Input",
    "Model",
    "Network",
    "Probe",
    "ProbeDataError",
    "Progress",
    "Report",
    "Series",
    "Table",
    "as_json",
    "named_models",
    "require_same_vocabulary",
]
