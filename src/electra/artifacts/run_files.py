"""Run folders, and folders with a pair of networks."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from electra.artifacts import checkpoints
from electra.artifacts.checkpoints import Checkpoint
from electra.artifacts.folder import Child, ChildPath, Finding, Folder, error_message, json_finding
from electra.artifacts.ledger import Ledger
from electra.artifacts.model_files import CONFIG, ModelFolder
from electra.artifacts.network_names import EXPORTED, ORDER, network_tables
from electra.artifacts.session import LOG
from electra.artifacts.store_files import StoreFolder
from electra.foundation import config, durable
from electra.foundation.errors import ElectraError

# Settings that change what is written, when, or how fast, but not what is learned: they may differ when a
# run is resumed. Any other may change a bit of the weights, also the device (a GPU sums in another order).
WHEN_RESUMED = {
    *(f"training.{name}" for name in ("checkpoint_every", "keep", "evaluate_every", "log_every")),
    *("training.threads", "training.compile", "training.micro_batch", "evaluation.rows"),
}
LOST_ROWS = "lost_rows"  # name of the event that reports missing rows of the ledger
LANGUAGE_MODEL = "language_model"
# beside the discriminator, in a repository with a whole pair
SUBFOLDERS = (*EXPORTED[1:], LANGUAGE_MODEL)


class PairFolder(Folder):
    """One or two model folders: discriminator/, generator/.

    In a repository on the hub, the discriminator may be at the top, above generator/ and language_model/.
    """

    KIND = "pair of networks"
    RECORD = f"{EXPORTED[0]}/{CONFIG}"
    ALLOWED_EARLY: ClassVar[tuple[str, ...]] = ()

    # The main network as a masked language model, if the objective trains it as one too.
    language_model = Child(ModelFolder, LANGUAGE_MODEL)

    @classmethod
    @override
    def is_at(cls, path: Path) -> bool:
        return bool(cls(path).finished_networks())

    def network(self, name: str) -> ModelFolder:
        """Returns the model folder of a network, whether or not it exists."""
        at_top = name == EXPORTED[0] and ModelFolder.is_at(self.path)
        if at_top and any(ModelFolder.is_at(self.path / other) for other in SUBFOLDERS):
            return ModelFolder(self.path)
        return ModelFolder(self.path / name)

    def finished_networks(self) -> list[str]:
        """Returns the names of the networks that exist as model folders."""
        return [name for name in EXPORTED if self.network(name).exists()]

    @property
    @override
    def record(self) -> dict[str, Any]:
        """The configuration of each finished network, by its name."""
        return {name: self.network(name).record for name in self.finished_networks()}

    @override
    def check(self) -> Iterator[Finding]:
        yield from ()  # it has no files besides its parts

    @override
    def parts(self) -> Iterator[Folder]:
        parts = [*map(self.network, EXPORTED), self.language_model]
        yield from (part for part in parts if part.path.is_dir())


class RunFolder(PairFolder):
    """The folder that `electra pretrain` writes.

    RUN/  run.toml (resolved recipe, shapes, identity, environment)   metrics.jsonl (the ledger)   log.txt
          checkpoints/   discriminator/  generator/  language_model/ (model folders)
          audit.json     examples.json   report.html
          store/ (if made from --corpus)   tokenizer/ (if trained from --store)
          vectors/ (how texts become vectors, if the model that it started from says so)
          milestones/step-N/ (networks, examples and page before the run was extended)
          score.json (in a study: the scores of its panel)
    """

    KIND = "run"
    RECORD = "run.toml"
    ALLOWED_EARLY = ("store", "tokenizer", "vectors", LOG)

    metrics = ChildPath("metrics.jsonl")
    checkpoints = ChildPath("checkpoints")
    audit = ChildPath("audit.json")
    examples = ChildPath("examples.json")
    score = ChildPath("score.json")
    store = Child(StoreFolder, "store")
    tokenizer = ChildPath("tokenizer")
    vectors = ChildPath("vectors")

    @classmethod
    @override
    def is_at(cls, path: Path) -> bool:
        return (path / cls.RECORD).is_file()

    @property
    @override
    def record(self) -> dict[str, Any]:
        """The content of run.toml. Raises ConfigError if it is not valid TOML, RunFolderError if empty."""
        record = config.read_toml(self.path / self.RECORD)
        if not record:
            raise self.not_a_record()
        return record

    @override
    def write_record(self, record: Mapping[str, Any]) -> None:
        durable.commit_file(self.path / self.RECORD, config.write_toml(record).encode())

    @staticmethod
    def settings(record: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the tables of a record that must agree when a run is resumed."""
        excluded = {"environment", *ORDER, *network_tables(record)}
        return {name: dict(table) for name, table in record.items() if name not in excluded}

    @staticmethod
    def trains_detection(record: Mapping[str, Any]) -> bool:
        """Whether the run trains its discriminator's head; if not, it is an encoder without a head."""
        return bool(record.get("objective", {}).get("discriminator_weight", 1) != 0)

    @override
    def differences(self, record: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        return self.compare(self.record, record)

    @classmethod
    def compare(cls, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """Returns (name, old, new) of the differences that prevent resuming: those in keys that matter."""
        changes = config.differences(cls.settings(old), cls.settings(new))
        return [change for change in changes if change[0] not in WHEN_RESUMED]

    def ledger(self) -> Ledger:
        """Reads the ledger; see `Ledger.read`."""
        return Ledger.read(self.metrics)

    def lost_rows(self, checkpoint: Checkpoint) -> str:
        """Describes the ledger rows that existed at the checkpoint and are now missing; "" if none are."""
        num_expected = checkpoint.record.get("ledger_rows", 1)  # older versions do not record the number
        ledger = self.ledger()
        num_present = len(ledger.until(checkpoint.step).rows)
        if num_present >= num_expected:
            return ""
        lost = f"{num_expected - num_present} of the first {num_expected} rows" if num_present else "all rows"
        return " ".join([f"{self.metrics.name} has lost {lost} up to step {checkpoint.step}.", *ledger.notes])

    def saved_checkpoints(self) -> list[Checkpoint]:
        """Returns the checkpoints, including damaged ones, newest first."""
        return checkpoints.list_checkpoints(self.checkpoints)

    @property
    def final_outputs(self) -> list[Path]:
        """The files and folders that training writes at its end; extending the run removes them."""
        names = dict.fromkeys([*EXPORTED, *(network_tables(self.record) if self.exists() else ())])
        networks = (self.path / name for name in names)
        return [*networks, self.language_model.path, self.examples, self.page]

    def example_texts(self) -> list[str]:
        """Returns the sentences of the examples; [] if the file is missing or damaged."""
        with suppress(ElectraError, OSError, TypeError, KeyError):
            return [str(row["text"]) for row in durable.read_json(self.examples, self.ERROR)]
        return []

    def milestone(self, step: int) -> PairFolder:
        """Returns the networks of a run that ended after `step` updates and was extended later."""
        return PairFolder(self.path / "milestones" / f"step-{step:08d}")

    def tokenizers(self) -> list[Path]:
        """Returns the folders that may contain the tokenizer, in order of preference."""
        return [self.tokenizer, self.store.tokenizer, *(self.network(name).path for name in EXPORTED)]

    @staticmethod
    def steps_of(record: Mapping[str, Any]) -> int | None:
        """Returns the steps in a run's record, an estimate in a time budget; None if not recorded."""
        training = record.get("training")
        steps = training.get("steps") if isinstance(training, Mapping) else None
        return steps if isinstance(steps, int) else None

    @override
    def check(self) -> Iterator[Finding]:
        yield from Folder.check(self)
        newest, ledger = next(iter(self.saved_checkpoints()), None), self.ledger()
        notes = [event.message for event in ledger.events if event.name == LOST_ROWS]
        if newest is not None and not error_message(lambda: newest.record):
            notes += filter(None, [self.lost_rows(newest)])
        if newest is not None or self.finished_networks() or self.metrics.is_file():
            yield Finding(self.metrics, "ledger", " ".join(dict.fromkeys([*notes, *ledger.notes])))
        if self.vectors.is_dir():
            yield Finding(self.vectors, "record", durable.verify_directory(self.vectors) or "")
        for path in (self.audit, self.examples):
            if path.is_file():
                yield json_finding(path, "record")

    @override
    def parts(self) -> Iterator[Folder]:
        yield from self.saved_checkpoints()
        if self.store.path.is_dir():
            yield self.store
        yield from super().parts()
