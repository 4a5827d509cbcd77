"""A run: everything the loop needs, built from a recipe, a token store and a folder, or continued from what
the folder holds.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from electra import objectives, seeds
from electra.artifacts import checkpoints, harmless
from electra.artifacts.run import RunFolder
from electra.artifacts.session import Say, quiet, refuse_differences, refuse_strangers
from electra.config import differences, merge
from electra.data.batches import Batch, Batches
from electra.data.store import TokenStore
from electra.errors import ConfigError
from electra.extensions import OBJECTIVES
from electra.model.pair import Discriminator, Generator, Pair, build_pair
from electra.model.precision import pick_device, pick_precision
from electra.model.sizes import EncoderConfig, chosen_size, discriminator_config, generator_config
from electra.objectives.parts.interface import Objective, Shapes
from electra.objectives.parts.statistics import Statistics
from electra.training import budget, checkpoint, compilation
from electra.training.distributed import Reduction, World
from electra.training.optimizer import Optimizer
from electra.training.recipe import Recipe, make_recipe
from electra.training.telemetry import Progress, Telemetry, unseen


@dataclass(frozen=True)
class WarmStart:
    """Networks to begin from instead of fresh weights: their shapes, and how to fill a pair with them."""

    names: dict[str, str]
    generator: EncoderConfig | None
    discriminator: EncoderConfig | None
    load: Callable[[Pair], tuple[str, ...]]


@dataclass
class Run:
    recipe: Recipe
    folder: Path
    store: TokenStore
    pair: Pair
    objective: Objective
    optimizer: Optimizer
    reduction: Reduction
    batches: Batches
    heldout: Batches
    world: World
    device: torch.device
    precision: str
    telemetry: Telemetry
    flops_per_step: float
    identity: dict[str, Any]
    total_steps: int = 0
    step: int = 0  # finished updates
    seconds: float = 0.0  # spent in updates
    saved: int = -1  # the step of the newest checkpoint
    notes: tuple[str, ...] = ()  # on the networks it began from
    evaluated: set[int] = field(default_factory=set)
    alarmed: bool = False  # the collapse alarm rings once
    compiled: bool = False  # its layers are
    window: list[float] = field(default_factory=list)  # seconds of the updates since the last row

    @property
    def tokens_per_step(self) -> int:
        return self.recipe.training.batch_size * self.recipe.training.length

    @property
    def micro_batch_size(self) -> int:
        share = self.recipe.training.batch_size // self.world.size
        return min(self.recipe.training.micro_batch or share, share)

    def networks(self) -> list[tuple[str, Generator | Discriminator]]:
        pair = self.pair
        named = (
            ("generator", pair.generator),
            ("discriminator", pair.discriminator),
            ("sampler", pair.sampler),
        )
        return [(kind, network) for kind, network in named if network is not None]

    def micro_batches(self, step: int) -> list[Batch]:
        """This process's rows of the global batch at `step`, in pieces that fit one forward pass."""
        share = self.recipe.training.batch_size // self.world.size
        first, last = self.world.rank * share, (self.world.rank + 1) * share
        starts = range(first, last, self.micro_batch_size)
        size = self.recipe.training.batch_size
        batches = [
            self.batches.batch(step, size, start, min(start + self.micro_batch_size, last))
            for start in starts
        ]
        # Compiled layers always get the mask, needed or not: they are compiled once, not twice.
        return [replace(batch, packed=True) for batch in batches] if self.compiled else batches

    def batch_digest(self, step: int) -> str:
        """64 bits over the whole global batch: the ledger that shows that no example was repeated
        or skipped.
        """
        return self.batches.batch(step, self.recipe.training.batch_size).digest

    def progress(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "tokens": self.step * self.tokens_per_step,
            "flops": self.step * self.flops_per_step,
            "seconds": round(self.seconds, 3),
        }

    def evaluation_due(self) -> bool:
        every = self.recipe.training.evaluate_every or max(1, self.total_steps // 10)
        return self.step not in self.evaluated and (self.step % every == 0 or self.step == self.total_steps)

    def checkpoint_due(self) -> bool:
        every = self.recipe.training.checkpoint_every or max(1, self.total_steps // 20)
        return (
            self.saved < self.step
            and self.step > 0
            and (self.step % every == 0 or self.step == self.total_steps)
        )

    def log_due(self) -> bool:
        return self.step % self.recipe.training.log_every == 0 or self.step in (1, self.total_steps)


def network_shapes(recipe: Recipe, store: TokenStore, networks: str, warm: WarmStart | None = None) -> Shapes:
    """An objective without a discriminator trains its generator at the discriminator's size."""
    model = recipe.model
    size = chosen_size(model.size, model.layers, model.hidden_size)
    full = (
        warm and (warm.discriminator if networks in ("pair", "discriminator") else warm.generator)
    ) or discriminator_config(
        size,
        model.encoder,
        vocab_size=store.vocab_size,
        dropout=model.dropout,
        attention_dropout=model.attention_dropout,
        pad_id=store.specials.pad,
    )
    if recipe.training.length > full.max_positions:
        fix = f"Use at most {full.max_positions}"
        raise ConfigError(
            f"{recipe.training.length} tokens are more than the model's positions",
            key="training.length",
            fix=fix,
        )
    if networks == "generator":
        return Shapes(generator=full)
    if networks == "discriminator":
        return Shapes(discriminator=full)
    narrow = generator_config(full, model.generator_width or size.generator_width, model.generator_depth)
    if networks == "corrector":
        return Shapes(generator=full, sampler=narrow)
    return Shapes(generator=(warm and warm.generator) or narrow, discriminator=full)


def shapes_taken(shapes: Shapes, own: Shapes) -> tuple[str, ...]:
    """Notes on the networks that have the shape of the model they start from, and not the recipe's."""

    def told(one: EncoderConfig) -> str:
        return f"{one.num_layers} layers of {one.hidden_size}"

    return tuple(
        f"the {kind} has the shape of the model it starts from, {told(a)}; the recipe says {told(b)}"
        for kind, a, b in zip(shapes._fields, shapes, own, strict=True)
        if a is not None and b is not None and (a.num_layers, a.hidden_size) != (b.num_layers, b.hidden_size)
    )


def refuse_settings(recipe: Recipe, objective: Objective) -> None:
    """Some objectives cannot do without certain settings of [model]."""
    settings = {
        **vars(recipe.model),
        "generator_width": recipe.model.generator_width or chosen_size(recipe.model.size).generator_width,
    }
    wrong = [name for name, needed in objective.needs.items() if settings[name] != needed]
    if wrong:
        what = f"{settings[wrong[0]]!r} does not go with the objective {recipe.objective.get('name', 'rtd')}"
        needed = " ".join(f"`model.{name}={value}`" for name, value in objective.needs.items())
        raise ConfigError(what, key=f"model.{wrong[0]}", fix=f"It needs {needed}")


def build_run(
    recipe: Recipe, folder: Path, store: TokenStore, world: World, warm: WarmStart | None = None
) -> Run:
    """A run at step 0 with fresh weights; `start` decides what it really begins from."""
    training = recipe.training
    if training.batch_size % world.size:
        raise ConfigError(
            f"{training.batch_size} rows cannot be shared by {world.size} processes",
            key="training.batch_size",
        )
    if training.threads:
        torch.set_num_threads(training.threads)
    specials, statistics = store.specials._asdict(), Statistics(store)
    objective = objectives.create(
        recipe.objective, vocab_size=store.vocab_size, specials=specials, statistics=statistics
    )
    refuse_settings(recipe, objective)
    shapes = network_shapes(recipe, store, objective.networks, warm)
    device = pick_device(training.device, world.local_rank, "training.device")
    precision = pick_precision(training.precision, device)
    pair = build_pair(
        *shapes,
        heads=objective.heads(shapes),
        sharing=recipe.model.sharing,
        seed=training.seed,
        initialisation=recipe.model.initialisation,
    ).to(device)
    named = str(recipe.objective.get("name", "rtd"))
    identity = {
        "objective": OBJECTIVES.name_of(named),
        **OBJECTIVES.identity(named),
        "data": store.digest,
        "tokenizer": store.tokenizer_digest,
        "seed_scheme": seeds.SCHEME,
        "precision": precision,
    }
    if objective.output != "log-odds":
        identity["output"] = objective.output
    if warm is not None:
        identity |= {f"initial_{kind}": name for kind, name in warm.names.items() if name}
    notes = (
        ()
        if warm is None
        else (*shapes_taken(shapes, network_shapes(recipe, store, objective.networks)), *warm.load(pair))
    )
    objective.connect(pair)
    optimizer = Optimizer(pair, training)
    return Run(
        recipe=recipe,
        folder=folder,
        store=store,
        pair=pair,
        objective=objective,
        optimizer=optimizer,
        reduction=Reduction(world, optimizer.parameters),
        batches=Batches(store.train, length=training.length, seed=training.seed, specials=store.specials),
        heldout=Batches(store.heldout, length=training.length, seed=0, specials=store.specials),
        world=world,
        device=device,
        precision=precision,
        telemetry=Telemetry(folder, leads=world.leads, total_steps=training.steps or 0),
        flops_per_step=objective.sequence_flops(shapes, training.length) * training.batch_size,
        identity=identity,
        total_steps=training.steps or 0,
        notes=notes,
    )


@contextmanager
def start(
    recipe: Recipe,
    folder: Path,
    store: TokenStore,
    world: World,
    *,
    warm: WarmStart | None = None,
    name: str = "",
    command: str = "",
    say: Say = quiet,
    progress: Progress = unseen,
) -> Iterator[Run]:
    """Begin a run in `folder`, or resume the one it holds; refuse when that one is another run.

    name, command: what the user called the recipe, and how the run was asked for: kept in its record.
    """
    recorded = read_record(folder)
    steps = recipe.training.steps
    if (
        recorded is not None
        and recipe.training.budget is not None
        and recorded["training"].get("budget") == recipe.training.budget
    ):
        steps = recorded["training"]["steps"]
    elif recipe.training.budget is not None:
        steps = None
    run = build_run(
        replace(recipe, training=replace(recipe.training, steps=steps)), folder, store, world, warm
    )
    if recorded is not None:
        refuse_changes(recorded, run)
    told = ""
    if steps is None:
        steps, told = resolve_budget(run) if world.leads else (0, "")
        steps = int(str(world.broadcast(steps)))
        run = build_run(
            replace(recipe, training=replace(recipe.training, steps=steps)), folder, store, world, warm
        )
    warnings: list[str] = []
    compile_run(run, None if recorded is None else bool(recorded["environment"].get("compiled")), warnings)
    newest, damaged = checkpoints.newest(RunFolder(folder).checkpoints) if world.leads else (None, ())
    warnings.extend(damaged)
    chosen = world.broadcast(str(newest.path) if newest else None)
    if isinstance(chosen, str):
        state = checkpoint.restore(Path(chosen), run.pair, run.optimizer)
        run.step, run.seconds, run.saved = int(state["step"]), float(state["seconds"]), int(state["step"])
        if state.get("world_size", world.size) != world.size:
            warnings.append(
                f"continuing on {world.size} processes what {state['world_size']} began: not bit-exact"
            )
    else:
        warnings.extend(run.notes)
        if recorded is None and world.leads:
            RunFolder(folder).write_record(record(run, name, command))
    rows = run.telemetry.open(run.step, say, progress)
    run.evaluated = {int(row["step"]) for row in rows if row.get("kind") == "eval"}
    run.alarmed = any(row.get("event") == "collapse" for row in rows)
    try:
        for line in warnings:
            run.telemetry.event(run.step, "warning", line)
        if told:
            run.telemetry.event(run.step, "budget", told)
        if run.step < run.total_steps:
            event = "resumed" if run.step else "started"
            run.telemetry.event(
                run.step, event, f"{event} at step {run.step} of {run.total_steps}: {describe(run)}"
            )
        yield run
    finally:
        run.telemetry.close()


def describe(run: Run) -> str:
    def millions(module: torch.nn.Module) -> str:
        return f"{sum(p.numel() for p in module.parameters()) / 1e6:.1f} M"

    training, rows = run.recipe.training, run.batches.num_blocks
    networks = ", ".join(f"{kind} {millions(network)}" for kind, network in run.networks())
    return (
        f"{run.identity['objective']}, size {run.recipe.model.size}, {networks} parameters;"
        f" {training.batch_size} x {training.length} tokens an update,"
        f" {run.total_steps * training.batch_size / rows:.2f} epochs of {rows:,} rows; {run.device},"
        f" {run.precision}, {torch.get_num_threads()} threads, {run.world.size}"
        f" process{'es' if run.world.size > 1 else ''}{', compiled layers' if run.compiled else ''}"
    )


def compile_run(run: Run, before: bool | None, warnings: list[str]) -> None:
    """Compile the layers if that is asked for, or worth it; a run that continues stays with what it began
    with (`before`).
    """
    chosen = (
        before if before is not None and run.recipe.training.compile == "auto" else compilation.worth_it(run)
    )
    problem = compilation.compile_layers(run) if chosen else None
    [failures] = run.world.sum([float(problem is not None)])
    if failures:
        compilation.plain_layers(run)
        warnings.append(
            f"training without compiled layers: {problem or 'another process could not compile them'}"
        )
    if before is not None and before != run.compiled:
        warnings.append(
            f"continuing {'with' if run.compiled else 'without'} compiled layers, unlike before: not"
            " bit-exact"
        )


def resolve_budget(run: Run) -> tuple[int, str]:
    """The number of steps, and how a budget of time came to it."""
    from electra.training import rehearsal

    text, began, told = run.recipe.training.budget, time.monotonic(), ""
    if text is None:
        raise ConfigError(
            "no number of steps",
            key="training.steps",
            fix="Give `budget`, such as 30m, 50Mtokens or 5000steps",
        )

    def steps_in(seconds: float) -> float:
        nonlocal told
        if compilation.worth_it(run):
            compilation.compile_layers(run)
        costs = rehearsal.measure(run, seconds)
        told = f"as measured now ({costs}); the steps stand, so a machine that slows down takes longer"
        return costs.steps_in(seconds - (time.monotonic() - began), run)

    steps = budget.steps_for(
        text,
        tokens_per_step=run.tokens_per_step,
        flops_per_step=run.flops_per_step,
        steps_in_seconds=steps_in,
    )
    return steps, f"{text} is {steps:,} steps {told}" if told else ""


def record(run: Run, name: str, command: str) -> dict[str, dict[str, Any]]:
    """run.toml: the resolved recipe, what identifies the run, and what it ran on."""
    versions = {
        name: importlib.metadata.version(name) for name in ("torch", "numpy", "tokenizers", "safetensors")
    }
    environment: dict[str, Any] = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        **versions,
        "device": str(run.device),
    }
    environment |= {"command": command, "recipe": name}
    environment |= {"threads": torch.get_num_threads(), "processes": run.world.size, "compiled": run.compiled}
    shapes = {kind: asdict(network.encoder.config) for kind, network in run.networks()}
    sections = run.recipe.to_sections()
    sections["objective"] |= {"name": run.identity["objective"]}  # a file's name, without where it lay
    return {**sections, **shapes, "identity": run.identity, "environment": environment}


def read_record(folder: Path) -> dict[str, Any] | None:
    """The run.toml of a folder, None for a new or empty one; refuses a folder that holds something else."""
    run = RunFolder(folder)
    if run.exists():
        return run.record
    refuse_strangers(folder, run.RECORD, "a run", run.BESIDE)
    return None


def refuse_changes(recorded: Mapping[str, Any], run: Run) -> None:
    """A run goes on with the recipe, tokenizer and data it began with, or not at all."""
    old = RunFolder.settings(recorded)
    now = {**run.recipe.to_sections(), "identity": run.identity}
    named = now["objective"].get("name", "rtd")
    if OBJECTIVES.name_of(named) == OBJECTIVES.name_of(old["objective"].get("name", "rtd")):
        old["objective"]["name"] = named  # wherever its file lies: the digest in `identity` tells a change
    changed = [
        (name, a, b)
        for name, a, b in differences(with_defaults(old), with_defaults(now))
        if name not in harmless.WHEN_RESUMED
    ]
    changed = [(name, a, b) for name, a, b in changed if not (name == "training.steps" and b is None)]
    fix = ""
    if all(
        name in ("training.budget", "training.steps") for name, _, _ in changed
    ):  # the schedule hangs on the number of steps
        fix = (
            "Use the same, or train on in another `out`: `init_discriminator` and `init_generator` take this"
            " run's networks"
        )
    if any(name == "identity.objective_sha256" for name, _, _ in changed):
        file = run.identity["objective_file"]
        fix = f"{file} has changed since the run began: restore it, or use another `out`"
    refuse_differences(run.folder, "run", changed, fix=fix)


def with_defaults(sections: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded recipe with every option of today: a version that knew fewer of them trained with what are
    their defaults.
    """
    try:
        objective = asdict(objectives.module_of(str(sections["objective"].get("name", "rtd"))).Config())
    except ConfigError:  # not on this machine
        objective = {}
    plain: dict[str, Any] = _plain(merge({**make_recipe({}).to_sections(), "objective": objective}, sections))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return list(value) if isinstance(value, tuple) else value
