"""Copies of the networks of a run or pair, and of the included models as docs/make_included.py makes them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from electra.artifacts.model import Dtype
from electra.exchange.convert import export
from electra.exchange.load import load
from electra.exchange.run_folder import network_kinds
from electra.exchange.source import locate

_FILE = Path(__file__).parents[2] / "docs" / "make_included.py"
_SPEC = importlib.util.spec_from_file_location("make_included", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
make_included = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make_included)


def copy_networks(source: str | Path, out: Path, dtype: Dtype = "float32") -> Path:
    """Exports the discriminator and the generator of `source` to subfolders of `out`."""
    for kind in network_kinds(locate(source)):
        export(load(source, kind), out / kind, source, dtype=dtype)
    return out
