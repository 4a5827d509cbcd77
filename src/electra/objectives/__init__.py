"""Pre-training objectives, one file each.

Every module of this folder (its sub-package `parts` aside) is an objective: it defines a frozen dataclass
`Config` and a class `Objective` (see `parts/interface.py`). Dropping a file in gives it a name on the command
line, a section in recipes, a row in the documentation and the contract tests. Nothing is registered by hand.
Installed packages and files elsewhere bring theirs as `electra.foundation.extensions` says.
"""

from __future__ import annotations

from typing import Any

from electra.foundation.config import build
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import OBJECTIVES
from electra.objectives.parts.corpus_counts import CorpusCounts
from electra.objectives.parts.interface import Objective


def names() -> list[str]:
    return OBJECTIVES.names()


def module_of(name: str) -> Any:
    """The module of a name, or of a path to a file."""
    module = OBJECTIVES.load(name)
    if not (isinstance(module.Objective, type) and issubclass(module.Objective, Objective)):
        raise ConfigError(
            "`Objective` does not subclass electra's Objective",
            where=module.__file__,
            fix="See docs/objectives.md",
        )
    return module


def create(
    options: dict[str, Any],
    *,
    vocab_size: int,
    specials: dict[str, int],
    statistics: CorpusCounts | None = None,
) -> Objective:
    """The objective that a recipe's [objective] section describes: its name and the options of its `Config`.

    `statistics` of the training text are needed by the options that ask for word frequencies or whole words.
    """
    module = module_of(str(options.get("name", "rtd")))
    config = build(
        module.Config, {key: value for key, value in options.items() if key != "name"}, where="objective"
    )
    objective: Objective = module.Objective(
        config, vocab_size=vocab_size, specials=specials, statistics=statistics
    )
    if getattr(config, "mask_fraction", 1) == 0 and not getattr(config, "final_mask_fraction", None):
        fix = "Give a share above 0"
        raise ConfigError("no token would be masked", key="objective.mask_fraction", fix=fix)
    if statistics is not None and getattr(config, "masking", None) == "whole_word":
        _ = statistics.continues  # refuses a tokenizer that does not mark them, before anything begins
    return objective
