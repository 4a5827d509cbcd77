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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from electra.commands.workflow.ablate import Study as Study
    from electra.commands.workflow.ablate import ablate as ablate
    from electra.commands.workflow.analyze import Analysis as Analysis
    from electra.commands.workflow.analyze import analyze as analyze
    from electra.commands.workflow.evaluate import Evaluation as Evaluation
    from electra.commands.workflow.evaluate import evaluate as evaluate
    from electra.commands.workflow.extend import deepen as deepen
    from electra.commands.workflow.extend import extend as extend
    from electra.commands.workflow.extend import lengthen as lengthen
    from electra.commands.workflow.finetune import finetune as finetune
    from electra.commands.workflow.import_pair import import_pair as import_pair
    from electra.commands.workflow.log import log as log
    from electra.commands.workflow.model import Model as Model
    from electra.commands.workflow.model import load as load
    from electra.commands.workflow.open import open as open
    from electra.commands.workflow.open import verify as verify
    from electra.commands.workflow.plan import Plan as Plan
    from electra.commands.workflow.plan import plan as plan
    from electra.commands.workflow.predict import predict as predict
    from electra.commands.workflow.prepare import prepare as prepare
    from electra.commands.workflow.pretrain import pretrain as pretrain
    from electra.commands.workflow.push import push as push
    from electra.commands.workflow.run import Run as Run
    from electra.commands.workflow.store import Store as Store
    from electra.commands.workflow.tuned import FineTuned as FineTuned
    from electra.foundation.errors import ElectraError as ElectraError
    from electra.foundation.errors import Interrupted as Interrupted
    from electra.foundation.extensions import trust as trust

    __version__: str

_HOMES = {  # where each name lives
    "Analysis": "commands.workflow.analyze",
    "ElectraError": "foundation.errors",
    "Evaluation": "commands.workflow.evaluate",
    "FineTuned": "commands.workflow.tuned",
    "Interrupted": "foundation.errors",
    "Model": "commands.workflow.model",
    "Run": "commands.workflow.run",
    "Store": "commands.workflow.store",
    "Study": "commands.workflow.ablate",
    "Plan": "commands.workflow.plan",
    "ablate": "commands.workflow.ablate",
    "analyze": "commands.workflow.analyze",
    "deepen": "commands.workflow.extend",
    "evaluate": "commands.workflow.evaluate",
    "extend": "commands.workflow.extend",
    "finetune": "commands.workflow.finetune",
    "import_pair": "commands.workflow.import_pair",
    "lengthen": "commands.workflow.extend",
    "load": "commands.workflow.model",
    "log": "commands.workflow.log",
    "open": "commands.workflow.open",
    "plan": "commands.workflow.plan",
    "predict": "commands.workflow.predict",
    "prepare": "commands.workflow.prepare",
    "pretrain": "commands.workflow.pretrain",
    "push": "commands.workflow.push",
    "trust": "foundation.extensions",
    "verify": "commands.workflow.open",
}
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from electra.foundation.machine import versions

        return versions("electra")["electra"]
    if name not in _HOMES:
        raise AttributeError(f"module 'electra' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"electra.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
