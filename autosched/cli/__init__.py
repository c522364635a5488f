"""The command line: `autosched VERB ...`, or `python -m autosched VERB ...`.

    app.py      the parser, and `main`
    tune.py tasks.py build.py run.py show.py sketch.py list.py records.py doctor.py
                one verb each: `EXAMPLES`, `add_arguments(parser)`, and `run(args)`, which gives the exit status
    options.py  option values and options that verbs share
    workloads.py  from words to a workload
    images.py   image files
    failures.py from exceptions and signals to messages and exit statuses

Nothing heavy is imported before a verb runs, so that `--help` answers at once. Results go to
standard output, everything else to standard error. `docs/cli.md` is the manual.
"""

from __future__ import annotations

from autosched.cli.app import main

__all__ = ["main"]
