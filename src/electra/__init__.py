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
    from electra.errors import ElectraError as ElectraError
    from electra.errors import Interrupted as Interrupted
    from electra.extensions import trust as trust
    from electra.workflow.ablate import Study as Study
    from electra.workflow.ablate import ablate as ablate
    from electra.workflow.analyze import Analysis as Analysis
    from electra.workflow.analyze import analyze as analyze
    from electra.workflow.evaluate import Evaluation as Evaluation
    from electra.workflow.evaluate import evaluate as evaluate
    from electra.workflow.extend import deepen as deepen
    from electra.workflow.extend import extend as extend
    from electra.workflow.extend import lengthen as lengthen
    from electra.workflow.finetune import finetune as finetune
    from electra.workflow.import_pair import import_pair as import_pair
    from electra.workflow.log import log as log
    from electra.workflow.model import Model as Model
    from electra.workflow.model import load as load
    from electra.workflow.open import open as open
    from electra.workflow.open import verify as verify
    from electra.workflow.plan import Plan as Plan
    from electra.workflow.plan import plan as plan
    from electra.workflow.predict import predict as predict
    from electra.workflow.prepare import prepare as prepare
    from electra.workflow.pretrain import pretrain as pretrain
    from electra.workflow.prompt import Prompting as Prompting
    from electra.workflow.prompt import prompt as prompt
    from electra.workflow.push import push as push
    from electra.workflow.run import Run as Run
    from electra.workflow.store import Store as Store
    from electra.workflow.tuned import FineTuned as FineTuned

    __version__: str

_HOMES = {  # where each name lives
    "Analysis": "workflow.analyze",
    "ElectraError": "errors",
    "Evaluation": "workflow.evaluate",
    "FineTuned": "workflow.tuned",
    "Interrupted": "errors",
    "Model": "workflow.model",
    "Prompting": "workflow.prompt",
    "Run": "workflow.run",
    "Store": "workflow.store",
    "Study": "workflow.ablate",
    "Plan": "workflow.plan",
    "ablate": "workflow.ablate",
    "analyze": "workflow.analyze",
    "deepen": "workflow.extend",
    "evaluate": "workflow.evaluate",
    "extend": "workflow.extend",
    "finetune": "workflow.finetune",
    "import_pair": "workflow.import_pair",
    "lengthen": "workflow.extend",
    "load": "workflow.model",
    "log": "workflow.log",
    "open": "workflow.open",
    "plan": "workflow.plan",
    "predict": "workflow.predict",
    "prepare": "workflow.prepare",
    "pretrain": "workflow.pretrain",
    "prompt": "workflow.prompt",
    "push": "workflow.push",
    "trust": "extensions",
    "verify": "workflow.open",
}
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from electra.machine import versions

        return versions("electra")["electra"]
    if name not in _HOMES:
        raise AttributeError(f"module 'electra' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"electra.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
