"""The entry point of the `electra` command."""

import os
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main() -> int:
    """Runs the command line and returns its exit code."""
    try:
        from electra.commands.framework.main import main as run

        return run()
    except KeyboardInterrupt:  # before the command line could catch it
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    if sys.path[0] == os.getcwd() != _ROOT and not sys.flags.safe_path:
        del sys.path[0]  # added by python -m; files there could shadow modules that we import
    sys.exit(main())
