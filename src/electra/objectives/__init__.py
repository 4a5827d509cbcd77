"""Pre-training objectives, one file each.

Every module of this folder (its sub-package `parts` aside) is an objective: it defines a frozen dataclass
`Config` and a class `Objective` (see `parts/interface.py`). Dropping a file in gives it a name on the command
line, a section in recipes, a row in the documentation and the contract tests. Nothing is registered by hand.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from typing import Any

from electra.config import build
from electra.errors import ConfigError, nearest
from electra.objectives.parts.interface import Objective
from electra.objectives.parts.statistics import Statistics


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def module_of(name: str) -> Any:
    if name not in names():
        raise ConfigError(f"no objective named {name!r}", where="objective.name", fix=nearest(name, names()))
    return importlib.import_module(f"{__name__}.{name}")


def create(
    options: dict[str, Any],
    *,
    vocab_size: int,
    specials: dict[str, int],
    statistics: Statistics | None = None,
) -> Objective:
    """The objective that a recipe's [objective] section describes: its name and the options of its `Config`.

    `statistics` of the training text are needed by the options that ask for word frequencies or whole words.
    """
    module = module_of(str(options.get("name", "rtd")))
    config = build(
        module.Config, {key: value for key, value in options.items() if key != "name"}, where="objective"
    )
    for key, value in vars(config).items():
        if key.endswith(("_fraction", "_share")) and value is not None and not 0 <= value <= 1:
            raise ConfigError(f"must be a share from 0 to 1, not {value}", where=f"objective.{key}")
        if key.endswith("_weight") and not 0 <= value < math.inf:
            raise ConfigError(f"must be a number from 0, not {value}", where=f"objective.{key}")
    objective: Objective = module.Objective(
        config, vocab_size=vocab_size, specials=specials, statistics=statistics
    )
    if statistics is not None and getattr(config, "masking", None) == "whole_word":
        _ = statistics.continues  # refuses a tokenizer that does not mark them, before anything begins
    return objective
