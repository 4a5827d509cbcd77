"""The training that one process does: open or prepare the store, train, export the networks, report.

Where several processes share a training, each runs this, and the leading one does all that is not training.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from electra.artifacts.run import RunFolder
from electra.artifacts.store import StoreFolder
from electra.commands.framework.display import Display, Terminal
from electra.commands.parts.stores import build, existing_tokenizer
from electra.commands.parts.warm_start import layers_in, warm_start, with_gentler_rate
from electra.data.settings import CorpusConfig
from electra.foundation.errors import ElectraError, Interrupted, RunFolderError, out_of_memory
from electra.foundation.machine import is_distributed, launch_variable
from electra.foundation.signals import StopRequest
from electra.training.recipe import Recipe, TokenizerSection, make_recipe

if TYPE_CHECKING:
    from electra.data.store import TokenStore
    from electra.model.pair import Generator
    from electra.training.run import Run as Training

THRESHOLD_ROWS = 32  # of held-out text, by which the language model's threshold is chosen
S = TypeVar("S", TokenizerSection, CorpusConfig)
EXAMPLES = 2  # worked examples: sentences of the held-out text


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


def train_here(recipe: Recipe, inputs: Inputs, display: Display) -> None:
    """Train in this process, alone or as one of several. The others of a process that fails must be ended."""
    from electra.training.distributed import explain_losses, leave_world

    leads = not is_distributed() or launch_variable("RANK") == 0
    if leads:
        display.progress("loading torch")
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
    content, recipe = store.check(), as_prepared(recipe, store)
    world = join_world()
    warm = warm_start(inputs.init_discriminator, inputs.init_generator, recipe, store.tokenizer)
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
    if leads:
        refuse_other_store(RunFolder(inputs.folder))
    given = wanted or layers_in(inputs.init_discriminator or "")[0] or inputs.init_generator
    section, corpus = replace(recipe.tokenizer, source=given), inputs.corpus
    return build(corpus, out, section, recipe.data, workers=inputs.workers, display=display).tokens


def as_prepared(recipe: Recipe, store: TokenStore) -> Recipe:
    """The recipe with the settings that the store was made with, as far as it tells them."""
    told = store.description.get("settings", {})
    return replace(
        recipe,
        tokenizer=_with_known(recipe.tokenizer, told.get("tokenizer", {})),
        data=_with_known(recipe.data, told.get("corpus", {})),
    )


def _with_known(section: S, told: Mapping[str, Any]) -> S:
    names = {field.name for field in fields(section)}
    return replace(section, **{name: told[name] for name in names & set(told)})


def refuse_other_store(run: RunFolder) -> None:
    """Before text is prepared into a run that was trained on a store from elsewhere."""
    launch_variable = run.record.get("environment", {}).get("store") if run.exists() else None
    if (
        launch_variable
        and not run.store.exists()
        and Path(launch_variable).resolve() != run.store.path.resolve()
    ):
        fix = "Give that as `store` to resume, or choose another `out`"
        raise RunFolderError(f"this run was trained on the store {launch_variable}", where=run.path, fix=fix)


def finish(run: Training) -> None:
    """Export the networks, score the example sentences, write the report; what exists already stays."""
    from electra.commands.results.model import Model
    from electra.exchange.card import card_of_language_model, card_of_run
    from electra.exchange.huggingface import export_network
    from electra.foundation import durable
    from electra.inference.examples import example_rows
    from electra.pages.run import write_report
    from electra.pages.svg import left_out

    files = RunFolder(run.folder)
    folder, pair, examples, page = run.folder, run.pair, files.examples, files.page
    if examples.exists() and page.exists():
        run.telemetry.say(f"{folder} is complete: {run.total_steps} steps, report in {page}")
        return
    examples.unlink(missing_ok=True)  # written last but the report: the mark of a finished export
    if run.store.audit:
        durable.commit_json(files.audit, run.store.audit)
    run.telemetry.event(run.step, "finished", f"finished {run.step} steps in {run.seconds:.0f} s of training")
    texts = example_texts(run.store)
    pair.cpu()  # whole: one network's weights may be made of another's
    for row in run.networks.rows:
        if row.exported:
            card = card_of_run(folder, row.head)
            export_network(folder / row.name, pair.named[row.name], run.store.tokenizer, card)
    named_by = run.objective.language_model(pair)
    if named_by is not None and named_by is not pair.main:
        card = card_of_language_model(folder, naming_threshold(run, named_by))
        export_network(files.language_model.path, named_by, run.store.tokenizer, card)
    both, seed = Model(folder, device="cpu").pair(), run.rows.seed
    rows = [{"text": text, "rows": example_rows(*both, text, seed=seed)} for text in texts]
    durable.commit_json(examples, rows)
    files.record_digests()
    write_report(folder)
    run.telemetry.say(f"models saved to {folder}, report in {page}")
    if note := left_out(page):
        run.telemetry.say(f"the report was {note}")


def example_texts(store: TokenStore) -> list[str]:
    """Held-out sentences for worked examples."""
    from electra.data.sentences import sentences_of

    return sentences_of(store.heldout, store.tokenizer, EXAMPLES)


def naming_threshold(run: Training, language_model: Generator) -> float | None:
    """P(replaced) with the highest F1 at finding planted words in held-out text; None: it is too short."""
    import numpy as np

    from electra.exchange.load import Loaded
    from electra.inference.mlm_detection import detect_by_mlm, insert_wrong_words
    from electra.training.evaluation import best_threshold

    encoder, tokenizer = language_model.encoder.eval(), run.store.tokenizer
    judge = Loaded(encoder, language_model.head, encoder.config, tokenizer, "generator", (), run.folder)
    held_out = run.heldout.batch(0, min(THRESHOLD_ROWS, run.heldout.num_blocks))
    texts = [tokenizer.decode(part) for row in held_out.input_ids for part in np.array_split(row, 4)]
    planted = insert_wrong_words(tokenizer, [text for text in texts if text.strip()])
    found = detect_by_mlm(judge, [text for text, _ in planted])
    p, replaced = [], []
    for (_, starts), detection in zip(planted, found, strict=True):
        p += [word.p_replaced for word in detection.words]
        replaced += [word.start in starts for word in detection.words]
    odds = np.clip(np.array(p), 1e-12, 1 - 1e-12)
    marks = np.array(replaced)
    return best_threshold(np.log(odds / (1 - odds)), marks) if 0 < marks.sum() < len(marks) else None


def errors_of(job: Path) -> Path:
    """Where the processes of a job leave the errors that end them, one a line."""
    return job.with_suffix(".failed")


def main(argv: Sequence[str]) -> int:
    """One of the processes that `run_training` starts to share a training."""
    from electra.training.launch import stop_with_launcher

    stop_with_launcher()
    job = Path(argv[0])
    given = json.loads(job.read_text())
    try:
        with Terminal(lines=True) as display:
            train_here(make_recipe(given["recipe"]), Inputs(**given["inputs"]), display)
    except Interrupted as stop:
        return stop.exit_code
    except BaseException as raised:
        error = raised if isinstance(raised, ElectraError) else out_of_memory(raised)
        if error is None:
            traceback.print_exc()
        else:
            with open(errors_of(job), "a", encoding="utf-8") as file:
                file.write(json.dumps(error.to_json()) + "\n")
        code = 1 if error is None else error.exit_code
    else:
        return 0
    sys.stderr.flush()
    os._exit(code)  # no collective can be finished any more: leave, and the launcher ends the others


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
