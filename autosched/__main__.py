"""`python -m autosched` is the command `autosched`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from autosched.cli import main

        status = main()
    except KeyboardInterrupt:  # while modules were still loading; `main` handles the rest
        status = 130
    sys.exit(status)
