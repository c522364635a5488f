"""The parser of the whole command line, and `main`."""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from autosched import __version__
from autosched.cli.arguments import VERBS, add_arguments
from autosched.cli.failures import exit_status, interruptible, readable_streams, warnings_as_lines
from autosched.cli.model_arguments import LIBRARIES, OF_MODELS
from autosched.cli.options import Parser, field_values, program
from autosched.cli.record_arguments import RECORD_VERBS
from autosched.errors import UsageError, did_you_mean
from autosched.garbage import few_collections

#: verb -> the module that has its `run`, where it is not of the same name
_HOME = {
    "simplify": "explain",
    **{f"records {verb}": "records" for verb in ("list", "best", "check")},
    **{f"records {verb}": "record_files" for verb in ("repair", "merge", "prune", "split", "diff")},
    "records verify": "compare",
    "records export": "record_export",
    "records import": "record_import",
}

#: all verbs, for `make_parser`
EVERY = "*"

_EXITS = """\
exit status:
  0 done   1 internal error   2 wrong usage   3 nothing could be measured   4 records unusable
  5 wrong results   6 device missing or lost   7 slower than recorded   130 Ctrl-C   143 SIGTERM

start with:
  %(prog)s doctor
  %(prog)s tune box_blur --budget 60s
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status. `argv` leaves out the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    readable_streams()
    with interruptible(), warnings_as_lines(), few_collections():
        try:
            status = _run(words)
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            return exit_status(error, as_json="--json" in words)
        except SystemExit as stop:  # argparse, after --help and --version
            status = stop.code if isinstance(stop.code, int) else 0
            try:
                sys.stdout.flush()
            except OSError as error:
                return exit_status(error, as_json=False)
    return status


def _run(words: Sequence[str]) -> int:
    words = _joined(words)
    verb = next((w for w in words if not w.startswith("-")), None)
    if verb is not None and verb.partition(" ")[0] not in VERBS:
        legal = f"{did_you_mean(verb, VERBS)}verbs: {', '.join(VERBS)}"
        raise UsageError("no such verb", asked=f"{program()} {verb}", legal=legal)
    of_model = verb in OF_MODELS and (verb == "compile" or any(w.endswith((".onnx", *LIBRARIES)) for w in words))
    parser = make_parser(verb, of_model)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        raise _unrecognised(unknown[0], args)
    if args.verb is None:
        parser.print_help(sys.stderr)
        return UsageError.exit_status
    args.words = list(words)
    with _workers(args):
        home = "models" if of_model else _HOME.get(args.verb, args.verb)
        module: Any = importlib.import_module(f"autosched.cli.{home}")
        status: int = module.run(args)
    return status


def _joined(words: Sequence[str]) -> list[str]:
    """The words, with `records merge` as one: a verb of `records` stands right after it."""
    at = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    if words[at : at + 1] == ["records"] and words[at + 1 : at + 2] and words[at + 1] in RECORD_VERBS:
        return [*words[:at], f"records {words[at + 1]}", *words[at + 2 :]]
    return list(words)


def _workers(args: Any) -> AbstractContextManager[None]:
    """Processes that load the compiler while this one loads what `tune` needs, which takes them."""
    if args.verb != "tune" or getattr(args, "at", None):
        return nullcontext()
    from autosched.measure import MeasureOptions, early_workers  # no other verb needs these at once

    return early_workers(args.target, MeasureOptions(**field_values(args, MeasureOptions)))


def make_parser(chosen: str | None = None, of_model: bool = False) -> Parser:
    """The parser. It has the options of the chosen verb only, or of `EVERY` one; of the others it knows the names."""
    parser = Parser(
        prog=program(),
        description="Compile tensor programs, and tune them for this machine.",
        epilog=_EXITS,
    )
    parser.add_argument("--version", action="version", version=f"autosched {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb, (_, what) in VERBS.items():
        sub = verbs.add_parser(verb, help=what)
        if chosen == EVERY and verb == "records":  # shells complete these where a source may stand, too
            nested = sub.add_subparsers(dest="action")
            for name, (_, about) in RECORD_VERBS.items():
                add_arguments(nested.add_parser(name, help=about), f"{verb} {name}")
        if chosen in (verb, EVERY):
            add_arguments(sub, verb, of_model)
            sub.set_defaults(parser=sub)
    if chosen is not None and " " in chosen:
        sub = verbs.add_parser(chosen)  # without a help text it is not listed
        add_arguments(sub, chosen)
        sub.set_defaults(parser=sub)
    return parser


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
