"""Trains a recipe on text or on a store: prepares the store, trains, exports the networks, writes the report.

Under torchrun, several processes share the training: each runs this, and the main one does everything but the
training.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.model import DETECTION
from electra.artifacts.run import RunFolder
from electra.commands.framework.display import Display
from electra.commands.parts.stores import build, check_unknown, existing_tokenizer, refuse_preparing
from electra.commands.parts.warm_start import warm_start
from electra.foundation.errors import AbsentNetwork, Interrupted, ModelError, RunFolderError
from electra.foundation.machine import is_distributed, launch_variable
from electra.foundation.progress import doing
from electra.foundation.signals import StopRequest, stops_after
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    from electra.commands.results.folders import Run
    from electra.data.store import TokenStore
    from electra.inference.detector import Detector
    from electra.training.run import Run as Training

DETECTION_ROWS = 64  # rows of held-out text on which detection is measured
EXAMPLES, EXAMPLE_TOKENS = 2, 24  # beginnings of held-out documents, and tokens of each


@dataclass(frozen=True)
class Text:
    """What to train on: text, which is prepared in the run's folder, or a token store."""

    corpus: tuple[str, ...] = ()
    store: str | None = None
    workers: int | None = None  # processes that encode text (None: all cores)
    settings: tuple[str, ...] = ()  # names of those that were passed; about text, they must be the store's
    allow_unknown: bool = False  # whether to train on text with any share of unknown tokens


@dataclass(frozen=True)
class Origin:
    """Where a run comes from: what it starts with, and what its record says of that."""

    discriminator: str | None = None  # the model that the main network starts from (None: random weights)
    generator: str | None = None  # the same of the generator
    recipe: str = ""  # its name
    command: str = ""  # the command line or Python call
    began: float | None = None  # monotonic time of the command's start, from which a time budget counts
    extend: bool = False  # whether the run that is there is trained to a larger budget


def train_run(recipe: Recipe, text: Text, out: Path, origin: Origin, display: Display) -> Run:
    """Trains the complete `recipe` in the run folder `out`, or resumes, and returns the run."""
    from electra.commands.results.folders import Run
    from electra.training.distributed import leave_world, translate_disconnects
    from electra.training.record import read_record

    read_record(out)  # rejects a folder with something else in it before anything is written there
    if is_main():
        display.progress("loading torch")
    try:
        session = RunFolder(out).session(say=display.say, stop=lambda: False, is_main=is_main())
        with translate_disconnects(), session:
            store = open_store(text, recipe, out, display)
            train(with_store_settings(recipe, store), store, out, origin, display)
    except Interrupted:
        leave_world()
        raise
    leave_world()
    return Run(out)


def train(recipe: Recipe, store: TokenStore, out: Path, origin: Origin, display: Display) -> None:
    """Trains and exports, in a locked run folder. Raises Interrupted if it is stopped."""
    from electra.training.distributed import join_world
    from electra.training.loop import train as train_loop
    from electra.training.start import start

    store.check()
    world = join_world()
    started = start(
        recipe,
        out,
        store,
        world,
        warm=warm_start(origin.discriminator, origin.generator, recipe, store.tokenizer),
        name=origin.recipe,
        command=origin.command,
        extend=origin.extend,
        began=origin.began,
        say=display.say,
        progress=display.progress,
    )
    with StopRequest() as stop, started as training:
        tokenizer = RunFolder(out).tokenizer
        if world.is_main and not tokenizer.exists() and not RunFolder(out).store.exists():
            store.tokenizer.save(tokenizer)  # so that the run can be used without its store
        with stops_after("this update; a checkpoint is saved"):
            if not train_loop(training, stop):
                raise Interrupted(out, stop.exit_code or 143)
        if world.is_main:
            with stops_after("the models are saved"):
                finish(training)


def open_store(text: Text, recipe: Recipe, out: Path, display: Display) -> TokenStore:
    """Opens the store, or prepares the text in OUT/store in the main process while the others wait."""
    from electra.data.store import TokenStore

    run, source = RunFolder(out), recipe.tokenizer.source
    if text.store is not None:
        store = TokenStore.open(text.store, existing_tokenizer(source) if source else None)
        refuse_preparing(text.settings, recipe, store)
        check_unknown(store, text.allow_unknown, display)
        return store
    if not is_main():
        while not run.store.exists():  # before it joins the process group, whose timeout is short
            time.sleep(0.5)
        return TokenStore.open(run.store.path)
    recorded = run.record.get("environment", {}).get("store") if run.exists() else None
    if recorded and not run.store.exists() and Path(recorded).resolve() != run.store.path.resolve():
        fix = "Pass it as `store` to resume, or choose another `out`"
        raise RunFolderError(f"this run was trained on the store {recorded}", where=run.path, fix=fix)
    how: dict[str, Any] = {"workers": text.workers, "allow_unknown": text.allow_unknown, "display": display}
    return build(text.corpus, run.store.path, recipe.tokenizer, recipe.data, **how)


def is_main() -> bool:
    """Whether this process writes: it is alone, or the launcher gave it the first rank."""
    return not is_distributed() or launch_variable("RANK") == 0


def with_store_settings(recipe: Recipe, store: TokenStore) -> Recipe:
    """Returns the recipe with the settings that the store was made with, as far as they are recorded."""
    recorded = store.description.get("settings", {})

    def known(section: Any, settings: Mapping[str, Any]) -> Any:
        names = {field.name for field in fields(section)}
        return replace(section, **{name: settings[name] for name in names & set(settings)})

    tokenizer = known(recipe.tokenizer, recorded.get("tokenizer", {}))
    return replace(recipe, tokenizer=tokenizer, data=known(recipe.data, recorded.get("corpus", {})))


def finish(run: Training) -> None:
    """Exports the networks, scores example sentences and writes the report. Keeps what exists already."""
    from electra.commands.results.model import Model
    from electra.exchange.card import card_of_language_model, card_of_run
    from electra.exchange.huggingface import export_network
    from electra.exchange.pooling import MEAN
    from electra.foundation import durable
    from electra.inference.examples import example_rows
    from electra.model.pair import AnyNetwork, EncoderAlone
    from electra.pages import figures
    from electra.pages.run import read_run, verdict, write_page

    files = RunFolder(run.folder)
    folder, pair, examples, page = run.folder, run.pair, files.examples, files.page
    if examples.exists() and page.exists():
        run.telemetry.say(f"{folder} is complete: {run.total_steps} steps, report in {page}")
        return
    examples.unlink(missing_ok=True)  # written last, except for the report; marks a finished export
    if run.store.audit:
        durable.commit_json(files.audit, run.store.audit)
    run.telemetry.record_event(
        run.step, "finished", f"finished {run.step} steps in {run.seconds:.0f} s of training"
    )
    beginnings = (
        run.store.tokenizer.decode(run.store.heldout.document(index)[:EXAMPLE_TOKENS])
        for index in range(run.store.heldout.num_documents)
    )
    texts = [*islice(filter(None, map(str.strip, beginnings)), EXAMPLES)]
    pair.cpu()  # all at once: networks may share weights
    for row in run.networks.rows:
        if row.exported:
            network: AnyNetwork = pair.named[row.name]
            head = row.head
            if head == "discriminator" and not files.trains_detection(files.record):
                network, head = EncoderAlone(network.encoder), "encoder"
            card = card_of_run(folder, head)
            vector = run.text_vector if row.role == "main" else MEAN
            export_network(folder / row.name, network, run.store.tokenizer, card, text_vector=vector)
    mlm = run.objective.language_model(pair)
    if mlm is not None and mlm is not pair.main:
        card = card_of_language_model(folder)
        export_network(files.language_model.path, mlm, run.store.tokenizer, card, text_vector=run.text_vector)
    rows = []
    doing("scoring held-out text")
    with suppress(ModelError):  # an encoder alone, or energies instead of probabilities
        measure_detection(run, Model(folder, device="cpu").detector())
    with suppress(AbsentNetwork):  # an encoder alone neither fills nor scores a text
        networks, seed = Model(folder, device="cpu").pair(), run.training.seed
        rows = [{"text": text, "rows": example_rows(*networks, text, seed=seed)} for text in texts]
    durable.commit_json(examples, rows)
    doing("writing the report")
    write_page(folder)
    run.telemetry.say(verdict(read_run(folder)))
    spent = "" if run.clock is None else f"; {run.training.budget} asked, {run.clock.spent:.0f} s spent"
    run.telemetry.say(f"models saved to {folder}, report in {page}{spent}")
    if note := figures.missing():
        run.telemetry.say(f"the report was {note}")


def measure_detection(run: Training, detector: Detector) -> None:
    """Writes what the thresholds of `electra detect` do on held-out text beside a finished run's network."""
    import numpy as np

    from electra.foundation import durable
    from electra.inference.detector import measure

    held_out = run.heldout.batch(0, min(DETECTION_ROWS, run.heldout.num_blocks))
    rows = (run.store.tokenizer.decode(ids) for row in held_out.input_ids for ids in np.array_split(row, 4))
    if found := measure(detector, rows, "the run's held-out text"):
        network = detector.discriminator or detector.main
        durable.commit_json(network.folder / DETECTION, asdict(found))
