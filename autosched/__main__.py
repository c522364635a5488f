"""`python -m autosched` is the command `autosched`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from autosched.cli import main

        status = main()
    except KeyboardInterrupt:  # while modules were still loading; `main` handles the rest
        status = 130
    # Python remembers that an `exec` of text, as in the making of a dataclass, was interrupted, and would end this
    # program as Ctrl-C does, whatever the status: until the next `exec`.
    exec("")
    sys.exit(status)
