"""`python -m toposeat`: the command, where its folder is not on PATH."""

import sys

from toposeat.cli.main import entry

if __name__ == "__main__":
    sys.exit(entry())
