"""Every error a user can meet, and checks of what users and files say.

An error says three things: what was asked, why that cannot be, and what is legal.
`AutoschedError` carries them as fields, so that the command line can lay them out and a test
can look at one of them; `str(error)` is the whole message.

Exit statuses are part of the command line's interface (`docs/cli.md`); each class names its own.
"""

from __future__ import annotations

import difflib
import json
import math
import numbers
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard, cast


class AutoschedError(RuntimeError):
    """Base of all errors raised on purpose; a RuntimeError, as TVM's are.

    `why` is one sentence without a trailing period; `asked` is the call or input it is about;
    `legal` says what would have been accepted, or what to do next.
    """

    exit_status = 1

    def __init__(self, why: str, *, asked: str = "", legal: str = "") -> None:
        self.why = why
        self.asked = asked
        self.legal = legal
        super().__init__(self._message())

    def located(self, did: str, call: str = "", where: str = "") -> None:
        """Name the call that it is about, where that is known, and the line of the caller's code that made
        it. Unless the error names a line already, it is `where`, or the one that `did` this now."""
        self.asked = call or self.asked
        where = "" if re.search(r" at .+:\d+$", self.asked) else where or asked_at()
        if where:
            self.asked = f"{self.asked}  {did} at {where}".strip()
        self.args = (self._message(),)

    def _message(self) -> str:
        head = f"{self.asked}: {self.why}" if self.asked else self.why
        return f"{head}\n  {self.legal}" if self.legal else head


class UsageError(AutoschedError, ValueError):
    """A wrong argument on the command line or to a public function."""

    exit_status = 2


class UsageTypeError(UsageError, TypeError):
    """An argument of a type, or of an element type, that a public function does not take."""


class InvalidValueError(UsageError):
    """An argument of the right type with a value that cannot be."""


def is_list_of(values: object, kind: type | tuple[type, ...]) -> bool:
    """Whether `values` is a list or tuple of such things."""
    return isinstance(values, (list, tuple)) and all(isinstance(v, kind) for v in values)


def expect(value: object, what: str, holds: bool, asked: str) -> None:
    """Raise UsageTypeError unless an argument is what it has to be; `what` says what that is."""
    if not holds:
        raise UsageTypeError(f"{value!r:.60} is not {what}", asked=asked, legal=what)


def clipped(text: object, most: int = 500) -> str:
    """A text that may hold parts of a file, with dots in place of what is too long for a message."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[: most - 3]}..."


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """`did you mean 'guided' or 'grid'? `, to begin the legal part of an error with; empty where nothing is near."""
    near = difflib.get_close_matches(name, list(known), n=most)
    return f"did you mean {' or '.join(map(repr, near))}? " if near else ""


def check_seed(seed: object) -> None:
    """Raise UsageTypeError or UsageError unless `seed` is a whole number of 0 to 63 bits, which a record can hold."""
    legal = "a whole number, 0 or more and below 2**63"
    expect(seed, legal, isinstance(seed, numbers.Integral) and not isinstance(seed, bool), f"seed={seed!r:.40}")
    if not 0 <= seed < 1 << 63:  # type: ignore[operator]
        why = "seeds are not negative" if seed < 0 else "seeds have 63 bits at most"  # type: ignore[operator]
        raise UsageError(why, asked=f"seed={seed!r:.40}", legal=legal)


def check_positive(function: str, or_zero: Collection[str] = (), or_none: bool = True, **limits: float | None) -> None:
    """Raise UsageError for a limit of a function that is no number above 0: a time where its name ends in `_s` or
    `_ms`, else a whole one. Those named in `or_zero` may be 0; None is one that is not given, where `or_none`."""
    for name, value in limits.items():
        if value is None and or_none:
            continue
        asked, unit = f"{function}({name}={value!r:.40})", _UNITS.get(name.rpartition("_")[2])
        kind: type = numbers.Real if unit else numbers.Integral
        least = "0 or more" if name in or_zero else "more than 0"
        legal = f"{unit or 'a whole number'}, {least}"
        if isinstance(value, bool) or not isinstance(value, kind):
            raise UsageTypeError(f"{value!r:.40} is no {'time' if unit else 'count'}", asked=asked, legal=legal)
        number = cast(float, value)
        if not (0 < number < math.inf or (number == 0 and name in or_zero)):
            why = f"{value} is not {least if math.isfinite(number) else 'finite'}"
            raise UsageError(why, asked=asked, legal=legal)


_UNITS = {"s": "seconds", "ms": "milliseconds"}


class FileError(UsageError, OSError):
    """A file that the user named, and that cannot be read or written."""


def check_path(path: object, asked: str) -> Path:
    """The path. Raises UsageTypeError for what is none, FileError for text that names no file."""
    expect(path, "a path", isinstance(path, (str, os.PathLike)), asked)
    name = os.fspath(path)  # type: ignore[call-overload]
    expect(path, "a path of text", isinstance(name, str), asked)
    if not name or "\0" in name:
        raise FileError(f"{name!r:.60} names no file", asked=asked, legal="a path")
    return Path(name)


def new_file(path: object, asked: str, force: bool = False, *, what: str = "name") -> Path:
    """The path of a file to write. Raises the errors of `check_path`, UsageError for one that is there already unless
    `force`; another `what` is the way out."""
    to = check_path(path, asked)
    if not force and os.path.lexists(to):
        raise UsageError("the file is there already", asked=asked, legal=f"--force, or another {what}")
    return to


@contextmanager
def named_file(asked: str) -> Iterator[None]:
    """Raise FileError where this cannot read or write a file of the user's, which `asked` names."""
    try:
        yield
    except OSError as error:
        why = error.why if isinstance(error, FileError) else error.strerror or str(error)
        raise FileError(why, asked=asked, legal="a file that you may use, in a folder that is there") from None


class NoValueYet(UsageTypeError):
    """A Python number or truth value is needed of knobs, which have none while a sketch is traced; `names` says
    of which."""

    def __init__(self, why: str, *, asked: str = "", legal: str = "", names: Sequence[str] = ()) -> None:
        super().__init__(why, asked=asked, legal=legal)
        self.names = tuple(names)


class WorkloadError(UsageError):
    """A workload or template that cannot be found, loaded or called."""


class TargetError(UsageError):
    """An unknown target, target option or device."""


class DeviceError(AutoschedError):
    """A device or driver that is missing, lost or refuses to work."""

    exit_status = 6


class ScheduleError(AutoschedError):
    """A schedule primitive that is illegal as structure, whatever the values of the knobs."""


class Illegal(Exception):
    """Raised by a primitive, with the reason and what would be legal; `Schedule.apply` makes a ScheduleError of it."""

    def __init__(self, why: str, legal: str = "") -> None:
        self.why, self.legal = why, legal
        super().__init__(why)


class LowerError(AutoschedError):
    """A schedule that cannot be turned into loops; `loop` is the variable of the loop that it is about."""

    def __init__(self, why: str, *, asked: str = "", legal: str = "", loop: object = None) -> None:
        super().__init__(why, asked=asked, legal=legal)
        self.loop = loop


class BuildError(AutoschedError):
    """Loops that cannot be turned into machine code, or arguments a module cannot take."""


class ArgumentError(BuildError, ValueError):
    """An argument of a call of a module, or of `te.reference`, whose shape, layout or value does not fit."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of the wrong element type, of no array type, or one too many or too few."""


class BoundsError(BuildError, LowerError, IndexError):
    """A read outside of a tensor: one that was shown to happen, or one that happened."""


def out_of_bounds(
    tensor: str, dimension: int, index: object, extent: object, *, reader: str = "", given: bool = False
) -> BoundsError:
    """The error of reading an index outside of a tensor's dimension, by the stage `reader`; `extent` may be text.

    `given`: whether inputs are known, which may be what is wrong.
    """
    last = extent - 1 if isinstance(extent, int) else f"{extent} - 1"
    legal = ["guard the read with te.if_then_else", "clamp the index with te.min and te.max"]
    legal += ["give inputs whose elements are places in it"] if given else []
    return BoundsError(
        f"index {index} of dimension {dimension} is outside 0..{last}",
        asked=f"read of {tensor} in {reader}" if reader else f"read of {tensor}",
        legal=f"{', '.join(legal[:-1])}{',' if given else ''} or {legal[-1]}",
    )


class MeasureError(AutoschedError):
    """A measurement that could not be made at all: nothing built, or nothing ran."""

    exit_status = 3


class RecordError(AutoschedError):
    """Records that cannot be read, written or applied."""

    exit_status = 4


class VerificationError(AutoschedError):
    """A result that is not what the reference computes."""

    exit_status = 5


class ModelError(UsageError):
    """A model that cannot be read, or asks for what cannot be compiled."""


class ImageError(UsageError):
    """An image file that cannot be read, written or blurred."""


_PACKAGE = str(Path(__file__).parent)
_LIBRARY = sysconfig.get_path("stdlib")


def asked_at(skip_packages: tuple[str, ...] = ("autosched",)) -> str:
    """`file.py:12` of the innermost caller outside this package: the user's own line.

    Empty when there is none, as in a worker process or below the command line's own script.
    """
    frame = sys._getframe(1)
    while frame is not None:
        module, file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if module.partition(".")[0] not in skip_packages and not _is_machinery(module, file):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def with_line(call: str, where: str | None = None) -> str:
    """A call and where it stands: by default, the user's own line."""
    where = asked_at() if where is None else where
    return f"{call}  at {where}" if where else call


def raised_at(error: BaseException) -> str:
    """`file.py:12` of the innermost call outside this package that an exception came through."""
    found, link = "", error.__traceback__
    while link is not None:
        module, file = link.tb_frame.f_globals.get("__name__", ""), link.tb_frame.f_code.co_filename
        if module.partition(".")[0] != "autosched" and not _is_machinery(module, file):
            found = f"{file}:{link.tb_lineno}"
        link = link.tb_next
    return found


def raised_in(call: str, error: Exception) -> WorkloadError:
    """The error for an exception of a user's code, with the call and the line that raised it."""
    return WorkloadError(f"it raised {type(error).__name__}: {error}", asked=with_line(call, raised_at(error)))


@cache
def _is_machinery(module: str, file: str) -> bool:
    """Whether a frame is Python's own, or the script that starts the command line."""
    if module == "__main__" and (file.startswith(_PACKAGE) or Path(file).stem == "autosched"):
        return True
    installed = "site-packages" in file or "dist-packages" in file
    return file.startswith("<frozen ") or (file.startswith(_LIBRARY) and not installed)


# -- data from files, logs and pipes --------------------------------------------------------------
class Malformed(ValueError):
    """Data from outside that are not what their reader takes; the text names the part that is not."""


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says. Raises Malformed for other text, NaN, infinities and too many levels."""
    try:
        return json.loads(text, parse_constant=no_constant)
    except RecursionError:
        raise Malformed("not JSON: nested too deeply") from None
    except ValueError as error:  # Malformed and UnicodeDecodeError are ValueErrors
        raise Malformed(f"not JSON: {error!s:.200}") from None


def no_constant(name: str) -> Any:
    """Refuse what Python writes for numbers that JSON does not have."""
    raise Malformed(f"{name} is no JSON number")


def is_integer(data: Any) -> TypeGuard[int]:
    """Whether it is an int; True and False are none."""
    return isinstance(data, int) and not isinstance(data, bool)


def is_finite(data: Any) -> TypeGuard[float]:
    """Whether it is a number that a float can hold."""
    is_number = isinstance(data, (int, float)) and not isinstance(data, bool)
    return is_number and -sys.float_info.max <= data <= sys.float_info.max


@dataclass(frozen=True)
class Form:
    """What a part of JSON data has to be: `what` in words, and whether data `fits`.

    >>> answer = Fields({"status": Form.one_of("ok", "failed"), "seconds": Form.number(least=0)})
    >>> answer.check({"status": "ok", "seconds": -1})
    Traceback (most recent call last):
    autosched.errors.Malformed: seconds is not a number of 0 or more
    """

    what: str
    fits: Callable[[Any], bool]

    def check(self, data: Any, name: str) -> Any:
        """The data. Raises Malformed, which calls them `name`, where they do not fit."""
        if not self.fits(data):
            raise Malformed(f"{name} is not {self.what}")
        return data

    @staticmethod
    def flag() -> Form:
        return Form("true or false", lambda data: isinstance(data, bool))

    @staticmethod
    def integer(least: float = -math.inf) -> Form:
        what = f"an integer of {least} or more" if least > -math.inf else "an integer"
        return Form(what, lambda data: is_integer(data) and data >= least)

    @staticmethod
    def number(least: float = -math.inf, above: float = -math.inf, what: str = "") -> Form:
        """Finite numbers from `least` on that are above `above`."""
        told = f"a number above {above:g}" if above > least else f"a number of {least:g} or more"
        return Form(what or told, lambda data: is_finite(data) and data >= least and data > above)

    @staticmethod
    def text(longest: float = math.inf, shortest: int = 0) -> Form:
        what = f"a string of {shortest} to {longest} characters" if longest < math.inf else "a string"
        return Form(what, lambda data: isinstance(data, str) and shortest <= len(data) <= longest)

    @staticmethod
    def one_of(*values: str) -> Form:
        return Form(f"one of {', '.join(values)}", lambda data: isinstance(data, str) and data in values)

    @staticmethod
    def array(of: Form | Fields | None = None, what: str = "an array", shortest: int = 0) -> Form:
        """Arrays of `shortest` or more elements, all of that form."""
        fits = (lambda data: True) if of is None else of.fits
        return Form(what, lambda data: isinstance(data, list) and len(data) >= shortest and all(map(fits, data)))

    @staticmethod
    def object(of: Form | Fields | None = None, what: str = "an object") -> Form:
        """Objects whose values are all of that form."""
        fits = (lambda data: True) if of is None else of.fits
        return Form(what, lambda data: isinstance(data, dict) and all(map(fits, data.values())))


@dataclass(frozen=True)
class Fields:
    """An object that has these fields, but perhaps not those that are `optional`; it may have others."""

    fields: Mapping[str, Form | Fields]
    optional: Collection[str] = ()

    def fits(self, data: Any) -> bool:
        """Whether `check` takes it."""
        try:
            self.check(data)
        except Malformed:
            return False
        return True

    def check(self, data: Any, name: str = "") -> Any:
        """The data. Raises Malformed for the first field that is missing or has another form."""
        if not isinstance(data, dict):
            raise Malformed(f"{name or 'it'} is not an object")
        prefix = f"{name}." if name else ""
        for field, form in self.fields.items():
            if field not in data:
                if field not in self.optional:
                    raise Malformed(f"{prefix}{field} is missing")
            elif isinstance(form, Fields) or not form.fits(data[field]):
                form.check(data[field], f"{prefix}{field}")
        return data
