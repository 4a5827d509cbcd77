"""Run a suite of tasks on one model or several: GLUE, tagging, SQuAD, BabyLM, beside the
published numbers.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from electra.cli.arguments import Positional, Repeated
from electra.cli.terminal import say
from electra.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    models: Positional[tuple[str, ...]]
    """Run folders, exported or published folders, or names on the hub: one, or several to compare."""
    suite: str = "glue"
    """glue, superglue-mini, tagging, squad, sentences, babylm, all; or a TOML file of your own."""
    data: Repeated[tuple[str, ...]]
    """The folder below which the tasks' data lie, each in a folder named after its task (may be repeated)."""
    out: Path
    """Where results go. The same command again continues an interrupted evaluation."""
    seeds: int = 1
    """How many times to fine-tune each task. The published numbers are medians of many."""
    jobs: int = 1
    """Tasks at the same time, each in a process that has its share of the cores: on a CPU, one a core is
    fastest.
    """
    random_twin: bool = False
    """Also fine-tune fresh weights in the shape of the first model: what the labelled data alone can teach.
    """
    floors: bool = True
    """Also score what needs no network: the majority answer, and counting words."""
    option: Repeated[tuple[str, ...]] = ()
    """key=value: a setting of electra finetune for all tasks, such as learning_rate=1e-3 or limit_train=1000
    (may be repeated).
    """
    probe_option: Repeated[tuple[str, ...]] = ()
    """key=value: an option of the suite's probes, such as limit=100 for minimal pairs (may be repeated)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute (auto: a GPU when there is one)."""


def run(arguments: Arguments) -> int:
    if not arguments.models:
        raise ConfigError(
            "no model given",
            where="electra evaluate",
            fix="Such as: electra evaluate MODEL --data glue/ --out results/",
        )
    if not arguments.data:
        raise ConfigError(
            "no data given", where="--data", fix="Name the folder that holds the tasks' folders"
        )
    if arguments.seeds < 1:
        raise ConfigError(f"must be at least 1, not {arguments.seeds}", where="--seeds")
    if arguments.jobs < 1:
        raise ConfigError(f"must be at least 1, not {arguments.jobs}", where="--jobs")
    settings = dict(map(setting, arguments.option))

    from electra.evaluation.running import Options, entrants, evaluate
    from electra.evaluation.suite import load_suite
    from electra.report import suite as pages
    from electra.signals import StopRequest

    suite = load_suite(arguments.suite)
    models = entrants(arguments.models, arguments.random_twin, arguments.floors)
    options = Options(arguments.seeds, arguments.device, arguments.jobs, settings, arguments.probe_option)
    roots = [Path(name) for name in arguments.data]
    with StopRequest() as stop:
        record = evaluate(
            suite,
            models,
            roots,
            arguments.out,
            options=options,
            say=say,
            stop=lambda: stop.received is not None,
        )
    if record is None:
        pages.write_page(arguments.out)  # what is done so far, as in evaluation.json
        return stop.exit_code
    failed = [f"{failure['task']} ({failure['model']})" for failure in record["failures"]]
    say(f"table: {arguments.out / 'evaluation.tsv'}")
    say(f"page: {pages.write_page(arguments.out)}")
    if failed:
        raise ConfigError(
            f"could not be done: {', '.join(failed)}",
            where=arguments.out,
            fix="The lines above say why; then run it again",
        )
    return 0


def setting(word: str) -> tuple[str, Any]:
    """A value is read as TOML where it can be, else as text."""
    name, equals, text = word.partition("=")
    if not equals:
        raise ConfigError(f"{word!r} is not key=value", where="--option", fix="Such as --option epochs=1")
    try:
        return name.replace("-", "_"), tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return name.replace("-", "_"), text
