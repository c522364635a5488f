"""The command line: `autosched VERB ...`, or `python -m autosched VERB ...`.

    app.py        the parser, and `main`
    arguments.py  what each verb takes: options, description, examples
    tune.py tasks.py build.py run.py show.py sketch.py explain.py list.py records.py simulate.py roofline.py doctor.py
                  what each does: `run(args)`, which gives the exit status; loaded once the words are understood
    options.py    option values and options that verbs share
    workloads.py  from words to a workload
    images.py     image files
    failures.py   from exceptions and signals to messages and exit statuses

Results go to standard output, everything else to standard error. `docs/cli.md` is the manual.
"""

from __future__ import annotations

from autosched.cli.app import main

__all__ = ["main"]
