"""Do the tests notice? Plants the faults of mutations/ one at a time, and runs the tests that must fail.

`old` stands exactly once in the file; a fault that no test notices wants a better test.

    python tests/mutations.py [words of the names]         make test-mutations

In copies of the tree, one for each core, so nothing here is touched. A test that fails must pass without the
fault. Prints what became of each fault; the exit code is 1 where one was not noticed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[1]
FAULTS = ROOT / "tests" / "mutations"  # a file for each package
CAUGHT, PASSED = 1, 0  # pytest's exit codes; any other means that the tests did not run


@dataclass(frozen=True)
class Fault:
    name: str
    file: str  # under src/electra
    old: str
    new: str
    tests: list[str]  # what pytest gets

    def plant(self, root: Path) -> str:
        """Returns the sound text."""
        path = root / "src" / "electra" / self.file
        sound = path.read_text(encoding="utf-8")
        assert sound.count(self.old) == 1, f"{self.file} holds {self.old!r} {sound.count(self.old)} times"
        path.write_text(sound.replace(self.old, self.new), encoding="utf-8")
        return sound


def faults() -> list[Fault]:
    files = sorted(FAULTS.glob("*.toml"))
    return [Fault(**each) for file in files for each in tomllib.loads(file.read_text(encoding="utf-8"))["fault"]]


def run(root: Path, tests: list[str]) -> tuple[int, str]:
    """pytest's exit code, and the first test that failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-m", "not reliability and not cuda", *tests]
    path = {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=root, env=os.environ | path, capture_output=True, text=True, check=False)
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return ended.returncode, failed[0] if failed else (ended.stdout + ended.stderr).strip()[-300:]


def copy(folder: Path) -> Path:
    for part in ("src", "tests", "examples", "docs"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def judge(fault: Fault, roots: Queue[Path]) -> bool:
    """Whether a test notices the fault, and passes without it."""
    root, began = roots.get(), time.monotonic()
    sound = fault.plant(root)
    code, told = run(root, fault.tests)
    (root / "src" / "electra" / fault.file).write_text(sound, encoding="utf-8")
    verdict, by = {CAUGHT: "caught", PASSED: "SURVIVED"}.get(code, "NOT RUN"), ""
    if code == CAUGHT:
        test = told.removeprefix("FAILED ").split(" - ")[0]
        by = test.split("::")[-1]
        if run(root, [test])[0] != PASSED:
            verdict = "BROKEN"  # the test fails without the fault, too
    elif code != PASSED:
        by = told
    roots.put(root)
    print(f"{verdict:<9} {fault.name:<60} {time.monotonic() - began:4.0f} s  {by}", flush=True)
    return verdict == "caught"


def main(words: list[str]) -> int:
    chosen = [fault for fault in faults() if all(word in fault.name for word in words)]
    with tempfile.TemporaryDirectory() as name:
        roots: Queue[Path] = Queue()
        for number in range(os.cpu_count() or 1):
            roots.put(copy(Path(name) / str(number)))
        with ThreadPoolExecutor(roots.qsize()) as pool:
            caught = sum(pool.map(lambda fault: judge(fault, roots), chosen))
    print(f"{caught} of {len(chosen)} faults caught")
    return int(caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
