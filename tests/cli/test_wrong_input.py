"""Whatever a user gets wrong: exit code 2, one line on stderr that names the place or the option, and nothing
half-written.
"""

import errno
import gzip
import importlib
import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import driven
import pytest

from electra.commands.framework.main import main
from electra.foundation import durable, errors
from electra.foundation.errors import (
    AbsentNetwork,
    CheckpointError,
    ConfigError,
    CorpusError,
    DataError,
    DiskError,
    ElectraError,
    FullDisk,
    LostProcess,
    ModelError,
    NoWords,
    RunFailed,
    RunFolderError,
    StoreError,
    TokenizerError,
)
from electra.training import assemble

command_line = importlib.import_module("electra.commands.framework.main")  # the module, not its function
SETTINGS = driven.SETTINGS | {
    "--training.batch-size": "4",
    "--training.steps": "4",
    "--training.checkpoint-every": "2",
    "--training.evaluate-every": "100",
    "--training.device": "cpu",
    "--evaluation.rows": "4",
}
BINARY = bytes(range(256)) * 40
CUT = gzip.compress(" ".join(map(str, range(3000))).encode())[:-900]
LINES = "the cat sees the sea .\n" * 3 + "a dog eats bread .\n" * 3
ROWS = "".join(f"the cat sees the sea {i},{i % 2}\n" for i in range(20))
VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n"
FILES = {
    "lines.txt": LINES,
    "train.csv": f"text,label\n{ROWS}",
    "empty.txt": "",
    "blank.txt": "\n \n",
    "binary.txt": BINARY,
    "cyrillic.txt": "это не UTF-8 и другое".encode("cp1251"),
    "cut.txt.gz": CUT,
    "field.jsonl": '{"text": "x"}\n{"body": "y"}\n',
    "broken.jsonl": '{"text": "x"}\n{"text":\n',
    "void/.hidden.txt": "",
    "other/x": "",
    "maskless/vocab.txt": VOCABULARY,
    "vocabulary/vocab.txt": f"{VOCABULARY}[MASK]\n",
    "table.toml": "[model\n",
    "key.toml": "[training]\nlearnin_rate = 1",
    "objective.toml": '[objective]\nname = "rtd"\nmask_fractio = 0.1',
    "type.toml": '[training]\nkeep = "many"',
    "choice.toml": '[training]\nschedule = "lineer"',
}

# What is typed, the error's type, and what its line names, as a pattern. {run} is a finished run. pretrain,
# prepare and finetune get the options that they need and that are not typed.
TYPED: list[tuple[str, type[ElectraError], str]] = [
    ("prepare void", CorpusError, r"void: .*\.txt"),
    ("prepare empty.txt", CorpusError, r"empty\.txt: "),
    ("prepare blank.txt", CorpusError, "no text"),
    ("prepare binary.txt", CorpusError, r"binary\.txt: .*iconv"),
    ("prepare cyrillic.txt", CorpusError, r"cyrillic\.txt: .*iconv"),
    ("prepare cut.txt.gz", CorpusError, r"cut\.txt\.gz: "),
    ("prepare field.jsonl", CorpusError, r"field\.jsonl:2: .*'text'.*body.*--data\.text-field"),
    ("prepare broken.jsonl", CorpusError, r"broken\.jsonl:2: "),
    ("prepare lines.txt --tokenizer maskless/vocab.txt", TokenizerError, r"vocab\.txt: .*\[MASK\]"),
    ("prepare lines.txt --out store --heldout 0.2 --vocab-size 90", StoreError, "heldout.*the text itself"),
    ("prepare lines.txt --out {run}", StoreError, "run: "),
    ("prepare lines.txt --out train.csv", StoreError, r"train\.csv: "),
    ("prepare lines.txt --out empty.txt/store", DiskError, r"empty\.txt"),
    ("prepare --unit line", ConfigError, "CORPUS"),
    ("pretrian", ElectraError, "'pretrian'.*'pretrain'"),
    ("pretrain --recipe tinny", ConfigError, "'tinny'.*'tiny'"),
    ("pretrain --recipe table.toml", ConfigError, r"table\.toml: .*line 1"),
    ("pretrain --recipe none.toml", ConfigError, r"none\.toml: no such recipe"),
    ("pretrain --recipe key.toml", ConfigError, r"key\.toml: training\.learnin_rate: .*'learning_rate'"),
    ("pretrain --recipe objective.toml", ConfigError, r"objective\.toml: .*'mask_fraction'"),
    ("pretrain --recipe type.toml", ConfigError, r"type\.toml: training\.keep: 'many'"),
    ("pretrain --recipe choice.toml", ConfigError, r"choice\.toml: .*'lineer'.*'linear'"),
    ("pretrain --training.lerning-rate 1", ConfigError, r"lerning-rate.*--training\.learning-rate"),
    ("pretrain --objective.name rtx", ConfigError, "'rtx'.*'rtd'"),
    ("pretrain --model.hidden-size 200", ConfigError, r"--model\.hidden-size: 200.*64"),
    ("pretrain --corpus lines.txt", ConfigError, "--store"),
    ("pretrain --budget soon", ConfigError, "--budget: .*'soon'"),
    ("pretrain --budget 2hours --dry-run", ConfigError, "--budget: .*'2hours'"),
    ("pretrain --model.size huge --dry-run", ConfigError, "no size named 'huge'"),
    ("pretrain --training.device cuda", ConfigError, "--training.device cpu"),
    ("pretrain --data.heldout 1", ConfigError, r"data\.heldout: .*1\.0"),
    ("pretrain --training.length 513", ConfigError, r"training\.length: 513.*512"),
    ("pretrain --model.sharing all", ConfigError, r"model\.sharing.*--model\.generator-width"),
    ("pretrain --training.learning-rate 1e30", RunFailed, r"step 1.*--training\.learning-rate"),
    ("pretrain --store gone", StoreError, "gone: .*electra prepare"),
    ("pretrain --store {run}", StoreError, r"run: .*store\.json"),
    ("pretrain --tokenizer.source vocabulary/vocab.txt", StoreError, "tokenizer"),
    ("pretrain --init no/where", ModelError, "no/where: "),
    ("pretrain --out empty.txt/run", DiskError, r"empty\.txt"),
    ("pretrain --out lines.txt", RunFolderError, r"lines\.txt: .*--out"),
    ("detect no/where text", ModelError, "no/where: "),
    ("detect 'The capital of France is seven.'", ConfigError, "TEXTS"),
    ("detect tiny-en empty.txt", NoWords, r"empty\.txt: "),
    ("detect tiny-en ''", DataError, "no text"),
    ("detect {run} gone.txt", DataError, r"gone\.txt: "),
    ("embed tiny-en gone.txt", DataError, r"gone\.txt: "),
    ("embed tiny-en 'a cat' --out v.xlsx", ConfigError, r"'\.xlsx'.*\.npy, \.jsonl"),
    ("embed tiny-en train.csv --text-column b", DataError, r"train\.csv.*'b'"),
    ("embed tiny-en binary.txt", DataError, r"binary\.txt:1: "),
    ("export {run} --out made --step 7", CheckpointError, "step 7.*2, 4"),
    ("export {run} --out made --format onnx --network generator", ConfigError, "supports discriminators"),
    ("export {run} --out made --format onnx --dtype bfloat16", ConfigError, "in float32"),
    ("export {run} --out other --format onnx", ModelError, r"other: .*\(x\)"),
    ("export {run} --out lines.txt --format onnx", ModelError, r"lines\.txt: "),
    ("export tiny-en --out made --step 3", ModelError, "no checkpoints to choose from. Omit --step"),
    ("export gone --out made --format onnx", ModelError, "gone"),
    ("report gone", RunFolderError, "gone: "),
    ("verify other", RunFolderError, "other: "),
    ("finetune {run} --data train.csv --text-column Satz", DataError, "Satz.*--text-column"),
    ("finetune {run} --data train.csv --task sst3", ConfigError, "'sst3'.*'sst2'"),
    ("finetune {run} --data train.csv --max-length 513", ConfigError, "--max-length: 513.*512"),
    ("predict {run} train.csv", ModelError, "run/.*electra finetune"),
]


@dataclass(frozen=True)
class Place:
    """Where something is typed: a folder with FILES, a token store, and a run that finished four steps."""

    folder: Path
    store: Path
    run: Path

    def words(self, typed: str) -> list[str]:
        """Returns the words of a command with the options that are usual here, unless they are typed."""
        words = shlex.split(typed.format(run=self.run))
        usual = {
            "pretrain": {"--store": str(self.store), "--out": "run", **SETTINGS},
            "prepare": {"--out": "made", "--workers": "1", "--vocab-size": "60", "--unit": "line"},
            "finetune": {"--task": "classification", "--out": "tuned"},
        }.get(words[0], {})
        typed_too = {*words, "--training.steps"} if "--budget" in words else {*words}  # a run has one length
        kept = {flag: value for flag, value in usual.items() if flag not in typed_too}
        return [*words, *(word for pair in kept.items() for word in pair)]

    def copy(self, what: Path) -> Path:
        return Path(shutil.copytree(what, self.folder / f"copy of {what.name}"))

    def damaged_run(self, *steps: int) -> Path:
        run = self.copy(self.run)
        for step in steps:
            weights = run / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
            content = bytearray(weights.read_bytes())
            content[len(content) // 2] ^= 1
            weights.write_bytes(content)
        return run

    def damaged_store(self, name: str, keep: int) -> Path:
        """Returns a store in which a file lost its end, or all of it."""
        store = self.copy(self.store)
        content = (store / name).read_bytes()
        (store / name).write_bytes(content[:keep])
        if not keep:
            (store / name).unlink()
        return store

    def other_model(self) -> Path:
        """Returns the run with a tokenizer that lacks an entry of the store's and has another."""
        run = self.copy(self.run)
        path = run / "tokenizer" / "tokenizer.json"
        definition = json.loads(path.read_text())
        entries = definition["model"]["vocab"]
        last = list(entries)[-1]
        entries[f"{last}zzz"] = entries.pop(last)
        path.write_text(json.dumps(definition))
        return run

    def generator_alone(self) -> Path:
        assert main(["export", str(self.run), "--network", "generator", "--out", "alone"]) == 0
        return self.folder / "alone"


DAMAGED: list[tuple[str, Callable[[Place], Path], type[ElectraError], str]] = [
    ("export --network discriminator --out new", Place.generator_alone, AbsentNetwork, "discriminator"),
    ("pretrain --store", lambda p: p.damaged_store("train.ds", -10), StoreError, r"train\.ds: \d+ .*\d+"),
    ("pretrain --store", lambda p: p.damaged_store("heldout.ds", 0), StoreError, r"heldout\.ds: "),
    ("pretrain --store", lambda p: p.damaged_store("store.json", -10), StoreError, r"store\.json"),
    ("pretrain --init-discriminator", Place.other_model, ModelError, "tokenizer.*electra prepare"),
    ("pretrain --out", lambda p: p.damaged_run(2, 4), CheckpointError, "step-00000004: .*step-00000002: "),
    ("export --out made --step 4", lambda p: p.damaged_run(4), CheckpointError, r"model\.safetensors"),
]


@pytest.fixture(scope="session")
def finished(toy_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose checkpoints of steps 2 and 4 are there, without its exports."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "finish", lambda run: None)
        patch.chdir(folder)
        assert main(Place(folder, toy_store, folder).words("pretrain")) == 0
    return folder / "run"


@pytest.fixture
def place(tmp_path: Path, toy_store: Path, finished: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(assemble, "finish", lambda run: None)
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return Place(tmp_path, toy_store, finished)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must be refused with an error of that type and what it names; returns its line."""
    raised: list[type[ElectraError]] = []
    run_command = command_line.run_command

    def noting(name: str, words: list[str]) -> int:
        try:
            code: int = run_command(name, words)
            return code
        except ElectraError as error:
            raised.append(type(error))
            raise

    monkeypatch.setattr(command_line, "run_command", noting)

    def check(words: list[str], kind: type[ElectraError], named: str, writes: tuple[str, ...] = ()) -> str:
        before = contents(Path.cwd())
        capfd.readouterr()
        code = main(words)
        line = capfd.readouterr().err
        assert (code, raised) == (kind.exit_code, [kind]), line
        assert re.fullmatch(r"error: [^\n]+\n", line) and re.search(named, line), line
        after = contents(Path.cwd())
        assert {name: after[name] for name in before} == before, "files that were there are as they were"
        assert not [name for name in after if name not in before and not name.startswith(writes)]
        raised.clear()
        return line

    return check


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks, which the kernel lets go of by itself."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_full_disk_is_one_line(
    place: Place, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    """The checkpoint of step 4 does not fit: that of step 2 stays; the same command goes on once it does."""
    write = durable.write

    def full(path: Path, content: durable.Content) -> None:
        if "step-00000004" in str(path) and path.name == "optimizer.safetensors":
            path.write_bytes(b"half of")
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(durable, "write", full)
    record = ("run/run.toml", "run/metrics.jsonl", "run/log.txt", "run/tokenizer/")
    wrote = ("run/checkpoints/step-00000002/", *record)
    refused(place.words("pretrain"), errors.FullDisk, r"step-00000004: .*[\d,]+ MiB free", wrote)
    checkpoints = Path("run/checkpoints")
    assert [path.name for path in checkpoints.iterdir()] == ["step-00000002"]
    assert durable.verify_directory(checkpoints / "step-00000002") is None
    monkeypatch.setattr(durable, "write", write)
    assert main(place.words("pretrain")) == 0
    for name in ("model.safetensors", "optimizer.safetensors"):
        file = Path("checkpoints/step-00000004") / name
        assert (Path("run") / file).read_bytes() == (finished / file).read_bytes()


@pytest.mark.parametrize(("typed", "kind", "named"), TYPED, ids=[row[0] for row in TYPED])
def test_wrong_input_is_one_line_with_its_place(
    typed: str, kind: type[ElectraError], named: str, place: Place, refused: Callable[..., str]
) -> None:
    if "--out store" in typed:
        shutil.copytree(place.store, "store")
    writes = ("run/",) if kind is RunFailed else ()  # a run that failed midway keeps its record
    refused(place.words(typed), kind, named, writes)


@pytest.mark.parametrize(("typed", "make", "kind", "named"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_folder_is_named(  # noqa: PLR0917
    typed: str, make: Callable[[Place], Path], kind: type[ElectraError], named: str, place: Place,
    refused: Callable[..., str],
) -> None:  # fmt: skip
    folder = shlex.quote(str(make(place)))
    is_option = typed.startswith("pretrain")
    words = f"{typed} {folder}" if is_option else typed.replace(" ", f" {folder} ", 1)
    refused(place.words(words), kind, named)


def test_every_type_of_error_was_rendered() -> None:
    types = {each for each in vars(errors).values() if isinstance(each, type)}
    kinds = {each for each in types if issubclass(each, ElectraError)}
    rendered = {row[-2] for row in (*TYPED, *DAMAGED)}
    assert kinds - rendered == {FullDisk, LostProcess}  # in core/test_durable.py and training/test_resume.py


@pytest.mark.parametrize("typed", ["report {}", "predict {} x.csv", "pretrain --corpus {here} --out {}", "verify {}"])
def test_a_name_too_long_for_a_file_is_one_line(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(typed.format("a" * 300, here=__file__).split()) == 2
    assert (said := capsys.readouterr().err).startswith("error: aaa") and said.count("\n") == 1


def test_a_folder_of_another_run_lists_every_difference(place: Place, refused: Callable[..., str]) -> None:
    out = f"--out {shlex.quote(str(place.copy(place.run)))}"
    typed = f"pretrain {out} --training.seed 2 --objective.mask-fraction 0.2"
    changed = r"objective\.mask_fraction was 0\.15, now 0\.2; training\.seed was 1, now 2\. .*--out"
    refused(place.words(typed), RunFolderError, changed)
    driven.write_corpus(Path("other.txt"), documents=60)
    same = f"--tokenizer {place.store}/tokenizer"
    assert main(place.words(f"prepare other.txt --out text {same}")[:-4] + ["--unit", "line"]) == 0
    line = refused(place.words(f"pretrain {out} --store text"), RunFolderError, r"identity\.data ")
    assert "identity.tokenizer" not in line
    assert main(place.words("prepare other.txt --out both --vocab-size 50")) == 0
    both = r"identity\.data .*identity\.tokenizer "
    refused(place.words(f"pretrain {out} --store both"), RunFolderError, both)
    unlearned = "--training.log-every 2 --training.keep 3"
    assert main(place.words(f"pretrain {out} {unlearned}")) == 0, "what changes nothing learned may change"
