"""Copies of networks of a run or pair, and of included models as docs/site/make_included.py makes them."""

import importlib.util
from pathlib import Path
from typing import Any

from electra.artifacts.model_files import Dtype
from electra.exchange.huggingface import export
from electra.exchange.load import load
from electra.exchange.run_folder import network_kinds
from electra.exchange.source import locate

ROOT = Path(__file__).parents[2]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def _module(file: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(file).stem, ROOT / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_included, from_pickle = _module("docs/site/make_included.py"), _module("examples/from_pickle.py")


def copy_networks(source: str | Path, out: Path, dtype: Dtype = "float32") -> Path:
    """Exports the discriminator and the generator of `source` to subfolders of `out`."""
    for kind in network_kinds(locate(source)):
        export(load(source, kind), out / kind, source, dtype=dtype)
    return out
