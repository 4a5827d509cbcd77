"""Runs a command in a pseudo-terminal, and says how long one waits for its output.

    python benchmarks/console.py COMMAND [ARGUMENT ...]

Prints the screen as it stands at the end (of a line that was written again and again, the last state), then
the seconds until the first output, the longest silence, and the whole time.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import time
from itertools import pairwise


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    process, terminal = pty.fork()
    if process == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    began = time.monotonic()
    times, output = [began], b""
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        times.append(time.monotonic())
        output += chunk
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    times.append(time.monotonic())
    for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode(errors="replace")).split("\n"):
        states = [state.rstrip() for state in line.split("\r") if state.strip()]
        print(states[-1] if states else "")
    silence = max(after - before for before, after in pairwise(times))
    print(f"first output {times[1] - began:.1f} s, longest silence {silence:.1f} s, ", end="")
    print(f"whole {times[-1] - began:.1f} s, exit {status}")


if __name__ == "__main__":
    main()
