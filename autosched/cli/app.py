"""The parser of the whole command line, and `main`."""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from autosched.cli.failures import exit_status, flush, interruptible, readable_streams, warnings_as_lines
from autosched.cli.options import Parser, program
from autosched.errors import UsageError, did_you_mean

#: verb -> what it does, in the order of the help text
VERBS = {
    "tune": "find the fastest schedule of a workload on this machine",
    "tasks": "tune several workloads under one budget",
    "build": "compile a workload with the best schedule known",
    "run": "run a workload on an image",
    "show": "print a schedule, its loops, source or assembly",
    "sketch": "print what tuning searches, as templates to edit",
    "explain": "say what each call of a schedule is worth",
    "simplify": "leave out of a schedule what is worth nothing",
    "list": "list workloads, strategies, models, rules, targets and passes",
    "records": "summarise, check or export what tuning recorded",
    "simulate": "run strategies over measured search spaces, without a device",
    "roofline": "measure how fast this machine can be at best",
    "doctor": "say what autosched finds on this machine",
}

_EXITS = """\
exit status:
  0 done   1 internal error   2 wrong usage   3 nothing could be measured   4 records unusable
  5 wrong results   6 device missing or lost   130 Ctrl-C   143 SIGTERM

start with:
  %(prog)s doctor
  %(prog)s tune box_blur --budget 60s
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status. `argv` leaves out the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    readable_streams()
    with interruptible(), warnings_as_lines():
        try:
            status = _run(words)
            flush()
        except (Exception, KeyboardInterrupt) as error:
            return exit_status(error, as_json="--json" in words)
        except SystemExit as stop:  # argparse, after --help and --version
            status = stop.code if isinstance(stop.code, int) else 0
            try:
                flush()
            except OSError as error:
                return exit_status(error, as_json=False)
    return status


def _run(words: Sequence[str]) -> int:
    _check_verb(words)
    parser = make_parser(next((w for w in words if not w.startswith("-")), None))
    args, unknown = parser.parse_known_args(words)
    if unknown:
        raise _unrecognised(unknown[0], args)
    if args.verb is None:
        parser.print_help(sys.stderr)
        return UsageError.exit_status
    args.words = list(words)
    status: int = args.run(args)
    return status


def make_parser(chosen: str | None = None) -> Parser:
    """The parser. Only the chosen verb's options are loaded; of the others it knows the names."""
    parser = Parser(
        prog=program(),
        description="Compile tensor programs, and tune them for this machine.",
        epilog=_EXITS,
    )
    parser.add_argument("--version", action="version", version=f"autosched {_version()}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb, what in VERBS.items():
        sub = verbs.add_parser(verb, help=what)
        if verb == chosen:
            module: Any = importlib.import_module(f"autosched.cli.{verb}")
            sub.description = module.__doc__
            sub.epilog = module.EXAMPLES
            module.add_arguments(sub)
            sub.set_defaults(run=module.run, parser=sub)
    return parser


def _version() -> str:
    import autosched

    return autosched.__version__


def _check_verb(words: Sequence[str]) -> None:
    verb = next((w for w in words if not w.startswith("-")), None)
    if verb is None or verb in VERBS:
        return
    hint = did_you_mean(verb, VERBS)
    raise UsageError("no such verb", asked=f"{program()} {verb}", legal=f"{hint}verbs: {', '.join(VERBS)}")


def _unrecognised(word: str, args: Any) -> UsageError:
    parser: Parser | None = getattr(args, "parser", None)
    usage = parser.format_usage() if parser is not None else ""
    known = sorted(set(re.findall(r"--[\w-]+", usage)))
    option = word.partition("=")[0]
    near = difflib.get_close_matches(option, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    hint = "options go after the verb; " if option in known else hint
    if "--param" in known and re.fullmatch(r"[A-Za-z_]\w*=.+", word):
        hint = f"did you mean --param {word}? "
    name = parser.prog if parser is not None else program()
    return UsageError(f"{word!r} is not understood", asked=name, legal=f"{hint}see {name} --help")
