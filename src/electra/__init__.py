"""Train text encoders by replaced token detection, from your own text, on the hardware you have.

    import electra

    store = electra.prepare("texts/", out="store", vocab_size=8192)
    run = electra.pretrain(store, out="runs/mine", recipe="budget-tiny", budget="30m")
    model = electra.load(run)
    model.detect(["The chef ate the meal."])
    tuned = electra.finetune(model, task="classification", data="reviews.csv", out="runs/reviews", seeds=3)

Names are imported when they are first used, so that `import electra` is quick and needs no torch. What goes
wrong is an `electra.ElectraError`; an interrupt stops at the next safe point, saves, and raises
`electra.Interrupted`: the same call resumes.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

_COMMANDS = os.path.join(os.path.dirname(__file__), "commands")
_HOMES = {  # where the names live that are no commands; those are in the file of their name in commands/
    "Analysis": "commands.results.analysis",
    "ElectraError": "foundation.errors",
    "Evaluation": "commands.results.evaluation",
    "FineTuned": "commands.results.tuned",
    "Interrupted": "foundation.errors",
    "Model": "commands.results.model",
    "Plan": "commands.parts.estimates",
    "Run": "commands.results.run",
    "Store": "commands.results.store",
    "Study": "commands.results.study",
    "fetch_data": "commands.data_",
    "import_pair": "commands.import_",
    "load": "commands.results.model",
    "open": "commands.results.open",
    "trust": "foundation.extensions",
}
_HOMES |= {
    file.removesuffix(".py"): f"commands.{file.removesuffix('.py')}"
    for file in sorted(os.listdir(_COMMANDS) if os.path.isdir(_COMMANDS) else ())  # the core works alone
    if file.endswith(".py") and not file.endswith("_.py")
}
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from electra.foundation.machine import versions

        return versions("electra")["electra"]
    if name not in _HOMES:
        raise AttributeError(f"module 'electra' has no attribute {name!r}")
    from electra.commands.framework.command import document

    value = document(name, getattr(importlib.import_module(f"electra.{_HOMES[name]}"), name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
