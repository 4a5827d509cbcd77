"""Where the command `electra` begins."""

from __future__ import annotations

import sys


def main() -> int:
    try:
        from electra.cli.main import main as run

        return run()
    except KeyboardInterrupt:  # before the command line could catch it
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
