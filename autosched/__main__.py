"""`python -m autosched` is the command `autosched`."""

from __future__ import annotations

import sys
from collections import namedtuple

if __name__ == "__main__":
    try:
        from autosched.cli import main

        status = main()
    except KeyboardInterrupt:  # while modules were still loading; `main` handles the rest
        status = 130
    # Python remembers that the evaluation of a text was interrupted, as in the making of a dataclass, and would end
    # this program as Ctrl-C does, whatever the status. The next text, that of a tuple's class, makes it forget.
    namedtuple("Nothing", ())
    sys.exit(status)
