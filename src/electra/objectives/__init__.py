"""Pre-training objectives, one file each.

Every module of this folder is an objective: it defines a frozen dataclass `Config` and a class `Objective`
(see `parts/interface.py`). A new file here gets a name on the command line, a section in recipes, a row in
the documentation and the contract tests; nothing is registered by hand. Objectives can also come from
files elsewhere (`electra.foundation.extensions`).
"""

from typing import Any

from electra.foundation.config import build
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import OBJECTIVES
from electra.objectives.parts.interface import Objective


def module_of(name: str) -> Any:
    """Imports the module of an objective by name or by path; ConfigError if there is none."""
    return OBJECTIVES.load_as(name, "Objective", Objective, fix="See docs/write-an-objective.md")


def create(options: dict[str, Any], **given: Any) -> Objective:
    """Builds the objective that a recipe's [objective] section describes: `name` and options of its `Config`.

    `given` are the other arguments of `Objective`. Raises ConfigError for an unknown objective or option, or
    an invalid value.
    """
    module = module_of(str(options.get("name", "rtd")))
    values = {key: value for key, value in options.items() if key != "name"}
    config = build(module.Config, values, where="objective")
    objective: Objective = module.Objective(config, **given)
    if getattr(config, "mask_fraction", 1) == 0 and not getattr(config, "final_mask_fraction", None):
        fix = "Use a fraction above 0"
        raise ConfigError("no token would be masked", key="objective.mask_fraction", fix=fix)
    return objective
