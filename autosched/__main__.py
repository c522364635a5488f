"""`python -m autosched` is the command `autosched`."""

from __future__ import annotations

import sys

from autosched.cli import main

if __name__ == "__main__":
    sys.exit(main())
