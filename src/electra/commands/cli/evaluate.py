"""Run a suite of tasks (GLUE, tagging, SQuAD, BabyLM) on models, beside baselines and published numbers."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.commands.cli.arguments import Positional, Repeated
from electra.foundation.errors import ConfigError
from electra.foundation.machine import Device


@dataclass(frozen=True, kw_only=True)
class Arguments:
    models: Positional[tuple[str, ...]]
    """Run folders, exported or published folders, or names on the hub: one, or several to compare."""
    suite: str = "glue"
    """glue, superglue-mini, tagging, squad, sentences, babylm, all; or a TOML file of your own."""
    data: Repeated[tuple[str, ...]]
    """A folder with the tasks' data, each in a subfolder named after its task (may be repeated)."""
    out: Path
    """Directory for results. Rerun the command to resume an interrupted evaluation."""
    seeds: int = 1
    """How many times to fine-tune each task. The published numbers are medians of many."""
    jobs: int = 1
    """Tasks to run at the same time, each in a process with its share of the cores. On a CPU one per core is
    fastest.
    """
    random_twin: bool = False
    """Also fine-tune fresh weights in the shape of the (first) model: what can be learned from the labelled
    data alone.
    """
    floors: bool = True
    """Also score baselines that need no network: the majority answer, and counting words."""
    option: Repeated[tuple[str, ...]] = ()
    """key=value: a setting of electra finetune for all tasks, such as learning_rate=1e-3 or limit_train=1000
    (may be repeated).
    """
    probe_option: Repeated[tuple[str, ...]] = ()
    """key=value: an option of the suite's probes, such as limit=100 for minimal pairs (may be repeated)."""
    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.evaluate import evaluate

    evaluation = evaluate(
        arguments.models,
        data=arguments.data,
        out=arguments.out,
        suite=arguments.suite,
        seeds=arguments.seeds,
        jobs=arguments.jobs,
        random_twin=arguments.random_twin,
        floors=arguments.floors,
        settings=dict(map(setting, arguments.option)),
        probe_options=arguments.probe_option,
        device=arguments.device,
        progress=Terminal(),
    )
    if evaluation.failures:
        failed = ", ".join(f"{failure['task']} ({failure['model']})" for failure in evaluation.failures)
        fix = "See the lines above, then rerun the command"
        raise ConfigError(f"failed: {failed}", where=arguments.out, fix=fix)
    return 0


def setting(word: str) -> tuple[str, Any]:
    """A value is read as TOML where it can be, else as text."""
    name, equals, text = word.partition("=")
    if not equals:
        raise ConfigError(f"{word!r} is not key=value", key="option", fix="For example: `option=epochs=1`")
    try:
        return name.replace("-", "_"), tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return name.replace("-", "_"), text
