"""The command `luvli`, also as `python -m luvli`."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script. Ctrl-C during its imports leaves no traceback."""
    try:
        from luvli.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
