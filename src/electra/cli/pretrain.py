"""Train a generator and a discriminator on text, from a corpus or a token store."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.cli.arguments import parse as parse_arguments
from electra.config import build, find_recipe, merge
from electra.errors import ConfigError, ElectraError
from electra.training.recipe import (
    DataSection,
    EvaluationSection,
    ModelSection,
    Recipe,
    TokenizerSection,
    TrainingSection,
    make_recipe,
    read_recipe,
)

if TYPE_CHECKING:
    from electra.data.store import TokenStore
    from electra.interop.names import Kind
    from electra.model.pair import Discriminator, Generator
    from electra.model.sizes import EncoderConfig
    from electra.training.run import Run, WarmStart

# What the options of electra prepare are called where text is prepared on the way to something else.
RENAMED = {
    "--vocab-size": "tokenizer.vocab_size",
    "--text-field": "data.text_field",
    "say --format": "prepare it before, with electra prepare --format",
}
SENTENCES = ("The chef cooked the meal.", "The quick brown fox jumps over the lazy dog.")


@dataclass(frozen=True)
class ObjectiveSection:
    """Without --objective.name, --help lists this one option; with it, all options of that objective."""

    name: str = "rtd"
    """rtd, mlm, ... (one file each in electra/objectives), an installed package's, or your own: mine.py."""


@dataclass(frozen=True)
class Inputs:
    out: Path = Path("runs/electra")
    """The run folder. The same command again continues a stopped run."""
    recipe: str = "tiny"
    """A recipe's name or a TOML file; flags override it."""
    corpus: tuple[str, ...] = ()
    """Files, folders, globs, URLs, - (stdin), hub:NAME, or python-docs (the default: the prose of Python's
    own documentation).
    """
    store: str | None = None
    """A token store made by electra prepare, instead of a corpus: a folder, a .ds file, or an address
    (s3://..., https://...).
    """
    budget: str | None = None
    """How much to spend: 30m, 2e16flops, 50Mtokens or 5000steps."""
    workers: int | None = None
    """Processes that encode the corpus (none: all cores)."""
    processes: int = 1
    """Processes on this machine that share each batch: one for each GPU, or on a CPU one for each core.
    Across machines: torchrun.
    """
    init_discriminator: str | None = None
    """Continue from this model's discriminator: a run, a model folder or a hub name."""
    init_generator: str | None = None
    """Continue from this model's generator (none: a fresh one)."""
    model: ModelSection = field(default_factory=ModelSection)
    training: TrainingSection = field(default_factory=TrainingSection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    data: DataSection = field(default_factory=DataSection)


@dataclass(frozen=True)
class Arguments:
    inputs: Inputs
    recipe: Recipe
    argv: tuple[str, ...]


def parse(argv: Sequence[str]) -> Arguments:
    """Defaults, then the recipe file, then flags. The objective's options join the flags once its name is
    known.
    """
    path = find_recipe(_peek(argv, "--recipe") or "tiny")
    named = _peek(argv, "--objective.name")
    sections = read_recipe(path)
    if named is not None and named != sections.get("objective", {}).get("name", "rtd"):
        sections["objective"] = {"name": named}  # the options of another objective do not carry over
    recipe = make_recipe(sections, where=str(path))
    in_a_hurry = _wants_help(argv) and named is None
    objective_type = (
        ObjectiveSection if in_a_hurry else _objective_section(str(recipe.objective.get("name", "rtd")))
    )
    kind = make_dataclass(
        "Options",
        [("objective", objective_type, field(default_factory=objective_type))],
        bases=(Inputs,),
        frozen=True,
    )
    default: Any = kind(
        **{name: getattr(recipe, name) for name in ("model", "training", "evaluation", "tokenizer", "data")},
        objective=objective_type()
        if in_a_hurry
        else build(objective_type, recipe.objective, where=f"{path}: objective"),
    )
    inputs = parse_arguments(kind, argv, verb="pretrain", description=__doc__ or "", default=default)
    flags = dataclasses.asdict(inputs)
    chosen = {
        name: flags[name] for name in ("model", "training", "evaluation", "tokenizer", "data", "objective")
    }
    if inputs.budget is not None:
        chosen["training"] = merge(chosen["training"], {"budget": inputs.budget})
    elif chosen["training"]["steps"] is not None and _peek(argv, "--training.steps"):
        chosen["training"] = merge(chosen["training"], {"budget": None})
    return Arguments(inputs, make_recipe(chosen), tuple(argv))


def run(arguments: Arguments) -> int:
    from electra import durable
    from electra.signals import StopRequest
    from electra.training.distributed import join_world, leave_world
    from electra.training.loop import train
    from electra.training.run import read_record, start

    inputs, recipe = arguments.inputs, arguments.recipe
    if inputs.store is not None and inputs.corpus:
        raise ConfigError("both --store and --corpus are given", fix="Give one of them")
    read_record(inputs.out)  # refuses a folder that holds something else before anything is written there
    launched = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if inputs.processes < 1 or recipe.training.batch_size % inputs.processes:
        what = f"{inputs.processes} processes cannot share a batch of {recipe.training.batch_size} rows"
        raise ConfigError(what, where="--processes", fix="Give a number that divides training.batch_size")
    if inputs.processes > 1 and not launched:
        from electra.training.launch import launch

        return launch(["pretrain", *arguments.argv], inputs.processes)
    leads = os.environ.get("RANK", "0") == "0"
    try:
        with durable.lock(inputs.out) if leads else nullcontext():
            store = open_store(inputs, recipe, leads)
            world = join_world()
            with (
                StopRequest() as stop,
                start(
                    recipe,
                    inputs.out,
                    store,
                    world,
                    warm=warm_start(inputs, recipe, store),
                    name=inputs.recipe,
                ) as started,
            ):
                if leads and inputs.store is not None and not (inputs.out / "tokenizer").exists():
                    store.tokenizer.save(
                        inputs.out / "tokenizer"
                    )  # so that the run folder can be used without its store
                if not train(started, stop):
                    return stop.exit_code or 143
                if leads:
                    finish(started)
        return 0
    except BaseException as error:
        if launched:  # no collective can be finished any more: leave, and the launcher ends the others
            _leave_at_once(error)
        raise
    finally:
        leave_world()


def open_store(inputs: Inputs, recipe: Recipe, leads: bool) -> TokenStore:
    """The store given, or the corpus prepared into RUN/store by the leading process while the others wait for
    it.
    """
    from electra.cli.prepare import existing_tokenizer, prepare
    from electra.data.remote import fetch_store, is_remote
    from electra.data.store import TokenStore

    wanted = recipe.tokenizer.source
    if inputs.store is not None:
        path = fetch_store(inputs.store) if is_remote(inputs.store) else Path(inputs.store)
        return TokenStore.open(path, existing_tokenizer(wanted) if wanted else None)
    out = inputs.out / "store"
    if leads:
        try:
            return prepare(
                inputs.corpus or ("python-docs",),
                out,
                data=recipe.data,
                tokenizer=recipe.tokenizer,
                existing=wanted or inputs.init_discriminator or inputs.init_generator,
                workers=inputs.workers,
            )
        except ElectraError as error:
            for theirs, ours in RENAMED.items():
                error.where, error.fix = error.where.replace(theirs, ours), error.fix.replace(theirs, ours)
            raise
    while not (
        out / "store.json"
    ).is_file():  # before the process group exists: its timeout must not end a long preparation
        time.sleep(0.5)
    return TokenStore.open(out)


def warm_start(inputs: Inputs, recipe: Recipe, store: TokenStore) -> WarmStart | None:
    """Continued pre-training: the networks take the shapes and the weights of the models named."""
    if inputs.init_discriminator is None and inputs.init_generator is None:
        return None
    from electra.interop.load import load
    from electra.interop.warm_start import load_weights_into
    from electra.training.run import WarmStart

    def shape(source: str | None, kind: Literal["generator", "discriminator"]) -> EncoderConfig | None:
        if source is None:
            return None
        model = recipe.model
        return dataclasses.replace(
            load(source, kind).config, dropout=model.dropout, attention_dropout=model.attention_dropout
        )

    return WarmStart(
        names={"discriminator": inputs.init_discriminator or "", "generator": inputs.init_generator or ""},
        generator=shape(inputs.init_generator, "generator"),
        discriminator=shape(inputs.init_discriminator, "discriminator"),
        load=lambda pair: load_weights_into(
            pair,
            discriminator=inputs.init_discriminator,
            generator=inputs.init_generator,
            tokenizer=store.tokenizer,
        ),
    )


def finish(run: Run) -> None:
    """Export the networks, score the example sentences and write the report; what exists from an earlier
    finish stays.
    """
    from electra import durable
    from electra.interop.card import card_of_run
    from electra.interop.examples import example_rows, load_pair
    from electra.interop.huggingface import export_network
    from electra.report.run import write_report

    folder, pair = run.folder, run.pair
    if (folder / "examples.json").exists() and (folder / "report.html").exists():
        run.telemetry.say(
            f"{folder} is complete: {run.total_steps} steps, report in {folder / 'report.html'}"
        )
        return
    (folder / "examples.json").unlink(
        missing_ok=True
    )  # written last but the report: the mark of a finished export
    if run.store.audit:
        durable.commit_json(folder / "audit.json", run.store.audit)
    run.telemetry.event(run.step, "finished", f"finished {run.step} steps in {run.seconds:.0f} s of training")
    pair.cpu()  # whole: one network's weights may be made of another's
    networks: dict[Kind, Generator | Discriminator | None] = {
        "generator": pair.generator,
        "discriminator": pair.discriminator,
    }
    for kind, network in networks.items():
        if network is not None:
            export_network(folder / kind, network, run.store.tokenizer, card_of_run(folder, kind))
    discriminator, generator = load_pair(folder)
    seed = run.recipe.training.seed
    examples = [
        {"text": text, "rows": example_rows(discriminator, generator, text, seed=seed)} for text in SENTENCES
    ]
    durable.commit_json(folder / "examples.json", examples)
    write_report(folder)
    run.telemetry.say(f"networks in {folder}, report in {folder / 'report.html'}")


def _objective_section(name: str) -> type:
    """The options of one objective as a dataclass. Reading them imports torch, which a bare --help does not
    wait for.
    """
    from electra import objectives

    config = objectives.module_of(name).Config
    return make_dataclass(
        "ObjectiveSection", [("name", str, field(default=name))], bases=(config,), frozen=True
    )


def _peek(argv: Sequence[str], flag: str) -> str | None:
    """The last value given for a flag, before real parsing."""
    value = None
    for position, argument in enumerate(argv):
        if argument.startswith(f"{flag}="):
            value = argument.partition("=")[2]
        elif argument == flag and position + 1 < len(argv):
            value = argv[position + 1]
    return value


def _wants_help(argv: Sequence[str]) -> bool:
    return any(argument in ("-h", "--help") for argument in argv)


def _leave_at_once(error: BaseException) -> None:
    import traceback

    if isinstance(error, ElectraError):
        sys.stderr.write(f"error: {error}\n")
    else:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(error.exit_code if isinstance(error, ElectraError) else 1)
