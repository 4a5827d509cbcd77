"""What README, docs and examples say to type: every command parses, every Python block is checked."""

import ast
import importlib
import importlib.util
import inspect
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driven import toy_store  # noqa: F401

import electra
from electra.commands.framework import main as command_line
from electra.commands.framework.main import class_of, main
from electra.commands.framework.parser import parse
from electra.foundation.errors import ElectraError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "SKILL.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMIT = re.compile(r"commit [0-9a-f]{8}")  # with which the commands of a page ran, if not with this one
RESULTS = [page for page in sorted((ROOT / "results").glob("*/README.md")) if not COMMIT.search(page.read_text())]
EXAMPLES = [path for path in sorted((ROOT / "examples").iterdir()) if path.suffix in (".py", ".toml", ".md")]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"`(electra [^`\n]+)`")
TYPED = re.compile(r"\s*(\$ )?(\w+=\S+ |timeout .* |torchrun .* |python -m )?([\w./-]*/)?electra [a-z]")
PARTIAL = re.compile(r"electra [\w-]+ needs |expected (one|at least one) argument|'N' is not a")  # one option alone
ABSENT = re.compile(
    r"no such (\w+ )*(file|folder|store)|not a local folder", re.I
)  # files of the reader's, which are not here


def text_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    return re.sub(r"^# ?", "", text, flags=re.M) if page.suffix == ".toml" else text


def commands(page: Path) -> Iterator[list[str]]:
    """The words after `electra` of each command: in blocks, and between backticks."""
    text = text_of(page)
    if page.name == "Makefile":
        text = re.sub(
            r"^\t@?",
            "    ",
            text.replace("$(PYTHON) -m ", "").replace("$(BIN)/", "").replace("$(BUDGET)", "10m"),
            flags=re.M,
        )
    blocks = [block for language, block in FENCE.findall(text) if language in ("", "sh", "bash", "console")]
    blocks += re.findall(r"^(?: {4}.*\n)+", text, flags=re.M)
    joined = re.sub(r"\\\n\s*", " ", "\n".join(blocks))
    typed = [line for line in joined.splitlines() if TYPED.match(line)]
    for line in [*typed, *(inline for inline in INLINE.findall(text) if " --" in inline)]:
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        for at, word in enumerate(words):
            if Path(word).name == "electra" and words[at + 1 : at + 2] and words[at + 1] in command_line.COMMANDS:
                end = next((i for i in range(at, len(words)) if words[i] in ("|", "&&", ";", ">")), None)
                yield words[at + 1 : end]


class Reached(Exception):
    """The work would begin now."""


def reached(*args: Any, **kwargs: Any) -> Any:
    raise Reached


HEAVY = (
    "electra.artifacts.folder.open_session",
    "electra.training.assemble.train_run",
    "electra.training.assemble.preview",
    "electra.training.stores.build",
    "electra.finetuning.train.all_seeds.load",
    "electra.commands.finetune.load_data_set",
    "electra.finetuning.predict.open_predictor",
    "electra.laboratory.evaluation.tasks.evaluate",
    "electra.laboratory.analysis.contract.named_models",
    "electra.laboratory.ablation.plan.make_plan",
    "electra.inference.model.Model.__init__",
    "electra.serving.models.open_models",
)
OPEN = ("...", "[", "VERB", "COMMAND", "NAME")  # in a pattern, which is not to be typed as it stands
CASES = [
    (page.parent.name if page.name == "README.md" else page.name, words)
    for page in [*PAGES, *EXAMPLES, *RESULTS, ROOT / "Makefile"]
    for words in commands(page)
    if not any(mark in word for word in words for mark in OPEN)
]


def test_commands_are_found() -> None:
    assert len(CASES) > 30 and {"pretrain", "finetune", "evaluate"} <= {words[0] for _, words in CASES}


@pytest.mark.parametrize(("page", "words"), CASES, ids=[f"{page}: {' '.join(words)[:60]}" for page, words in CASES])
def test_a_command_reaches_its_work(
    page: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything but what is heavy, which says that it was reached: reading options, `run` and its checks."""
    monkeypatch.chdir(ROOT)
    for name in HEAVY:
        monkeypatch.setattr(name, reached)
    try:
        code = main(words)
    except (Reached, SystemExit) as ended:  # SystemExit: --help
        code = int(getattr(ended, "code", 0) or 0)
    said = capsys.readouterr().err
    plain = " ".join(said.split())
    is_absent = ABSENT.search(plain) and "hub:" not in plain
    assert code == 0 or is_absent or PARTIAL.search(plain), f"{page}: electra {shlex.join(words)}\n{said}"


def test_what_else_is_typed_is_there() -> None:
    """Targets of make, scripts of ours and extras to install."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = "\n".join(text_of(page) for page in [*PAGES, *EXAMPLES])
    made = set(re.findall(r"(?:^ {4}|`)make ([\w-]+)", text, re.M))
    scripts = set(re.findall(r"\bpython3? ([\w/]+\.py)", text))
    extras = {one for several in re.findall(r"['\"]\.\[([\w,]+)\]", text) for one in several.split(",")}
    assert {"setup", "quickstart"} <= made <= targets
    assert scripts and all((ROOT / script).is_file() for script in scripts)
    assert extras and extras <= set(project["optional-dependencies"])
    source = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    assert not re.findall(r"electra\[[a-z]+\]", "\n".join([text, *source])), "the index calls it electra-encoder"


def test_python_stands_in_fences() -> None:
    """Where the tests below see it."""
    code = re.compile(r"^ {4}(?:from [\w.]+ import|import \w)", re.M)
    assert [page.name for page in PAGES if code.search(FENCE.sub("", text_of(page)))] == []


def blocks() -> list[tuple[str, str]]:
    return [
        (page.name, textwrap.dedent(block))
        for page in PAGES
        for language, block in FENCE.findall(page.read_text(encoding="utf-8"))
        if language == "python"
    ]


@pytest.mark.parametrize(("page", "block"), blocks(), ids=lambda value: str(value).split("\n", 1)[0][:50])
def test_a_python_block_names_what_there_is(page: str, block: str) -> None:
    """It compiles; what it takes from electra exists, with the parameters it names."""
    for node in ast.walk(ast.parse(block, page)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "electra":
                    importlib.import_module(alias.name)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "electra":
            for alias in node.names:
                named = hasattr(importlib.import_module(str(node.module)), alias.name)
                assert named or importlib.util.find_spec(f"{node.module}.{alias.name}"), alias.name
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "electra":
            assert hasattr(electra, node.attr), f"{page}: electra.{node.attr}"
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("electra."):
            called: Any = electra
            for name in ast.unparse(node.func).split(".")[1:]:
                called = getattr(called, name)
            known = inspect.signature(called).parameters
            if not any(one.kind is one.VAR_KEYWORD for one in known.values()):
                assert {keyword.arg for keyword in node.keywords} <= set(known), f"{page}: {ast.unparse(node)}"


@pytest.mark.parametrize(("page", "words"), CASES, ids=[f"{page}: {' '.join(words)[:60]}" for page, words in CASES])
def test_a_command_is_spelled_as_a_line_that_says_the_same(
    page: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    try:
        command, _ = parse(class_of(words[0]), words[1:])
    except (ElectraError, SystemExit):
        pytest.skip("--help, or a pattern")
    electra, name, *spelled = shlex.split(command.line)
    assert (electra, name) == ("electra", words[0])
    assert parse(type(command), spelled)[0] == command
