"""Trains in one process: opens or prepares the store, trains, exports the networks, and writes the report.

If several processes share the training, each runs this; everything but the training is done by the main one.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from electra.artifacts.run import RunFolder
from electra.artifacts.store import StoreFolder
from electra.commands.framework.display import Display, Terminal
from electra.commands.parts.stores import build, existing_tokenizer, refuse_preparing
from electra.commands.parts.warm_start import split_layers, warm_start, with_reduced_rate, with_shape
from electra.data.settings import CorpusConfig
from electra.foundation.errors import (
    AbsentNetwork,
    ConfigError,
    ElectraError,
    Interrupted,
    RunFolderError,
    out_of_memory,
)
from electra.foundation.machine import is_distributed, launch_variable
from electra.foundation.options import TrackerName
from electra.foundation.signals import StopRequest
from electra.training.recipe import Recipe, TokenizerSection, make_recipe

if TYPE_CHECKING:
    from electra.data.sources import Argument
    from electra.data.store import TokenStore
    from electra.model.pair import Generator
    from electra.training.run import Run as Training

THRESHOLD_ROWS = 32  # rows of held-out text on which the language model's threshold is chosen
S = TypeVar("S", TokenizerSection, CorpusConfig)
EXAMPLES = 2  # example sentences from the held-out text


@dataclass(frozen=True)
class Inputs:
    """What training needs besides the recipe."""

    out: str
    corpus: tuple[Argument, ...] = ()
    store: str | None = None
    init_discriminator: str | None = None
    init_generator: str | None = None
    workers: int | None = None
    processes: int = 1
    recipe_name: str = ""
    settings: tuple[str, ...] = ()
    """The settings that the user passed besides the recipe, such as "training.length"."""
    learning_rate_is_set: bool = False
    """Whether the user set the learning rate, rather than a recipe for random initialization."""
    command: str = ""
    """The command line or Python call, for the record."""
    track: TrackerName | None = None
    """The experiment tracker that gets the measurements."""
    extend: bool = False
    """Whether the run in `out` is trained to a larger budget."""

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.out)


def train_here(recipe: Recipe, inputs: Inputs, display: Display) -> None:
    """Trains in this process, alone or as one of several. If it fails, the caller must end the others."""
    from electra.training.distributed import leave_world, translate_disconnects

    is_main = not is_distributed() or launch_variable("RANK") == 0
    if is_main:
        display.progress("loading torch")
    try:
        session = RunFolder(inputs.folder).session(say=display.say, stop=lambda: False, is_main=is_main)
        with translate_disconnects(), session:
            train(recipe, inputs, display, is_main)
    except Interrupted:
        leave_world()
        raise
    leave_world()


def train(recipe: Recipe, inputs: Inputs, display: Display, is_main: bool) -> None:
    """Prepares the store, trains and exports, in a locked run folder. Raises Interrupted if it is stopped."""
    from electra.training.distributed import join_world
    from electra.training.loop import train as train_loop
    from electra.training.start import start

    refuse_early(recipe, inputs)
    store = open_store(inputs, recipe, display, is_main)
    check, recipe = store.check(), with_store_settings(recipe, store)
    world = join_world()
    warm = warm_start(inputs.init_discriminator, inputs.init_generator, recipe, store.tokenizer)
    if warm is not None:
        recipe = with_shape(recipe, warm, inputs.settings)
        if not inputs.learning_rate_is_set:
            recipe, warm = with_reduced_rate(recipe, warm, inputs.folder)
    started = start(
        recipe,
        inputs.folder,
        store,
        world,
        warm=warm,
        name=inputs.recipe_name,
        command=inputs.command,
        extend=inputs.extend,
        track=inputs.track,
        say=display.say,
        progress=display.progress,
    )
    with StopRequest() as stop, started as training:
        tokenizer = RunFolder(inputs.folder).tokenizer
        if is_main and inputs.store is not None and not tokenizer.exists():
            store.tokenizer.save(tokenizer)  # so that the run can be used without its store
        if not train_loop(training, stop):
            raise Interrupted(inputs.out, stop.exit_code or 143)
        check.raise_if_damaged()  # a large store is checked while the training runs
        if is_main:
            finish(training)


def refuse_early(recipe: Recipe, inputs: Inputs) -> None:
    """Checks what would otherwise be found only after the text is encoded.

    Raises:
        ConfigError: there is no such device, size or tracker, or the model to start from has another shape.
        ModelError: the model to start from cannot be loaded.
    """
    from electra.model.precision import pick_device
    from electra.model.sizes import resolve_size

    pick_device(recipe.training.device, key="training.device")
    resolve_size(recipe.model.size, recipe.model.layers, recipe.model.hidden_size)
    if inputs.track is not None:
        from electra.exchange.trackers import require_tracker

        require_tracker(inputs.track)
    if any(name.startswith("model.") for name in inputs.settings):
        warm = warm_start(inputs.init_discriminator, inputs.init_generator, recipe)
        if warm is not None:
            with_shape(recipe, warm, inputs.settings)


def open_store(inputs: Inputs, recipe: Recipe, display: Display, is_main: bool = True) -> TokenStore:
    """Opens the store, or prepares the corpus in OUT/store in the main process while the others wait.

    Raises the errors of `build` and `refuse_preparing`, also RunFolderError if the run was trained on a store
    elsewhere.
    """
    from electra.data.store import TokenStore

    source = recipe.tokenizer.source
    if inputs.store is not None:
        tokenizer = existing_tokenizer(source) if source else None
        store = TokenStore.open(inputs.store, tokenizer)
        refuse_preparing(inputs.settings, recipe, store)
        return store
    out = RunFolder(inputs.folder).store.path
    if not is_main:
        while not StoreFolder(out).exists():  # before it joins the process group, whose timeout is short
            time.sleep(0.5)
        return TokenStore.open(out)
    require_same_store(RunFolder(inputs.folder))
    source = source or split_layers(inputs.init_discriminator or "")[0] or inputs.init_generator
    section = replace(recipe.tokenizer, source=source)
    if not StoreFolder(out).exists():
        require_same_tokenizer(source, recipe, inputs)
    return build(inputs.corpus, out, section, recipe.data, workers=inputs.workers, display=display).tokens


def require_same_tokenizer(source: str | None, recipe: Recipe, inputs: Inputs) -> None:
    """Checks that the run's models can read text that the tokenizer `source` encodes, before it does so.

    It must be theirs, or cut from theirs. Opening the models checks it again, once the text is encoded.

    Raises:
        ConfigError: a model has another tokenizer.
        ModelError: a model is missing, or a fine-tuning folder, or is not supported.
    """
    from electra.artifacts.model import ModelFolder
    from electra.data.cut_vocabulary import ids_in_original
    from electra.data.tokenizer import Tokenizer
    from electra.exchange.configs import read_config
    from electra.exchange.pooling import transformer_folder
    from electra.exchange.run_folder import find_tokenizer, holds_networks
    from electra.exchange.source import locate

    teacher = str(recipe.objective.get("teacher") or "")
    models = (teacher, split_layers(inputs.init_discriminator or "")[0], inputs.init_generator or "")
    for name in filter(None, dict.fromkeys(models)):
        if holds_networks(path := locate(name)):
            own = find_tokenizer(path)
        else:
            read_config(folder := transformer_folder(path))
            own = Tokenizer.load(ModelFolder(folder).shares_encoder_with or folder)
        used = existing_tokenizer(source) if source else own
        if used.digest != own.digest and ids_in_original(used, own) is None:
            raise ConfigError(
                f"{source} has another tokenizer than {name}, which could not read the text",
                key="tokenizer.source",
                fix="Use the same tokenizer for all models: omit `tokenizer.source`, or choose other models",
            )


def with_store_settings(recipe: Recipe, store: TokenStore) -> Recipe:
    """Returns the recipe with the settings that the store was made with, as far as they are recorded."""
    recorded = store.description.get("settings", {})
    return replace(
        recipe,
        tokenizer=_with_known(recipe.tokenizer, recorded.get("tokenizer", {})),
        data=_with_known(recipe.data, recorded.get("corpus", {})),
    )


def _with_known(section: S, recorded: Mapping[str, Any]) -> S:
    names = {field.name for field in fields(section)}
    return replace(section, **{name: recorded[name] for name in names & set(recorded)})


def require_same_store(run: RunFolder) -> None:
    """Raises RunFolderError if the run was trained on a store elsewhere, before text is prepared for it."""
    recorded = run.record.get("environment", {}).get("store") if run.exists() else None
    if recorded and not run.store.exists() and Path(recorded).resolve() != run.store.path.resolve():
        fix = "Pass it as `store` to resume, or choose another `out`"
        raise RunFolderError(f"this run was trained on the store {recorded}", where=run.path, fix=fix)


def finish(run: Training) -> None:
    """Exports the networks, scores example sentences and writes the report. Keeps what exists already."""
    from electra.commands.results.model import Model
    from electra.exchange.card import card_of_language_model, card_of_run
    from electra.exchange.huggingface import export_network
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
    texts = example_texts(run.store)
    pair.cpu()  # all at once: networks may share weights
    for row in run.networks.rows:
        if row.exported:
            network: AnyNetwork = pair.named[row.name]
            head = row.head
            if head == "discriminator" and not files.trains_detection(files.record):
                network, head = EncoderAlone(network.encoder), "encoder"
            card = card_of_run(folder, head)
            export_network(folder / row.name, network, run.store.tokenizer, card)
    mlm = run.objective.language_model(pair)
    if mlm is not None and mlm is not pair.main:
        card = card_of_language_model(folder, mlm_threshold(run, mlm))
        export_network(files.language_model.path, mlm, run.store.tokenizer, card)
    rows = []
    with suppress(AbsentNetwork):  # an encoder alone neither fills nor scores a text
        networks, seed = Model(folder, device="cpu").pair(), run.training.seed
        rows = [{"text": text, "rows": example_rows(*networks, text, seed=seed)} for text in texts]
    durable.commit_json(examples, rows)
    files.record_digests()
    write_page(folder)
    run.telemetry.say(verdict(read_run(folder)))
    run.telemetry.say(f"models saved to {folder}, report in {page}")
    if note := figures.missing():
        run.telemetry.say(f"the report was {note}")


def example_texts(store: TokenStore) -> list[str]:
    """Returns held-out sentences for the examples of the report."""
    from electra.data.sentences import sentences_of

    return sentences_of(store.heldout, store.tokenizer, EXAMPLES)


def mlm_threshold(run: Training, language_model: Generator) -> float | None:
    """Returns the P(replaced) with the best F1 at detecting words inserted into held-out text.

    None if the held-out text is too short.
    """
    import numpy as np

    from electra.exchange.load import Loaded
    from electra.inference.mlm_detection import detect_by_mlm, insert_wrong_words
    from electra.training.evaluation import best_threshold

    encoder, tokenizer = language_model.encoder.eval(), run.store.tokenizer
    scorer = Loaded(encoder, language_model.head, encoder.config, tokenizer, "generator", (), run.folder)
    held_out = run.heldout.batch(0, min(THRESHOLD_ROWS, run.heldout.num_blocks))
    texts = [tokenizer.decode(ids) for row in held_out.input_ids for ids in np.array_split(row, 4)]
    corrupted = insert_wrong_words(tokenizer, [text for text in texts if text.strip()])
    detections = detect_by_mlm(scorer, [text for text, _ in corrupted])
    scores, is_replaced = [], []
    for (_, starts), detection in zip(corrupted, detections, strict=True):
        scores += [word.p_replaced for word in detection.words]
        is_replaced += [word.start in starts for word in detection.words]
    probabilities, labels = np.clip(np.array(scores), 1e-12, 1 - 1e-12), np.array(is_replaced)
    if not 0 < labels.sum() < len(labels):
        return None
    return best_threshold(np.log(probabilities / (1 - probabilities)), labels)


def error_file(job: Path) -> Path:
    """Returns the file in which the processes of a job record the errors that end them, one per line."""
    return job.with_suffix(".failed")


def main(argv: Sequence[str]) -> int:
    """Runs one of the processes that `run_training` starts to share the training; returns its exit code."""
    from electra.training.launch import stop_with_launcher

    stop_with_launcher()
    job = Path(argv[0])
    description = json.loads(job.read_text())
    try:
        with Terminal() as display:
            train_here(make_recipe(description["recipe"]), Inputs(**description["inputs"]), display)
    except Interrupted as stop:
        return stop.exit_code
    except BaseException as raised:
        error = raised if isinstance(raised, ElectraError) else out_of_memory(raised)
        if error is None:
            traceback.print_exc()
        else:
            with open(error_file(job), "a", encoding="utf-8") as file:
                file.write(json.dumps(error.to_json()) + "\n")
        code = 1 if error is None else error.exit_code
    else:
        return 0
    sys.stderr.flush()
    os._exit(code)  # no collective can finish any more: exit at once; the launcher ends the others


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
