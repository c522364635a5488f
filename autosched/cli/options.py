"""Parsing of option values, with messages in three parts, and options that verbs share."""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import sys
from collections.abc import Callable
from dataclasses import MISSING
from pathlib import Path
from typing import Any, NoReturn

from autosched.effort import EFFORTS
from autosched.errors import RecordError, UsageError
from autosched.options import options_of
from autosched.report import PROGRESS_MODES
from autosched.report.text import finite


def program() -> str:
    """The command that the user typed: `autosched`, or `python -m autosched`."""
    return "autosched" if Path(sys.argv[0]).stem == "autosched" else "python -m autosched"


class Parser(argparse.ArgumentParser):
    """Keeps line breaks in help texts, takes no abbreviations, and raises UsageError."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Keep the UsageError of an option's parser, which argparse would take for a ValueError of Python's."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if isinstance(error.__context__, UsageError):
                raise error.__context__ from None
            raise

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, asked=self.prog, legal=f"see {self.prog} --help")


def count(option: str, least: int = 1) -> Callable[[str], int]:
    """A parser of whole numbers, `least` or more."""

    def parse(text: str) -> int:
        legal = f"give a whole number, {least} or more"
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a whole number", asked=option, legal=legal) from None
        if value < least:
            raise UsageError(f"{value} is less than {least}", asked=option, legal=legal)
        return value

    return parse


def positive(option: str, unit: str) -> Callable[[str], float]:
    """A parser of finite numbers above 0."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"{text!r} is not a number of {unit}", asked=option, legal="give a number above 0")
        return value

    return parse


def percent(option: str) -> Callable[[str], float]:
    """A parser of percentages such as `5%` and `5`. Gives the fraction: 0.05."""
    parse = positive(option, "percent")
    return lambda text: parse(text.strip().removesuffix("%")) / 100


_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(d|h|min|m|s)?\s*")
_SECONDS = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0, "": 1.0}


def duration(option: str) -> Callable[[str], float]:
    """A parser of spans of time such as `60s`, `5m`, `1h30m` and `90`, which is seconds. Gives seconds."""

    def parse(text: str) -> float:
        total, at = 0.0, 0
        word = text.strip().lower()
        while match := _PART.match(word, at):
            total, at = total + float(match[1]) * _SECONDS[match[2] or ""], match.end()
        if at != len(word) or not math.isfinite(total) or total <= 0:
            raise UsageError(f"{text!r} is not a length of time", asked=option, legal="write 60s, 5m or 1h30m")
        return total

    return parse


def assignment(option: str, example: str = "channels=4") -> Callable[[str], tuple[str, str]]:
    """A parser of `name=value`."""

    def parse(text: str) -> tuple[str, str]:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name.isidentifier() and equals and value):
            raise UsageError(f"{text!r} is not NAME=VALUE", asked=option, legal=f"for example {option} {example}")
        return name, value

    return parse


def literal(option: str) -> Callable[[str], tuple[str, Any]]:
    """A parser of `name=value` where the value is a Python literal, or else a word."""
    named = assignment(option, "batch=32")

    def parse(text: str) -> tuple[str, Any]:
        name, value = named(text)
        try:
            return name, ast.literal_eval(value)
        except (ValueError, SyntaxError):
            return name, {"true": True, "false": False}.get(value, value)

    return parse


# -- options that are fields of a dataclass --------------------------------------------------------
def add_fields(parser: argparse._ActionsContainer, of: type) -> None:
    """Add an option for each field with a help text of an options class (`autosched.options`)."""
    for f, about in options_of(of):
        if not about.help:
            continue
        flags = about.flags or (f"--{f.name.removesuffix('_s').removesuffix('_mb').replace('_', '-')}",)
        default = f.default if f.default_factory is MISSING else f.default_factory()
        more: dict[str, Any] = {"dest": f.name, "default": default, "help": about.help}
        if about.legal:
            more["choices"] = about.legal
        match re.match(r"\w+", str(f.type))[0], about.metavar:  # type: ignore[index]
            case "bool", _:  # True unless this is given
                flags, more["action"] = (f"--no-{flags[0].removeprefix('--')}",), "store_false"
            case "Mapping", _:
                more |= {"action": "append", "default": [], "type": literal(flags[0])}
            case "Sequence", _:
                more |= {"action": "append", "default": []}
            case "float", "TIME":
                more["type"] = duration(flags[0])
            case "float", _:
                more["type"] = positive(flags[0], "milliseconds")
            case "int", _:
                more["type"] = count(flags[0], about.typed or int(about.least or 0))
        if about.metavar is not None:
            more["metavar"] = about.metavar
        parser.add_argument(*flags, **more)


def field_values(args: argparse.Namespace, of: type) -> dict[str, Any]:
    """The values of the options of `add_fields`, by the names of the fields."""
    found = {f.name: (getattr(args, f.name), str(f.type)) for f, about in options_of(of) if about.help}
    return {name: dict(value) if kind.startswith("Mapping") else value for name, (value, kind) in found.items()}


# -- options that several verbs have ------------------------------------------------------------
def add_count(
    parser: argparse._ActionsContainer, flag: str, help: str, *, default: int | None = None, least: int = 1
) -> None:
    """Add an option whose value is a whole number."""
    parser.add_argument(flag, metavar="N", type=count(flag, least), default=default, help=help)


def add_flag(parser: argparse._ActionsContainer, flag: str, help: str) -> None:
    """Add an option without a value, off unless it is given."""
    parser.add_argument(flag, action="store_true", help=help)


def add_list(
    parser: argparse._ActionsContainer, flag: str, metavar: str, help: str, parse: Callable[[str], Any] = str
) -> None:
    """Add an option that may be given several times."""
    parser.add_argument(flag, metavar=metavar, action="append", default=[], type=parse, help=help)


def add_effort(parser: argparse._ActionsContainer) -> None:
    about = (
        "none: default schedules, also where there are records; without records, quick: what a model of this machine "
        "predicts, full: search for a minute first"
    )
    parser.add_argument("--effort", choices=EFFORTS, default="quick", help=f"{about}; default quick")


def add_workload(
    parser: argparse.ArgumentParser,
    sizes: bool = True,
    metavar: str = "WORKLOAD",
    help: str = "a name that `list` shows, or file.py:function",
) -> None:
    """The workload, its parameters and, with `sizes`, the lengths of its symbolic dimensions."""
    parser.add_argument("workload", metavar=metavar, help=help)
    about = "a parameter of the workload, such as channels=4 or dtype=uint16; may be repeated"
    add_list(parser, "--param", "NAME=VALUE", about, assignment("--param"))
    if sizes:
        about = "a size that the workload leaves open, such as height=1280; may be repeated"
        add_list(parser, "--size", "NAME=N", about, assignment("--size"))


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        metavar="TARGET",
        default="llvm",
        help='llvm (this CPU) or opencl, with options in quotes: "opencl -device=pocl"; default %(default)s',
    )


def add_records(parser: argparse.ArgumentParser, *aliases: str, help: str) -> None:
    parser.add_argument("--records", *aliases, metavar="DIR", default=None, help=help)


def records_folder(args: argparse.Namespace) -> str | None:
    """The folder to read records from. Raises RecordError for one that does not exist: a typing error
    would otherwise look like a workload that nobody has tuned."""
    folder: str | None = args.records
    if folder is not None and not os.path.isdir(Path(folder).expanduser()):
        raise RecordError(
            "there is no such folder", asked=f"--records {folder}", legal="name the folder of .jsonl files"
        )
    return folder


#: of folders of records
FROM = "take the schedule from the records in this folder"


def add_source(parser: argparse.ArgumentParser) -> None:
    """The folder of records that a schedule is read from, and --json."""
    add_records(parser, help=FROM)
    add_json(parser)


def add_search(parser: argparse.ArgumentParser, records: str) -> None:
    """Options of searching, measuring and recording, and of the display meanwhile."""
    # Loading these takes a fifth of the time that the command line needs to start: verbs without them do not wait.
    from autosched.search_options import MeasureOptions, SearchOptions

    add_fields(parser, SearchOptions)
    add_records(parser, "-o", "--output", help=records)
    parser.add_argument(
        "--progress",
        choices=PROGRESS_MODES,
        default="auto",
        help="how to show progress on standard error; auto is live on a terminal, else plain",
    )
    add_json(parser)
    add_fields(parser.add_argument_group("measuring"), MeasureOptions)


def add_budget(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("--budget", metavar="TIME", type=duration("--budget"), help=about)


def add_page(parser: argparse.ArgumentParser) -> None:
    """The file of a report."""
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="default %(default)s")
    add_force(parser)


def add_force(parser: argparse.ArgumentParser, what: str = "a file that is there") -> None:
    """What every verb asks for before it writes over something."""
    add_flag(parser, "--force", f"replace {what}")


def add_json(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--json", "print one JSON object on standard output")


def emit(data: dict[str, Any]) -> None:
    """Print the JSON object. Numbers that JSON has no word for become null."""
    print(json.dumps(finite(data), indent=2, allow_nan=False, default=str))
