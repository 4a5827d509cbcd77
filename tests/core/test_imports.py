"""Which packages may import which, the rule against unsafe calls, and quick starts."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, ARCHITECTURE = ROOT / "src" / "electra", ROOT / "docs" / "architecture.md"


@cache
def rooms() -> dict[str, set[str]]:
    """Returns the rooms that each may import, from the table in architecture.md, whose order is theirs."""
    lines = ARCHITECTURE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1:4] for line in lines if line.startswith("| `") and line.count("|") == 4]
    table = {room.strip(" `/"): set(re.findall(r"\w+", may)) - {"nothing"} for room, _, may in rows}
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} <= set(table)
    table = {room: set(table) if "everything" in may else may for room, may in table.items()}
    ours = {"commands", "foundation", "artifacts", "testing"}
    return table | {"__init__": ours, "__main__": {"commands"}}


@cache
def sources() -> dict[str, ast.Module]:
    """Returns the syntax tree of every file, by its path inside the package."""
    files = sorted(SOURCE.rglob("*.py"))
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in files}


@cache
def nodes(file: str) -> list[ast.AST]:
    """Returns the imports, calls and attributes of a file."""
    kept = (ast.ImportFrom, ast.Import, ast.Call, ast.Attribute)
    return [node for node in ast.walk(sources()[file]) if isinstance(node, kept)]


def imports(file: str) -> Iterator[tuple[int, str]]:
    """(line, name) of each import, at the top or late; of ours the name is electra.room.file[.name]."""
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def room_of(file: str) -> str:
    return file.split("/", maxsplit=1)[0].removesuffix(".py")


def test_rooms_import_only_allowed_rooms() -> None:
    offenders = []
    for file in sources():
        room = room_of(file)
        allowed = rooms()[room] | {room}
        for line, name in imports(file):
            package, _, rest = name.partition(".")
            if package == "" or (package == "electra" and rest.split(".")[0] not in allowed):
                offenders.append(f"{file}:{line}: {name}")
    assert not offenders, "\n".join(offenders)


def test_imports_of_the_core_point_one_way() -> None:
    names = list(rooms())
    for place, room in enumerate(names[: names.index("laboratory")]):
        assert rooms()[room] <= set(names[:place]), room


def test_no_command_imports_another() -> None:
    shared = {"framework", "results"}
    offenders = [
        f"{file}: {name}"
        for file in sources()
        if file.startswith("commands/")
        for _, name in imports(file)
        if name.startswith("electra.commands.") and name.split(".")[2] not in shared
    ]
    assert not offenders, "\n".join(offenders)


def test_no_import_cycles_between_files() -> None:
    """Late imports and those for types alone count too: a file can be understood after those it imports."""
    paths = {
        f"electra.{file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}": file for file in sources()
    }

    def file_of(name: str) -> str:
        """The longest part of an imported name that is a file; the rest is what was taken from it."""
        while name and name not in paths:
            name = name.rpartition(".")[0]
        return name

    files = {name: {file_of(each) for _, each in imports(path)} - {"", name} for name, path in paths.items()}
    try:
        TopologicalSorter(files).prepare()
    except CycleError as found:
        raise AssertionError(" -> ".join(reversed(found.args[1]))) from None


FORBIDDEN = (
    *("import pickle", "allow_pickle=True", "shell=True"),
    *("extractall(", "trust_remote_code", "yaml.load"),
)


def test_every_module_named_in_a_room_s_docstring_exists() -> None:
    """The list in a package's docstring: a name, two spaces or more, and what it is."""
    packages = {SOURCE / file: tree for file, tree in sources().items() if file.endswith("__init__.py")}
    for package, tree in packages.items():
        listed = re.findall(r"^([a-z_]+)/? {2,}\S", ast.get_docstring(tree) or "", re.M)
        missing = [name for name in listed if not list(package.parent.glob(f"{name}*"))]
        assert not missing, f"{package}: {', '.join(missing)}"


def test_nothing_unsafe_is_called_and_nothing_prints() -> None:
    offenders = []
    for file in sources():
        text = (SOURCE / file).read_text(encoding="utf-8").replace("trust_remote_code=False", "")
        offenders += [f"{file}: {word}" for word in FORBIDDEN if word in text]
        for node in nodes(file):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if called in ("eval", "exec", "print"):
                offenders.append(f"{file}:{node.lineno}: {called}()")
            loads = isinstance(node, ast.Attribute) and node.attr == "load"
            if loads and ast.unparse(node) == "torch.load" and file != "exchange/load.py":
                offenders.append(f"{file}:{node.lineno}: torch.load")
    assert not offenders, "\n".join(offenders)


QUICK = """
import sys
from electra.commands.framework.main import main
from electra.commands.framework.main import COMMANDS
for verb in ("", *COMMANDS):
    arguments = [verb, "--help"] if verb else ["--help"]
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = ended.code
    assert not code, (arguments, code)
heavy = {"torch", "transformers", "sklearn", "scipy", "matplotlib", "datasets", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""


def test_help_needs_no_torch() -> None:
    ended = subprocess.run([sys.executable, "-c", QUICK], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


# A file that lies there is one of a kind, by its own name: `extend` is a command, and a step of training.
DISCOVERED = ("commands", "objectives", "finetuning/tasks", "finetuning/heads", "laboratory/analysis/probes")
CONTRACT = {"Config", "Objective", "Probe"}  # what such a file defines


def test_no_two_modules_and_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for file, tree in sources().items():
        folder, _, name = file.rpartition("/")
        if name != "__init__.py" and folder not in DISCOVERED:
            places.setdefault(name, []).append(file)
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        for each in classes:
            if not each.startswith("_") and each not in CONTRACT:
                places.setdefault(each, []).append(file)
    repeated = {name: files for name, files in places.items() if len(files) > 1}
    assert not repeated, repeated


LONGEST = 60  # lines of a function
LONG = {  # one sequence of steps each, which parts would hide
    "training/assemble.py": {"build_run", "start"},
    "objectives/parts/vocabulary.py": {"forward"},
    "finetuning/train/dataset.py": {"read_dataset"},
    "finetuning/train/saved_model.py": {"save_model"},
}


def test_functions_are_short_but_for_a_few() -> None:
    for file, tree in sources().items():
        found = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        long = {each.name for each in found if (each.end_lineno or 0) - each.lineno >= LONGEST}
        assert long == LONG.get(file, set())
