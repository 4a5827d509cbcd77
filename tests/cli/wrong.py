"""The wrong things a user may give, and what must be said about each."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import driven

from electra.commands.framework.main import main
from electra.foundation.errors import (
    AbsentNetwork,
    CheckpointError,
    ConfigError,
    CorpusError,
    DataError,
    DiskError,
    ElectraError,
    ModelError,
    RunFailed,
    RunFolderError,
    StoreError,
    TokenizerError,
)

SETTINGS = driven.SETTINGS | {
    "--training.batch-size": "4",
    "--training.steps": "4",
    "--training.checkpoint-every": "2",
    "--training.evaluate-every": "100",
    "--training.device": "cpu",
    "--evaluation.rows": "4",
}
FLAGS = [word for setting in SETTINGS.items() for word in setting]


def latest(argv: list[str]) -> list[str]:
    """Without the options that are given again later; what a case says takes the place of what is usual."""
    kept: list[str] = []
    for place, word in enumerate(argv):
        name = word.partition("=")[0] if word.startswith("--") else ""
        before = argv[place - 1] if place else ""
        if not word.startswith("--") and before.startswith("--") and before in argv[place + 1 :]:
            continue
        if name and any(later == name or later.startswith(f"{name}=") for later in argv[place + 1 :]):
            continue
        kept.append(word)
    return kept


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a case happens: an empty folder, a token store, and a run that has finished its four steps."""

    folder: Path
    store: Path
    run: Path

    def file(self, name: str, content: str | bytes = "") -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def copy(self, what: Path) -> Path:
        return Path(shutil.copytree(what, self.folder / f"copy of {what.name}"))

    def pretrain(self, *options: object, store: Path | None = None, out: Path | None = None) -> list[str]:
        return latest(
            [
                "pretrain",
                "--store",
                str(store or self.store),
                "--out",
                str(out or self.folder / "run"),
                *FLAGS,
                *map(str, options),
            ]
        )

    def prepare(self, source: str | Path, *options: str, vocab_size: int = 60) -> list[str]:
        where = ["--out", str(self.folder / "made"), "--workers", "1"]
        return latest(["prepare", str(source), *where, "--vocab-size", str(vocab_size), *options])

    def finetune(self, table: str, *options: str) -> list[str]:
        data = self.file("train.csv", table)
        return latest(
            [
                "finetune",
                str(self.run),
                "--task",
                "classification",
                "--data",
                data,
                "--out",
                str(self.folder / "tuned"),
                *options,
            ]
        )


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    kind: type[ElectraError]
    said: str
    argv: Callable[[Place], list[str]]


BINARY = bytes(range(256)) * 40
CUT = gzip.compress(" ".join(map(str, range(3000))).encode())[:-900]
TABLE = "text,label\n" + "".join(f"the cat sees the sea {i},{i % 2}\n" for i in range(20))
SUFFIXES = r"Recognised extensions: \.txt"


def lines(p: Place) -> str:
    return p.file("lines.txt", "the cat sees the sea .\n" * 3 + "a dog eats bread .\n" * 3)


def no_field(p: Place) -> str:
    return p.file("a.jsonl", '{"text": "x"}\n{"body": "y"}\n')


def vocabulary(p: Place, size: int, *options: str) -> list[str]:
    return p.prepare(lines(p), "--unit", "line", *options, vocab_size=size)


def maskless(p: Place, more: str = "") -> str:
    return p.file("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n" + more)


def another_text(p: Place) -> list[str]:
    return p.prepare(lines(p), "--out", str(p.copy(p.store)), "--heldout", "0.2", vocab_size=90)


def blocked(p: Place) -> str:
    return p.file("in-the-way") + "/store"


def recipe(p: Place, content: str) -> list[str]:
    return p.pretrain("--recipe", p.file("mine.toml", content))


def cut(p: Place, name: str) -> Path:
    store = p.copy(p.store)
    (store / name).write_bytes((store / name).read_bytes()[:-10])
    return store


def without(p: Place, name: str) -> Path:
    store = p.copy(p.store)
    (store / name).unlink()
    return store


def generator_alone(p: Place) -> str:
    out = p.folder / "alone"
    assert main(["export", str(p.run), "--network", "generator", "--out", str(out)]) == 0
    return str(out)


def other_model(p: Place) -> str:
    """The finished run, with a tokenizer that lacks an entry of the store's and has another."""
    run = p.copy(p.run)
    path = run / "tokenizer" / "tokenizer.json"
    definition = json.loads(path.read_text())
    entries = definition["model"]["vocab"]
    last = list(entries)[-1]
    entries[f"{last}zzz"] = entries.pop(last)
    path.write_text(json.dumps(definition))
    return str(run)


def damaged_run(p: Place, *steps: int) -> Path:
    run = p.copy(p.run)
    for step in steps:
        weights = run / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[len(content) // 2] ^= 1
        weights.write_bytes(content)
    return run


def export(p: Place, run: Path, *options: str) -> list[str]:
    return ["export", str(run), "--out", str(p.folder / "exported"), *options]


def dev(p: Place) -> str:
    return p.file("dev.csv", "text,label\nthe sea,7\n")


TEXT = [
    Case(
        "missing path", CorpusError, r"gone: no such file or folder", lambda p: p.prepare(p.folder / "gone")
    ),
    Case(
        "empty folder",
        CorpusError,
        rf"void: no text files.*{SUFFIXES}",
        lambda p: p.prepare(Path(p.file("void/.hidden.txt")).parent),
    ),
    Case("empty file", CorpusError, r"empty\.txt: empty file", lambda p: p.prepare(p.file("empty.txt"))),
    Case(
        "blank file",
        CorpusError,
        r"no text in 1 document read",
        lambda p: p.prepare(p.file("blank.txt", "\n \n")),
    ),
    Case(
        "binary file",
        CorpusError,
        r"a\.txt: not UTF-8 text.*--data\.encoding cp1251",
        lambda p: p.prepare(p.file("a.txt", BINARY)),
    ),
    Case(
        "text in another encoding",
        CorpusError,
        r"a\.txt: not UTF-8 text.*--data\.encoding cp1251",
        lambda p: p.prepare(p.file("a.txt", "это не UTF-8 и другое".encode("cp1251"))),
    ),
    Case(
        "truncated gzip",
        CorpusError,
        r"a\.txt\.gz: damaged or truncated.*again",
        lambda p: p.prepare(p.file("a.txt.gz", CUT)),
    ),
    Case(
        "no field",
        CorpusError,
        r"a\.jsonl:2: no text in field 'text'.*body.*--data\.text-field",
        lambda p: p.prepare(no_field(p)),
    ),
    Case(
        "broken JSON",
        CorpusError,
        r"a\.jsonl:2: not valid JSON",
        lambda p: p.prepare(p.file("a.jsonl", '{"text": "x"}\n{"text":\n')),
    ),
    Case(
        "unknown suffix",
        CorpusError,
        r"a\.xyz: unrecognised file extension",
        lambda p: p.prepare(p.file("a.xyz", "text")),
    ),
    Case("too small a vocabulary", ConfigError, r"vocab.size.*at least 10", lambda p: vocabulary(p, 5)),
    Case(
        "no tokenizer there",
        TokenizerError,
        r"gone: ",
        lambda p: vocabulary(p, 60, "--tokenizer", str(p.folder / "gone")),
    ),
    Case(
        "no mask token",
        TokenizerError,
        r"vocab\.txt: the vocabulary has no \[MASK\]",
        lambda p: vocabulary(p, 60, "--tokenizer", maskless(p)),
    ),
    Case(
        "a store from other text",
        StoreError,
        r"heldout.*the text itself",
        another_text,
    ),
    Case(
        "a stranger's folder",
        StoreError,
        r"exists and is not a token store",
        lambda p: p.prepare(lines(p), "--out", str(p.run)),
    ),
    Case(
        "a file in the way",
        DiskError,
        r"in-the-way/.*cannot write here.*another folder",
        lambda p: p.prepare(lines(p), "--out", blocked(p)),
    ),
    Case(
        "no workers",
        ConfigError,
        r"--workers: must be at least 1",
        lambda p: p.prepare(lines(p), "--workers", "0"),
    ),
    Case(
        "no field, in a run",
        CorpusError,
        r"a\.jsonl:2: no text in field 'text'.*--data\.text-field",
        lambda p: ["pretrain", "--corpus", no_field(p), "--out", str(p.folder / "run"), "--workers", "1"],
    ),
    Case(
        "no text",
        ConfigError,
        r"electra prepare needs CORPUS.*For example",
        lambda p: ["prepare", "--out", str(p.folder / "made")],
    ),
    Case(
        "no --out",
        ConfigError,
        r"electra prepare needs --out.*See electra prepare --help",
        lambda p: ["prepare", lines(p)],
    ),
]

RECIPES = [
    Case(
        "unknown verb",
        ElectraError,
        r"unknown command 'pretrian'. Did you mean 'pretrain'",
        lambda p: ["pretrian"],
    ),
    Case(
        "unknown recipe",
        ConfigError,
        r"no recipe named 'tinny'\. Did you mean 'tiny'",
        lambda p: p.pretrain("--recipe", "tinny"),
    ),
    Case(
        "no recipe file",
        ConfigError,
        r"gone\.toml: no such recipe file",
        lambda p: p.pretrain("--recipe", "gone.toml"),
    ),
    Case("broken recipe", ConfigError, r"not valid TOML: .*line 1", lambda p: recipe(p, "[model\n")),
    Case(
        "unknown key",
        ConfigError,
        r"learnin_rate: no such key\. Did you mean 'learning_rate'",
        lambda p: recipe(p, "[training]\nlearnin_rate = 1"),
    ),
    Case(
        "unknown section",
        ConfigError,
        r"trainin: no such key\. Did you mean 'training'",
        lambda p: recipe(p, "[trainin]\nseed = 1"),
    ),
    Case(
        "unknown objective key",
        ConfigError,
        r"Did you mean 'mask_fraction'",
        lambda p: recipe(p, '[objective]\nname = "rtd"\nmask_fractio = 0.1'),
    ),
    Case(
        "wrong type",
        ConfigError,
        r"training\.steps: 'many' is not a whole number",
        lambda p: recipe(p, '[training]\nsteps = "many"'),
    ),
    Case(
        "wrong objective type",
        ConfigError,
        r"mask_fraction: 'x' is not a number",
        lambda p: recipe(p, '[objective]\nmask_fraction = "x"'),
    ),
    Case(
        "unknown choice",
        ConfigError,
        r"'lineer' is not one of.*'linear'",
        lambda p: recipe(p, '[training]\nschedule = "lineer"'),
    ),
    Case(
        "unknown flag",
        ConfigError,
        r"lerning-rate.*Did you mean --training\.learning-rate\?",
        lambda p: p.pretrain("--training.lerning-rate", "1"),
    ),
    Case(
        "unknown objective flag",
        ConfigError,
        r"Did you mean --objective\.mask-fraction\?",
        lambda p: p.pretrain("--objective.mask-fractio", "1"),
    ),
    Case(
        "flag of wrong type",
        ConfigError,
        r"--training\.learning-rate.*'fast'",
        lambda p: p.pretrain("--training.learning-rate", "fast"),
    ),
    Case(
        "flag's unknown choice",
        ConfigError,
        r"--training\.schedule: 'lineer' is not one of linear",
        lambda p: p.pretrain("--training.schedule", "lineer"),
    ),
    Case(
        "unknown objective",
        ConfigError,
        r"no objective named 'rtx'\. Did you mean 'rtd'",
        lambda p: p.pretrain("--objective.name", "rtx"),
    ),
    Case(
        "unknown size",
        ConfigError,
        r"no size named 'tinny'\. Did you mean 'tiny'",
        lambda p: p.pretrain("--model.size", "tinny"),
    ),
    Case(
        "no layers",
        ConfigError,
        r"model\.layers: .*1 or more",
        lambda p: p.pretrain("--model.layers", "0"),
    ),
    Case(
        "a width that is no heads",
        ConfigError,
        r"--model\.hidden-size: 200.*multiple of 64",
        lambda p: p.pretrain("--model.hidden-size", "200"),
    ),
    Case(
        "store and corpus",
        ConfigError,
        r"both --store and other data",
        lambda p: p.pretrain("--corpus", lines(p)),
    ),
    Case(
        "bad budget",
        ConfigError,
        r"--budget: invalid budget 'soon'\. Use 30m",
        lambda p: p.pretrain("--budget", "soon"),
    ),
    Case(
        "budget below one step",
        ConfigError,
        r"--budget: 1tokens ",
        lambda p: p.pretrain("--budget", "1tokens"),
    ),
    Case(
        "no CUDA here",
        ConfigError,
        r"no CUDA device.*--training.device cpu",
        lambda p: p.pretrain("--training.device", "cuda"),
    ),
    Case(
        "no Apple GPU here",
        ConfigError,
        r"no Apple GPU.*cpu",
        lambda p: p.pretrain("--training.device", "mps"),
    ),
    Case(
        "no share",
        ConfigError,
        r"data\.heldout: .*1\.0",
        lambda p: p.pretrain("--data.heldout", "1"),
    ),
    Case(
        "too long for the positions",
        ConfigError,
        r"training\.length: 513.*Use at most 512",
        lambda p: p.pretrain("--training.length", "513"),
    ),
    Case(
        "too short",
        ConfigError,
        r"at least 5",
        lambda p: p.pretrain("--training.length", "4"),
    ),
    Case(
        "sharing all between sizes",
        ConfigError,
        r"model\.sharing.*--model\.generator-width",
        lambda p: p.pretrain("--model.sharing", "all"),
    ),
    Case(
        "a loss that explodes",
        RunFailed,
        r"not finite at step 1.*--training\.learning-rate",
        lambda p: p.pretrain("--training.learning-rate", "1e30"),
    ),
]

STORES = [
    Case(
        "no store",
        StoreError,
        r"gone: no such token store\. Make one with electra prepare",
        lambda p: p.pretrain(store=p.folder / "gone"),
    ),
    Case(
        "no store in the folder",
        StoreError,
        r"not a token store .*store\.json",
        lambda p: p.pretrain(store=p.run),
    ),
    Case(
        "store cut off",
        StoreError,
        r"train\.ds: \d+ tokens instead of \d+\. Delete the store",
        lambda p: p.pretrain(store=cut(p, "train.ds")),
    ),
    Case(
        "store without a file",
        StoreError,
        r"heldout\.ds: no such file",
        lambda p: p.pretrain(store=without(p, "heldout.ds")),
    ),
    Case(
        "store.json damaged",
        StoreError,
        r"store\.json.*not readable as JSON",
        lambda p: p.pretrain(store=cut(p, "store.json")),
    ),
    Case(
        "another tokenizer",
        StoreError,
        r"another tokenizer",
        lambda p: p.pretrain("--tokenizer.source", maskless(p, "[MASK]\n")),
    ),
    Case(
        "init of another vocabulary",
        ModelError,
        r"tokenizer.*electra prepare",
        lambda p: p.pretrain("--init-discriminator", other_model(p)),
    ),
    Case(
        "init from nowhere", ModelError, r"no/where: ", lambda p: p.pretrain("--init-generator", "no/where")
    ),
]

MODELS = [
    Case("no model", ModelError, r"no/where: ", lambda p: ["detect", "no/where", "text"]),
    Case(
        "a file, not a model",
        ModelError,
        r"lines.txt: ",
        lambda p: ["detect", lines(p), "text"],
    ),
    Case(
        "a text and no model",
        ConfigError,
        r"electra detect needs TEXTS. For example: electra detect tiny-en",
        lambda p: ["detect", "The capital of France is seven."],
    ),
    Case("nothing to detect", ConfigError, r"electra detect needs TEXTS", lambda p: ["detect", str(p.run)]),
    Case(
        "no such file",
        DataError,
        r"gone\.txt: no such file",
        lambda p: ["detect", str(p.run), "gone.txt"],
    ),
    Case(
        "no such checkpoint",
        CheckpointError,
        r"step 7.*2, 4",
        lambda p: export(p, p.run, "--step", "7"),
    ),
    Case(
        "damaged checkpoint",
        CheckpointError,
        r"damaged: model\.safetensors",
        lambda p: export(p, damaged_run(p, 4), "--step", "4"),
    ),
    Case("no run", RunFolderError, r"gone: no such run folder", lambda p: ["report", str(p.folder / "gone")]),
    Case(
        "the other network",
        AbsentNetwork,
        "discriminator",
        lambda p: ["detect", generator_alone(p), "text"],
    ),
    Case(
        "nothing to verify",
        RunFolderError,
        r"not a folder that electra wrote",
        lambda p: ["verify", str(Path(p.file("void/x")).parent)],
    ),
]

TABLES = [
    Case(
        "no column",
        DataError,
        r"no column Satz.*--text-column",
        lambda p: p.finetune(TABLE, "--text-column", "Satz"),
    ),
    Case(
        "unknown label",
        DataError,
        r"dev\.csv:2: unknown label '7'\. Known: 0, 1",
        lambda p: p.finetune(TABLE, "--dev", dev(p)),
    ),
    Case(
        "one class only",
        DataError,
        r"train\.csv: every example has the label '1'",
        lambda p: p.finetune(TABLE.replace(",0\n", ",1\n")),
    ),
    Case(
        "unknown task",
        ConfigError,
        r"no task named 'sst3'. Did you mean 'sst2'",
        lambda p: p.finetune(TABLE, "--task", "sst3"),
    ),
    Case(
        "too long a text",
        ConfigError,
        r"--max-length: 513.*at most 512",
        lambda p: p.finetune(TABLE, "--max-length", "513"),
    ),
    Case(
        "not a classifier",
        ModelError,
        "fine-tuned classifier, tagger or reader",
        lambda p: ["predict", str(p.run), p.file("t.csv", TABLE)],
    ),
]

CASES = [*TEXT, *RECIPES, *STORES, *MODELS, *TABLES]
