"""Train text encoders by replaced token detection, from your own text, on the hardware you have.

    import electra

    store = electra.prepare("texts/", out="store", vocab_size=8192)
    run = electra.pretrain(store, out="runs/mine", recipe="budget-tiny", budget="30m")
    model = electra.load(run)
    model.detect(["The chef ate the meal."])
    tuned = electra.finetune(model, task="classification", data="reviews.csv", out="runs/reviews", seeds=3)

Names are imported when they are first used, so that `import electra` is quick and needs no torch. A problem
that you can fix raises an `electra.ElectraError`. After an interrupt, the work stops at the next safe point,
saves its state and raises `electra.Interrupted`; repeat the call to resume.
"""

import importlib
import os
from typing import Any

_COMMANDS = os.path.join(os.path.dirname(__file__), "commands")
_HOMES = {  # the modules of names that are not commands; a command's module has its name, in commands/
    **dict.fromkeys(
        ("Analysis", "Evaluation", "FineTuned", "Run", "Store", "Study", "open"),
        "commands.results.result_folders",
    ),
    **dict.fromkeys(("ElectraError", "Interrupted"), "foundation.errors"),
    **dict.fromkeys(("Model", "load"), "inference.model"),
    "trust": "foundation.extensions",
}
_HOMES |= {  # the rest of the package works without commands/
    file.removesuffix(".py"): f"commands.{file.removesuffix('.py')}"
    for file in sorted(os.listdir(_COMMANDS) if os.path.isdir(_COMMANDS) else ())
    if file.endswith(".py") and file != "__init__.py"
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
