"""A script without a main guard that does four pieces: FOLDER WORKERS [NAME=HOW ...]."""

import os
import signal
import sys
import time
from pathlib import Path

from electra.foundation.errors import ConfigError, Interrupted
from electra.foundation.work import Piece, run_pieces


def count(folder, how, *, say, stop):
    """Counts to ten, a number in each of its files; `how` it ends then."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(len(list(folder.iterdir())), 10):
        if stop():
            raise Interrupted(folder)
        (folder / str(number)).write_text(str(os.getpid()))
        time.sleep(1 if how == "slow" else 0.01)
    if how == "refused":
        raise ConfigError("no", key="out")
    if how == "bug":
        raise ZeroDivisionError
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    say(f"{how or 'well'}, with {os.environ.get('OMP_NUM_THREADS')} threads")
    (folder / "record").touch()


root, hows = Path(sys.argv[1]), dict(word.split("=") for word in sys.argv[3:])
names = [*hows, *(f"p{i}" for i in range(4 - len(hows)))]
pieces = [Piece(name, root / name, "record", count, (root / name, hows.get(name, ""))) for name in names]
try:
    failures = run_pieces(pieces, workers=int(sys.argv[2]), say=print)
    print("failures:", {name: f"{type(error).__name__}" for name, error in failures.items()})
except Interrupted as interrupted:
    print("interrupted")
    sys.exit(interrupted.exit_code)
