"""Assembles a run, every part in order: what it starts from, its recipe, its store, its networks, its length.

`train_run` is the whole way from a request to a finished folder; `start` is the part of it that a study
shares. After `build_run` the recipe does not change, but for the number of updates of a budget.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from electra import objectives
from electra.artifacts import checkpoints
from electra.artifacts.run_files import LOST_ROWS, RunFolder
from electra.data.corpus.batches import Batches
from electra.data.corpus.cut_vocabulary import ids_in_original
from electra.data.corpus.store import TokenStore
from electra.data.text_settings import TokenizerConfig
from electra.exchange.pooling import MEAN, TextVector
from electra.exchange.run_folder import text_vector_of
from electra.foundation import durable, seeds, threads
from electra.foundation.config import RECIPES, find_recipe
from electra.foundation.errors import ConfigError, Interrupted
from electra.foundation.extensions import OBJECTIVES
from electra.foundation.progress import Progress, Say, doing, no_progress, quiet
from electra.foundation.signals import StopRequest, stops_after
from electra.model.pair import EncoderAlone, build_networks
from electra.model.precision import pick_device, pick_precision
from electra.model.sizes import EncoderConfig, resolve_size
from electra.objectives.parts.interface import Objective
from electra.training import budget, checkpoint, estimate
from electra.training.compilation import compile_run
from electra.training.distributed import (
    FixedOrder,
    Reduction,
    World,
    check_fixed_order,
    join_world,
    leave_world,
    translate_disconnects,
)
from electra.training.extend import extend as extend_folder
from electra.training.extend import restore_clock_state, shared_checkpoint, with_length
from electra.training.finish import finish
from electra.training.loop import train
from electra.training.network_table import (
    frozen_identity,
    in_phases,
    network_table,
    refuse_length,
    refuse_memory,
    refuse_settings,
    with_shape_of,
)
from electra.training.optimizer import Optimizer
from electra.training.recipe import Recipe, TrainingSection, read_recipe
from electra.training.record import make_record, parts_of, read_record, record_resumption, refuse_changes
from electra.training.request import Request
from electra.training.run import RunState, micro_batch_rows
from electra.training.schedule import Course
from electra.training.starts import Starts, main_network, open_frozen, open_starts, split_layers
from electra.training.stores import corpus_size, existing_tokenizer, is_main, open_store, with_store_settings
from electra.training.telemetry import Telemetry
from electra.training.token_init import initialise_tokens

RATE = "learning_rate"
SHARE_OF_RATE = 0.2  # factor on the recipe's learning rate for trained weights


# The whole way


def train_run(request: Request, say: Say) -> None:
    """Trains what was requested in its run folder, or resumes, and exports the networks.

    Under torchrun each process runs this, and the main one does everything but the training. Raises
    Interrupted if it is stopped.
    """
    read_record(request.out)  # rejects a folder with something else in it before anything is written there
    recipe, starts = open_request(request, say)
    session = RunFolder(request.out).session(say=say, stop=lambda: False, is_main=is_main())
    try:
        with translate_disconnects(), session:
            store = open_store(request, recipe, say)
            recipe = with_store_settings(recipe, store)
            store.check()
            starting = start(
                recipe,
                request.out,
                store,
                join_world(),
                starts=starts.fitted(store.tokenizer),
                name=request.source,
                command=request.command,
                extend=request.extend,
                began=request.began,
                say=say,
                progress=doing,
            )
            del starts  # so that the models are freed as soon as their weights are copied
            with StopRequest() as stop, starting as run:
                folder = RunFolder(request.out)
                if run.world.is_main and not folder.tokenizer.exists() and not folder.store.exists():
                    run.store.tokenizer.save(folder.tokenizer)
                with stops_after("this update; a checkpoint is saved"):
                    if not train(run, stop):
                        raise Interrupted(request.out, stop.exit_code or 143)
                if run.world.is_main:
                    with stops_after("the models are saved"):
                        finish(run)
    except Interrupted:
        leave_world()
        raise
    leave_world()


def preview(request: Request, say: Say) -> None:
    """Says what would be trained, how long it would take and what it needs, without training."""
    recipe, starts = open_request(request, say)
    if request.text.store is not None:
        store = open_store(request, recipe, say)
        recipe, starts = with_store_settings(recipe, store), starts.fitted(store.tokenizer)
        tokens, vocab_size = store.train.num_tokens, store.vocab_size
    else:
        tokens, vocab_size = corpus_size(request.text, recipe, say)
    doing("timing a few updates")
    for line in preview_lines(recipe, vocab_size, tokens, starts):
        say(line)


def preview_lines(recipe: Recipe, vocab_size: int, corpus_tokens: int, starts: Starts | None = None) -> list[str]:
    """Returns what a recipe would train, how long it takes and what it needs on this machine.

    Measures it on random ids and without compiling the layers, and writes nothing. Of the models to start
    from, only the shapes are used. Raises ConfigError if settings do not fit the machine or the
    objective, or the budget is too small; and RunFailed if a gradient is not finite.
    """
    threads.set_threads(recipe.training.threads)
    # Random initialisation: co-occurrences of random ids would carry no information.
    training = replace(recipe.training, log_every=estimate.LONG)
    timed = replace(recipe, training=training, model=replace(recipe.model, start="fresh"))
    store = estimate.random_store(vocab_size)
    shapes = Starts() if starts is None else Starts(shapes=starts.shapes, encoders=starts.encoders)
    run = build_run(timed, Path("memory"), store, World(), shapes)
    return estimate.estimate(run, corpus_tokens, trained=bool(starts and starts.names))


# The recipe, with what the models determine


def open_request(request: Request, say: Say = quiet) -> tuple[Recipe, Starts]:
    """Opens the models that a request names; returns its recipe with what they determine, and the models.

    They determine the tokenizer, the shape and the learning rate. Raises ConfigError for a setting that
    would have no effect or does not fit, and ModelError if there is no such model.
    """
    recipe = request.recipe
    pick_device(recipe.training.device, key="training.device")
    resolve_size(recipe.model.size, recipe.model.layers, recipe.model.hidden_size)
    recipe = recipe if request.extend else with_tokenizer(request)
    teacher = str(recipe.objective.get("teacher") or "")
    starts = open_starts(request.main, request.generator, recipe.model, teacher)
    if request.extend:  # as recorded
        return recipe, starts
    opened = {**starts.encoders, **{source: starts.models[name] for name, source in starts.names.items()}}
    if request.text.store is None and recipe.tokenizer.source:
        used = existing_tokenizer(recipe.tokenizer.source)
        for name, each in opened.items():
            if used.digest != each.tokenizer.digest and ids_in_original(used, each.tokenizer) is None:
                other = f"{recipe.tokenizer.source} has another tokenizer than {split_layers(name)[0]}"
                problem = f"{other}, which could not read the text"
                fix = "Use one tokenizer for all models: omit `tokenizer.source`, or choose other models"
                raise ConfigError(problem, key="tokenizer.source", fix=fix)
    refuse_length(recipe.training.length, *(each.config for each in opened.values()))
    if not starts.names:
        return recipe, starts
    if (shape := starts.shapes.get(main_network(recipe.objective))) is not None:
        recipe = with_shape(recipe, shape, request.given)
    return with_rate(recipe, request, say), starts


def with_tokenizer(request: Request) -> Recipe:
    """Returns the recipe with the tokenizer of the models, for text that is not prepared yet.

    Raises ConfigError for a setting of a tokenizer that will not be trained.
    """
    recipe = request.recipe
    main = split_layers(request.main)[0] if request.main else None
    source = recipe.tokenizer.source or main or request.generator
    if not source or request.text.store is not None:
        return recipe
    trained = {f"tokenizer.{field.name}" for field in fields(TokenizerConfig)}
    if unused := sorted(trained & set(request.given)):
        problem = f"has no effect: the text is encoded with the tokenizer of {split_layers(source)[0]}"
        fix = "Omit it; electra export MODEL --cut-to TEXT makes a model with a smaller vocabulary"
        raise ConfigError(problem, key=unused[0], fix=fix)
    return replace(recipe, tokenizer=replace(recipe.tokenizer, source=source))


def with_shape(recipe: Recipe, shape: EncoderConfig, given: tuple[str, ...]) -> Recipe:
    """Returns the recipe in the shape of the main network's start; ConfigError if `given` settings differ."""
    model = recipe.model
    size = resolve_size(model.size, model.layers, model.hidden_size)
    differs = {
        "model.layers": size.num_layers != shape.num_layers,
        "model.hidden_size": size.hidden_size != shape.hidden_size,
        "model.size": (size.num_layers, size.hidden_size) != (shape.num_layers, shape.hidden_size),
        "model.encoder": model.encoder != shape.architecture,
    }
    for name in given:
        if differs.get(name):
            found = f"{shape.architecture}, {shape.num_layers} layers of {shape.hidden_size}"
            fix = "Omit it, or start from random weights"
            raise ConfigError(f"has no effect: the run starts from a model ({found})", key=name, fix=fix)
    return with_shape_of(recipe, shape)


def with_rate(recipe: Recipe, request: Request, say: Say) -> Recipe:
    """Returns the recipe with a smaller learning rate for trained weights, unless the user chose one."""
    path = find_recipe(request.source)
    in_own_recipe = path.parent != RECIPES and RATE in read_recipe(path).get("training", {})
    if in_own_recipe or f"training.{RATE}" in request.given:
        return recipe
    training, resumes = recipe.training, RunFolder.is_at(request.out)
    rate = training.learning_rate * SHARE_OF_RATE
    if resumes:
        rate = float(RunFolder(request.out).record["training"].get(RATE, rate))
    generator_rate = training.generator_learning_rate
    if generator_rate is not None:
        generator_rate *= rate / training.learning_rate
    if not resumes and is_main():
        say(
            f"learning rate {rate:.3g}, {SHARE_OF_RATE:g} of the recipe's, because the networks start from"
            " trained weights (change it with --training.learning-rate)"
        )
    training = replace(training, learning_rate=rate, generator_learning_rate=generator_rate)
    return replace(recipe, training=training)


# The run, at step 0


def build_run(
    recipe: Recipe,
    folder: Path,
    store: TokenStore,
    world: World,
    starts: Starts | None = None,
    *,
    text_vector: TextVector | None = None,
) -> RunState:
    """Builds a run at step 0, without restoring a checkpoint.

    Nothing is written. Without models to start from (`starts`), the weights are random. `text_vector` is that
    of the run in the folder (None: a new run, with that of its teacher or of the model it starts from).
    Raises ConfigError if settings do not fit the machine, the objective or the number of processes; and
    ModelError if a model that the run uses has another tokenizer than the store.
    """
    starts = starts or Starts()
    objective, recipe = build_objective(recipe, store, world)
    training = recipe.training
    table = network_table(recipe.model, store, objective, training.generator_learning_rate, starts.shapes)
    table, frozen = open_frozen(table, store, starts.encoders)
    notes: tuple[str, ...] = ()
    teacher = next((loaded.text_vector for loaded in frozen.values()), None)
    if text_vector is None:
        text_vector, notes = _own_text_vector(teacher or starts.text_vector(objective.main), table.main)
    if teacher is not None and text_vector.files:  # not in runs of older versions, which compared means
        objective.pooling = teacher.pooling
        objective.after_pooling = teacher.after_pooling if teacher.steps else None
    refuse_length(training.length, *(row.config for row in table.rows if row.role != "auxiliary"))
    device = pick_device(training.device, world.local_rank, "training.device")
    refuse_memory(training, table, device, world.size)
    precision = pick_precision(training.precision, device)
    pair = build_networks(
        table,
        heads=objective.heads(table),
        frozen={name: EncoderAlone(loaded.encoder) for name, loaded in frozen.items()},
        sharing=recipe.model.sharing,
        seed=training.seed,
        initialisation=recipe.model.initialisation,
    ).to(device)
    identity = identity_of(recipe, objective, store, starts)
    identity |= {"precision": precision, **frozen_identity(pair.frozen)}
    notes += starts.load_into(pair)
    if starts.shapes.keys() & {row.name for row in table.rows if row.role == "main"}:
        recipe = with_shape_of(recipe, table.main)
    objective.tie_weights(pair)
    optimizer = Optimizer(pair, training, table.rates)
    return RunState(
        folder=folder,
        store=store,
        networks=table,
        pair=pair,
        objective=objective,
        optimizer=optimizer,
        reduction=build_reduction(optimizer, training, world),
        batches=Batches(store.train, length=training.length, seed=training.seed, specials=store.specials),
        heldout=Batches(store.heldout, length=training.length, seed=0, specials=store.specials),
        world=world,
        device=device,
        precision=precision,
        telemetry=Telemetry(folder, is_main=world.is_main),
        flops_per_step=objective.sequence_flops(table, training.length) * training.batch_size,
        identity=identity,
        recipe=recipe,
        course=Course([(0, training.steps or 0)]),
        notes=notes,
        text_vector=text_vector,
    )


def build_objective(recipe: Recipe, store: TokenStore, world: World) -> tuple[Objective, Recipe]:
    """Returns the objective, and the recipe with the schedule that suits it.

    Raises ConfigError if settings do not fit the objective or the number of processes.
    """
    training = recipe.training
    if training.batch_size % world.size:
        problem = f"must be a multiple of the number of processes ({world.size}), not {training.batch_size}"
        raise ConfigError(problem, key="training.batch_size")
    if training.threads:
        threads.use(training.threads)
    objective = objectives.create(
        recipe.objective,
        vocab_size=store.vocab_size,
        specials=store.specials._asdict(),
        statistics=store,
    )
    schedule = training.schedule
    if schedule == "auto":
        schedule = "linear" if in_phases(objective) else "wsd"
    recipe = replace(recipe, training=replace(training, schedule=schedule))
    objective.mean_progress = training.decay / 2 if schedule == "wsd" else 0.5
    refuse_settings(recipe, objective)
    return objective, recipe


def build_reduction(optimizer: Optimizer, training: TrainingSection, world: World) -> Reduction | FixedOrder:
    """Returns what sums the gradients of micro-batches and processes."""
    if training.summation != "fixed":
        return Reduction(world, optimizer.parameters)
    micro_batch = micro_batch_rows(training, world.size)
    micro_batches = check_fixed_order(training.batch_size, micro_batch, world.size)
    return FixedOrder(world, optimizer.parameters, micro_batches)


def identity_of(recipe: Recipe, objective: Objective, store: TokenStore, starts: Starts) -> dict[str, Any]:
    """Returns what, besides the recipe, must not change when the run resumes."""
    name = str(recipe.objective.get("name", "rtd"))
    identity = {
        "objective": OBJECTIVES.canonical_name(name),
        **OBJECTIVES.identity(name),
        "data": store.digest,
        "tokenizer": store.tokenizer_digest,
        "seed_scheme": seeds.SCHEME,
    }
    if objective.output:
        identity["output"] = objective.output
    return identity | {f"initial_{network}": source for network, source in starts.names.items()}


def _own_text_vector(given: TextVector | None, main: EncoderConfig) -> tuple[TextVector, tuple[str, ...]]:
    """Returns a new run's text vector, made of its teacher's or its start's, and notes for the user."""
    if given is None:
        return MEAN, ()
    own, notes = given.fitted(main.hidden_size, main.max_positions), tuple[str, ...]()
    if left_out := [name for name, _ in given.steps if name not in dict(own.steps)]:
        steps = " and ".join(dict.fromkeys(left_out))
        notes = (f"{steps} of the teacher's vectors left out: its width is not the student's",)
    if own.prompt:
        notes += (f"the prompt {own.prompt!r} is kept for electra embed, and not part of the training text",)
    return own, notes


# The run, at its step


@contextmanager
def start(
    recipe: Recipe,
    folder: Path,
    store: TokenStore,
    world: World,
    *,
    starts: Starts | None = None,
    name: str = "",
    command: str = "",
    extend: bool = False,
    began: float | None = None,
    say: Say = quiet,
    progress: Progress = no_progress,
) -> Iterator[RunState]:
    """Starts a run in `folder`, or resumes the one that is there. Closes the ledger after the block.

    `name` and `command` are for the record, `extend` makes the run in the folder as long as `recipe` says.
    `began` is when the command began, by the monotonic clock (None: now): a time budget counts from then on.

    Raises CheckpointError if every checkpoint is damaged, ConfigError if a setting or the budget does not
    fit, FullDisk without room for the run, and RunFolderError if the folder contains something else.
    """
    recorded = read_record(folder)
    began = time.monotonic() if began is None else began
    recipe = with_recorded_schedule(recipe, recorded)
    then = {} if recorded is None else parts_of(recorded)[-1]
    if world.size == 1 and recipe.training.device in ("auto", "cpu"):
        threads.set_threads(recipe.training.threads, then.get("threads"))
    own = None if recorded is None else text_vector_of(folder)
    from_models = starts is not None and bool(starts.names)

    def build(steps: int | None) -> RunState:
        training = replace(recipe.training, steps=steps)
        return build_run(replace(recipe, training=training), folder, store, world, starts, text_vector=own)

    steps = known_steps(recipe.training, recorded)
    run = build(steps)
    if recorded is not None:
        refuse_changes(with_length(recorded, run) if extend else recorded, run)
    lines: list[tuple[str, str]] = []  # to record: event and message
    if not steps:
        run, lines = resolved(run, build, recorded if extend else None, began, say)
        if not from_models:
            too_little = estimate.too_little(run, run.total_steps, store.train.num_tokens)
            lines.append(("budget", too_little))
    starts = None  # frees the models that it started from
    if recorded is not None:
        take_up(run, recorded, longer=extend and not steps)
    warnings = compile_run(run, None if recorded is None else bool(then.get("compiled")))
    warnings += checkpoint.resume(run)
    if recorded is not None and run.step < run.total_steps:
        warnings += record_resumption(run, RunFolder(folder).record)
    if run.step < run.total_steps and world.is_main:
        checkpoint.refuse_full_disk(run)
    if not run.step:
        if not from_models and recipe.model.start == "auto":
            initialise_tokens(run.pair, store)
        warnings += run.notes
        if recorded is None and world.is_main:
            record_beginning(run, name, command)
    if run.budget_seconds is not None and world.is_main:
        run.clock = budget.Clock(run.budget_seconds, began - run.spent, run.step)
        run.repeated_until = int((RunFolder(folder).ledger().last("train") or {}).get("step", 0))
    run.said_total = run.total_steps
    lines = opening_lines(run, warnings, lines)
    rows = run.telemetry.open(run.step, say, progress)
    run.evaluated_steps = {int(row["step"]) for row in rows if row.get("kind") == "eval"}
    run.collapse_reported = any(row.get("event") == "collapse" for row in rows)
    try:
        for event, line in lines:
            if line:
                run.telemetry.record_event(run.step, event, line)
        yield run
    finally:
        run.telemetry.close()


def with_recorded_schedule(recipe: Recipe, recorded: Mapping[str, Any] | None) -> Recipe:
    """Returns the recipe with the schedule that "auto" chose when the run began."""
    if recorded is None or recipe.training.schedule != "auto":
        return recipe
    was = recorded["training"].get("schedule", "linear")
    return replace(recipe, training=replace(recipe.training, schedule=was))


def known_steps(training: TrainingSection, recorded: Mapping[str, Any] | None) -> int | None:
    """Returns the number of updates if it was set, or resolved from the same budget before."""
    if training.budget is None:
        return training.steps
    then = {} if recorded is None else recorded["training"]
    return int(then["steps"]) if then.get("budget") == training.budget else None


def resolved(
    run: RunState,
    build: Callable[[int | None], RunState],
    extended: Mapping[str, Any] | None,
    began: float,
    say: Say,
) -> tuple[RunState, list[tuple[str, str]]]:
    """Returns the run with the number of updates of its budget, and lines to record about it.

    `extended` is the record of a run that becomes longer. A run with which a time was measured is built anew.
    """
    shared = {} if extended is None else shared_checkpoint(RunFolder(run.folder), extended)
    done = int(shared.get("step", 0)), float(shared.get("spent", shared.get("seconds", 0.0)))
    world = run.world
    found = estimate.resolve_budget(run, say, began, done) if world.is_main else None
    steps, note = world.broadcast(found) or (0, "")
    if run.budget_seconds is None:
        run.course = Course([(0, steps)])
        run.recipe = replace(run.recipe, training=replace(run.training, steps=steps))
    else:
        run = build(steps)  # again, because measuring changed its weights
    return run, [("budget", note)]


def take_up(run: RunState, recorded: Mapping[str, Any], *, longer: bool) -> None:
    """Gives a run the course of the one in its folder, or the folder its greater length (`longer`)."""
    if longer and recorded["training"]["steps"] != run.total_steps:
        if run.world.is_main:
            extend_folder(run, recorded)
        run.world.barrier()
    else:
        restore_clock_state(run, recorded)


def record_beginning(run: RunState, name: str, command: str) -> None:
    """Writes the record of a new run, and the files of its text vector."""
    folder = RunFolder(run.folder)
    if folder.vectors.exists():  # of a run that was killed before it began
        durable.remove_directory(folder.vectors)
    if files := run.text_vector.files:
        durable.commit_directory(folder.vectors, dict(files))
    folder.write_record(make_record(run, name, command))


def opening_lines(run: RunState, warnings: list[str], budget_lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns what is recorded when a run starts or resumes: events and messages ("": none)."""
    lines = [("warning", line) for line in warnings] + budget_lines
    folder = RunFolder(run.folder)
    if run.step and run.world.is_main:
        lost_rows = folder.lost_rows(checkpoints.at_step(folder.checkpoints, run.step))
        lines.insert(0, (LOST_ROWS, f"warning: {lost_rows}" if lost_rows else ""))
    if run.step < run.total_steps:
        event = "resumed" if run.step else "started"
        lines.append((event, f"{event} at step {run.step} of {run.total_steps}: {run.describe()}"))
    return lines
