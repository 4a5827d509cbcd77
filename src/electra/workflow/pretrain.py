"""Text or a Store -> Run: prepare what is missing, train, export the networks, score examples, report.

With several processes the leading one does all that is not training. They are started from here (`launch`) as
`python -m electra.workflow.pretrain JOB`, or by torchrun.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.run import RunFolder
from electra.artifacts.store import ENDING, StoreFolder
from electra.config import RECIPES, find_recipe, merge
from electra.errors import ConfigError, ElectraError, Interrupted, LostProcess, RunFailed, from_json
from electra.signals import EXIT_CODES, StopRequest, how_it_ended
from electra.training.recipe import Recipe, make_recipe, read_recipe, with_budget
from electra.workflow.artifact import Source
from electra.workflow.display import Display, Terminal, Told, display_for
from electra.workflow.prepare import build, existing_tokenizer, sources

if TYPE_CHECKING:
    from electra.data.store import TokenStore
    from electra.interop.load import Loaded
    from electra.interop.names import Kind
    from electra.model.sizes import EncoderConfig
    from electra.training.run import Run as Training
    from electra.training.shapes import WarmStart
    from electra.workflow.run import Run

RATE = "learning_rate"
SHARE_OF_RATE = 0.2  # of a recipe's rate, for networks that start from trained weights
SENTENCES = ("The chef cooked the meal.", "The quick brown fox jumps over the lazy dog.")


@dataclass(frozen=True)
class Inputs:
    """What a run is made of and where, besides its recipe."""

    out: str
    corpus: tuple[str, ...] = ()
    store: str | None = None
    init_discriminator: str | None = None
    init_generator: str | None = None
    workers: int | None = None
    processes: int = 1
    recipe_name: str = ""
    rate_is_chosen: bool = False
    """Whether the user chose the learning rate, or a recipe for fresh weights did."""
    command: str = ""
    """How the run was asked for, for its record."""
    extend: bool = False
    """The run that lies there becomes longer."""

    @property
    def folder(self) -> Path:
        return Path(self.out)


def pretrain(
    data: Source | Sequence[Source],
    out: Source,
    *,
    recipe: Source = "tiny",
    budget: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    init: Source | None = None,
    init_discriminator: Source | None = None,
    init_generator: Source | None = None,
    workers: int | None = None,
    processes: int = 1,
    progress: Told = None,
) -> Run:
    """Train a generator and a discriminator in the folder `out`, or resume the run it holds.

    data: a Store (or its folder), or text as `prepare` takes it, which is then prepared into OUT/store.
    recipe: a recipe's name or a TOML file.
    budget: how much to spend: "30m", "2e16flops", "50Mtokens" or "5000steps".
    overrides: settings that differ from the recipe's, by dotted name: {"training.learning_rate": 2e-3}.
    init: a model to start from, with both networks where it has both: a run, a model folder, `tiny-en`.
    init_discriminator, init_generator: the same for one network, or for the two from different places.
    workers: processes that encode the text (None: all cores).
    processes: processes on this machine that share each batch.
    progress: see `electra.workflow.display.Told`.

    Raises ConfigError for wrong settings, RunFolderError where `out` holds something else or a run with other
    settings, RunFailed where the training diverges, and Interrupted when asked to stop (rerun to resume).
    """
    given = sources(data)
    is_store = len(given) == 1 and _is_store(given[0])
    begin = starts(init, init_discriminator, init_generator)
    inputs = Inputs(
        out=os.fspath(out),
        corpus=() if is_store else tuple(given),
        store=given[0] if is_store else None,
        init_discriminator=begin[0],
        init_generator=begin[1],
        workers=workers,
        processes=processes,
        recipe_name=os.fspath(recipe),
        rate_is_chosen=rate_is_chosen(os.fspath(recipe), overrides or {}),
        command="electra.pretrain(...)",
    )
    made = compose(os.fspath(recipe), overrides or {}, budget)
    with display_for(progress) as display:
        return carry_out(made, inputs, display)


def starts(
    init: Source | None, discriminator: Source | None, generator: Source | None
) -> tuple[str | None, str | None]:
    """What discriminator and generator start from: `init` stands for both, so far as it holds them."""
    main, auxiliary = _name(discriminator), _name(generator)
    if init is not None:
        if main is not None or auxiliary is not None:
            fix = "Give `init` alone, or `init_discriminator` and `init_generator`"
            raise ConfigError("one model for both networks and one for each are given", key="init", fix=fix)
        from electra.interop.run_folder import holds_networks, networks
        from electra.interop.source import locate

        main, path = _name(init), locate(os.fspath(init))
        if holds_networks(path) and set(networks(path)) >= {"discriminator", "generator"}:
            auxiliary = main
    return main, auxiliary


def _name(source: Source | None) -> str | None:
    return None if source is None else os.fspath(source)


def _is_store(name: str) -> bool:
    return StoreFolder.is_at(Path(name)) or name.endswith(ENDING)


def compose(recipe: str, overrides: Mapping[str, Any], budget: str | None = None) -> Recipe:
    """A recipe with some settings changed, by dotted name; raises ConfigError naming the wrong one."""
    path = find_recipe(recipe)
    sections = read_recipe(path)
    changed: dict[str, Any] = {}
    for name, value in overrides.items():
        section, _, key = name.partition(".")
        changed.setdefault(section, {})[key.replace("-", "_")] = value
    objective = changed.get("objective", {}).get("name")
    if objective is not None and objective != sections.get("objective", {}).get("name", "rtd"):
        sections["objective"] = {"name": objective}  # the options of another objective do not carry over
    make_recipe(sections, where=str(path))
    return make_recipe(with_budget(merge(sections, changed), budget, "steps" in changed.get("training", {})))


def rate_is_chosen(recipe: str, settings: Iterable[str]) -> bool:
    """Whether the learning rate is the user's: among the settings given by name, or in a recipe of theirs."""
    path = find_recipe(recipe)
    own = path.parent != RECIPES and RATE in read_recipe(path).get("training", {})
    return own or f"training.{RATE}" in {name.replace("-", "_") for name in settings}


def carry_out(recipe: Recipe, inputs: Inputs, display: Display) -> Run:
    """Check what can be checked at once, then train in this process or in several."""
    from electra.training.record import read_record
    from electra.workflow.run import Run

    if inputs.store is not None and inputs.corpus:
        raise ConfigError("both `store` and `corpus` are given", fix="Give one of them")
    read_record(inputs.folder)  # refuses a folder that holds something else before anything is written there
    if inputs.processes < 1 or recipe.training.batch_size % inputs.processes:
        what = f"{inputs.processes} processes cannot share a batch of {recipe.training.batch_size} rows"
        raise ConfigError(what, key="processes", fix="Give a number that divides `training.batch_size`")
    if inputs.processes > 1 and not launched():
        train_in_processes(recipe, inputs, display)
    else:
        train_here(recipe, inputs, display)
    return Run(inputs.out)


def launched() -> bool:
    """Whether this is one of several processes that a launcher started to share a training."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def train_in_processes(recipe: Recipe, inputs: Inputs, display: Display) -> None:
    """Train in several processes of this machine; raises the error of the first that fails."""
    from electra.training.launch import launch, temporary_folder

    with temporary_folder() as folder:
        job = folder / "job.json"
        job.write_text(json.dumps({"recipe": recipe.to_sections(), "inputs": asdict(inputs)}))
        say = None if isinstance(display, Terminal) else display.say
        ended = launch(["electra.workflow.pretrain", str(job)], inputs.processes, say)
        lines = _failed(job).read_text().splitlines() if _failed(job).exists() else []
    failed = [from_json(json.loads(line)) for line in lines]
    if causes := [error for error in failed if not isinstance(error, LostProcess)]:
        raise causes[0]
    if ended.killed is not None:
        rank, number = ended.killed
        how, cause = how_it_ended(-number)
        what = f"process {rank} of {inputs.processes} {how}{', ' * bool(cause)}{cause}"
        raise RunFailed(what, where=inputs.out, fix="Rerun to resume")
    if failed:
        raise failed[0]
    if ended.code in EXIT_CODES.values():
        raise Interrupted(inputs.out, ended.code)
    if ended.code:
        said = ended.said.strip().splitlines()
        raise RunFailed(
            f"a process ended with code {ended.code}{': ' * bool(said)}{''.join(said[-1:])}", where=inputs.out
        )


def _failed(job: Path) -> Path:
    """Where the processes of a job leave the errors that end them, one a line."""
    return job.with_suffix(".failed")


def main(argv: Sequence[str]) -> int:
    """One of the processes of `train_in_processes`."""
    from electra.training.launch import stop_with_launcher

    stop_with_launcher()
    job = Path(argv[0])
    given = json.loads(job.read_text())
    try:
        with Terminal(lines=True) as display:
            train_here(make_recipe(given["recipe"]), Inputs(**given["inputs"]), display)
    except Interrupted as stop:
        return stop.exit_code
    except ElectraError as error:
        with open(_failed(job), "a", encoding="utf-8") as file:
            file.write(json.dumps(error.to_json()) + "\n")
        code = error.exit_code
    except BaseException:
        traceback.print_exc()
        code = 1
    else:
        return 0
    sys.stderr.flush()
    os._exit(code)  # no collective can be finished any more: leave, and the launcher ends the others


def train_here(recipe: Recipe, inputs: Inputs, display: Display) -> None:
    """Train in this process, alone or as one of several. The others of a process that fails must be ended."""
    from electra.training.distributed import explain_losses, leave_world

    leads = os.environ.get("RANK", "0") == "0"
    try:
        own = RunFolder(inputs.folder).session(say=display.say, stop=lambda: False, leads=leads)
        with explain_losses(), own:
            train(recipe, inputs, display, leads)
    except Interrupted:
        leave_world()
        raise
    leave_world()


def train(recipe: Recipe, inputs: Inputs, display: Display, leads: bool) -> None:
    """The work in a run folder that is ours: prepare, train, finish."""
    from electra.training.distributed import join_world
    from electra.training.loop import train as train_loop
    from electra.training.start import start

    store = open_store(inputs, recipe, display, leads)
    content = store.check()
    world = join_world()
    warm = warm_start(inputs, recipe, store)
    if warm is not None and not inputs.rate_is_chosen:
        recipe, warm = with_gentler_rate(recipe, warm, inputs.folder)
    begin = start(
        recipe,
        inputs.folder,
        store,
        world,
        warm=warm,
        name=inputs.recipe_name,
        command=inputs.command,
        extend=inputs.extend,
        say=display.say,
        progress=display.progress,
    )
    with StopRequest() as stop, begin as training:
        beside = RunFolder(inputs.folder).tokenizer
        if leads and inputs.store is not None and not beside.exists():
            store.tokenizer.save(beside)  # so that the run can be used without its store
        if not train_loop(training, stop):
            raise Interrupted(inputs.out, stop.exit_code or 143)
        content.refuse()  # of a large store, read while the training went on
        if leads:
            finish(training)


def open_store(inputs: Inputs, recipe: Recipe, display: Display, leads: bool = True) -> TokenStore:
    """The store given, or the corpus prepared into OUT/store by the leading process while the others wait."""
    from electra.data.remote import fetch_store, is_remote
    from electra.data.store import TokenStore

    wanted = recipe.tokenizer.source
    if inputs.store is not None:
        path = fetch_store(inputs.store) if is_remote(inputs.store) else Path(inputs.store)
        return TokenStore.open(path, existing_tokenizer(wanted) if wanted else None)
    out = RunFolder(inputs.folder).store.path
    if not leads:
        while not StoreFolder(out).exists():  # before the process group exists, whose timeout is short
            time.sleep(0.5)
        return TokenStore.open(out)
    given = wanted or inputs.init_discriminator or inputs.init_generator
    section, corpus = replace(recipe.tokenizer, source=given), inputs.corpus or ("python-docs",)
    return build(corpus, out, section, recipe.data, workers=inputs.workers, display=display).tokens


def warm_start(inputs: Inputs, recipe: Recipe, store: TokenStore) -> WarmStart | None:
    """Continued pre-training: the networks take the shapes and the weights of the models named."""
    if inputs.init_discriminator is None and inputs.init_generator is None:
        return None
    from electra.interop.load import load
    from electra.interop.warm_start import load_main, load_weights_into
    from electra.training.shapes import WarmStart

    model, main, auxiliary = recipe.model, inputs.init_discriminator, inputs.init_generator

    def shape(loaded: Loaded | None) -> EncoderConfig | None:
        if loaded is None:
            return None
        return replace(loaded.config, dropout=model.dropout, attention_dropout=model.attention_dropout)

    return WarmStart(
        names={"discriminator": inputs.init_discriminator or "", "generator": inputs.init_generator or ""},
        generator=shape(load(auxiliary, "generator") if auxiliary else None),
        discriminator=shape(load_main(main) if main else None),
        load=lambda pair: load_weights_into(
            pair,
            discriminator=inputs.init_discriminator,
            generator=inputs.init_generator,
            tokenizer=store.tokenizer,
        ),
    )


def with_gentler_rate(recipe: Recipe, warm: WarmStart, folder: Path) -> tuple[Recipe, WarmStart]:
    """Recipes choose their learning rate for fresh weights; trained ones continue at a share of it. A run
    that resumes keeps the rate it began with.
    """
    training = recipe.training
    before = RunFolder(folder).record["training"] if RunFolder.is_at(folder) else {}
    rate = float(before.get(RATE, training.learning_rate * SHARE_OF_RATE))
    own = training.generator_learning_rate
    gentler = replace(
        training,
        learning_rate=rate,
        generator_learning_rate=None if own is None else own * rate / training.learning_rate,
    )
    note = (
        f"learning rate {rate:.3g}, {SHARE_OF_RATE:g} of the recipe's, because the networks start from"
        " trained weights (`training.learning_rate` sets another)"
    )
    return replace(recipe, training=gentler), replace(warm, notes=(*warm.notes, note))


def finish(run: Training) -> None:
    """Export the networks, score the example sentences and write the report; what exists from an earlier
    finish stays.
    """
    from electra import durable
    from electra.interop.card import card_of_run
    from electra.interop.examples import example_rows
    from electra.interop.huggingface import export_network
    from electra.report.run import write_report
    from electra.report.svg import left_out
    from electra.workflow.model import Model

    files = RunFolder(run.folder)
    folder, pair, examples, page = run.folder, run.pair, files.examples, files.page
    if examples.exists() and page.exists():
        run.telemetry.say(f"{folder} is complete: {run.total_steps} steps, report in {page}")
        return
    examples.unlink(missing_ok=True)  # written last but the report: the mark of a finished export
    if run.store.audit:
        durable.commit_json(files.audit, run.store.audit)
    run.telemetry.event(run.step, "finished", f"finished {run.step} steps in {run.seconds:.0f} s of training")
    pair.cpu()  # whole: one network's weights may be made of another's
    kinds: tuple[Kind, ...] = ("generator", "discriminator")
    for kind in kinds:
        if kind in pair.named:
            export_network(folder / kind, pair.named[kind], run.store.tokenizer, card_of_run(folder, kind))
    named_by = run.objective.language_model(pair)
    if named_by is not None and named_by is not pair.main:
        card = replace(card_of_run(folder, "generator"), name=f"{folder.resolve().name}-language-model")
        export_network(files.language_model.path, named_by, run.store.tokenizer, card)
    both, seed = Model(folder, device="cpu").pair(), run.recipe.training.seed
    rows = [{"text": text, "rows": example_rows(*both, text, seed=seed)} for text in SENTENCES]
    durable.commit_json(examples, rows)
    files.record_digests()
    write_report(folder)
    run.telemetry.say(f"models saved to {folder}, report in {page}")
    if note := left_out(page):
        run.telemetry.say(f"the report was {note}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
