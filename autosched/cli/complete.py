"""`autosched complete`: a script with which a shell completes verbs, options and their values."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

from autosched.cli.app import EVERY, make_parser
from autosched.cli.options import emit
from autosched.errors import UsageError


def run(args: argparse.Namespace) -> int:
    try:
        shtab: Any = importlib.import_module("shtab")
    except ImportError:
        why, legal = "the package `shtab`, which writes it, is not installed", "pip install shtab"
        raise UsageError(why, asked=f"complete {args.shell}", legal=legal) from None
    parser = make_parser(EVERY)
    parser.prog = "autosched"
    script = shtab.complete(parser, args.shell)
    if args.json:
        emit({"shell": args.shell, "script": script})
    else:
        sys.stdout.write(script)
    return 0
