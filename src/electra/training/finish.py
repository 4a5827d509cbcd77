"""Ends a run: exports its networks, measures detection, scores example sentences and writes the report."""

from contextlib import suppress
from dataclasses import asdict
from itertools import islice

import numpy as np

from electra.artifacts.model_files import DETECTION
from electra.artifacts.run_files import RunFolder
from electra.exchange.card import card_of_run
from electra.exchange.huggingface import export_network
from electra.exchange.pooling import MEAN
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, ModelError
from electra.foundation.progress import doing
from electra.inference.detector import measure
from electra.inference.example_rows import example_rows
from electra.inference.model import Model
from electra.model.pair import AnyNetwork, EncoderAlone
from electra.pages import figures
from electra.pages.run_page import read_run, verdict, write_page
from electra.training.run import RunState

DETECTION_ROWS = 64  # rows of held-out text on which detection is measured
EXAMPLES, EXAMPLE_TOKENS = 2, 24  # beginnings of held-out documents, and tokens of each


def finish(run: RunState) -> None:
    """Exports the networks, scores example sentences and writes the report. Keeps what exists already."""
    files = RunFolder(run.folder)
    if files.examples.exists() and files.page.exists():
        done = f"{run.folder} is complete: {run.total_steps} steps, report in {files.page}"
        run.telemetry.say(done)
        return
    files.examples.unlink(missing_ok=True)  # written last, except for the report; marks a finished export
    if run.store.audit:
        durable.commit_json(files.audit, run.store.audit)
    message = f"finished {run.step} steps in {run.seconds:.0f} s of training"
    run.telemetry.record_event(run.step, "finished", message)
    texts = beginnings(run)
    export(run)
    doing("scoring held-out text")
    model = Model(str(run.folder), device="cpu")
    with suppress(ModelError):  # an encoder alone, or energies instead of probabilities
        measure_detection(run, model)
    rows = []
    with suppress(AbsentNetwork):  # an encoder alone neither fills nor scores a text
        networks, seed = model.pair(), run.training.seed
        rows = [{"text": text, "rows": example_rows(*networks, text, seed=seed)} for text in texts]
    durable.commit_json(files.examples, rows)
    doing("writing the report")
    write_page(run.folder)
    run.telemetry.say(verdict(read_run(run.folder)))
    spent = ""
    if run.clock is not None:
        spent = f"; {run.training.budget} asked, {run.clock.spent:.0f} s spent"
    run.telemetry.say(f"models saved to {run.folder}, report in {files.page}{spent}")
    if note := figures.missing():
        run.telemetry.say(f"the report was {note}")


def beginnings(run: RunState) -> list[str]:
    """Returns the beginnings of the first held-out documents that have one."""
    heldout, decode = run.store.heldout, run.store.tokenizer.decode
    heads = (heldout.document(index)[:EXAMPLE_TOKENS] for index in range(heldout.num_documents))
    texts = (decode(head).strip() for head in heads)
    return [*islice(filter(None, texts), EXAMPLES)]


def export(run: RunState) -> None:
    """Writes the model folders of a finished run, whose networks are then in main memory."""
    files, pair, tokenizer = RunFolder(run.folder), run.pair, run.store.tokenizer
    pair.cpu()  # all at once: networks may share weights
    for row in run.networks.rows:
        if not row.exported:
            continue
        network: AnyNetwork = pair.named[row.name]
        head = row.head
        if head == "discriminator" and not files.trains_detection(files.record):
            network, head = EncoderAlone(network.encoder), "encoder"
        card = card_of_run(run.folder, head)
        vector = run.text_vector if row.role == "main" else MEAN
        export_network(run.folder / row.name, network, tokenizer, card, text_vector=vector)
    mlm = run.objective.language_model(pair)
    if mlm is not None and mlm is not pair.main:
        card = card_of_run(run.folder, "generator", beside=True)
        export_network(files.language_model.path, mlm, tokenizer, card, text_vector=run.text_vector)


def measure_detection(run: RunState, model: Model) -> None:
    """Writes what the thresholds of `electra detect` do on held-out text beside a finished run's network.

    Raises ModelError if the model does not detect.
    """
    detector = model.detector()
    held_out = run.heldout.batch(0, min(DETECTION_ROWS, run.heldout.num_blocks))
    rows = (run.store.tokenizer.decode(ids) for row in held_out.input_ids for ids in np.array_split(row, 4))
    if found := measure(detector, rows, "the run's held-out text"):
        network = detector.discriminator or detector.main
        durable.commit_json(network.folder / DETECTION, asdict(found))
