"""One measurement as one line of JSON: `encode(record)`, `decode(line)`.

A line is an object with sorted keys, closed by its checksum:

    {"at":"…","build_s":0.3, …,"workload":{…},"crc":"9f2c01ab"}

`crc` is the CRC-32 of the line's bytes without that last field, so a line can be checked before a
JSON parser sees it. A record is data, never code: `decode` only builds numbers, strings, lists and
dicts, within the limits below, and refuses everything else with a reason.
"""

from __future__ import annotations

import json
import math
import operator
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from autosched.errors import Fields, Form, Malformed, RecordError, expect, is_finite, no_constant
from autosched.noise import typical

#: Version of the line's format. A reader takes this one and refuses newer ones.
VERSION = 1
#: Status of what a model chose and nobody timed; `extra["predicted_s"]` has the seconds that it predicts.
PREDICTED = "predicted"
#: How the reason begins for a line of a newer format, which is not damaged.
NEWER = "written by a newer autosched"
#: Field of a record made of another program's log: its format and the target as it has it.
IMPORTED = "imported"
#: Bytes of a line, its line end not counted.
MAX_LINE = 64 * 1024
#: Levels of nesting inside a line.
MAX_DEPTH = 32
#: Characters of `error` that are kept; the middle of a longer text is left out.
MAX_ERROR = 4096

#: A share of the time from which on it is recorded that threads waited for cores that other programs had.
STRAINED = 0.05

_MAX_NODES = MAX_LINE  # a value takes a byte at least, so that no line holds more
_INT64 = range(-(1 << 63), 1 << 63)
_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
#: Everything but the brackets of JSON.
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_SEAL_BYTES = len(b',"crc":"00000000"}')
#: Line ends to some readers, though not to JSON nor to us. Escaped, so that no reader stumbles.
_LINE_ENDS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}


def timestamp() -> str:
    """Now, as ISO 8601 in UTC with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def new_id() -> str:
    """A fresh name for a record: 16 hexadecimal digits."""
    return secrets.token_hex(8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One trial: what was run, where, and how it went. See `docs/records.md` for each field.

    `samples` and `build_s` are seconds. `workload` holds at least `name`, `key`, `params`, `args`
    and `sizes`. `extra` holds the fields that this version does not know; they survive a round trip.
    """

    workload: dict[str, Any] = field(hash=False)
    target: str
    sketch: str
    trace: list[Any] = field(hash=False)
    knobs: dict[str, int] = field(hash=False)
    status: str
    samples: tuple[float, ...] = ()
    error: str = ""
    build_s: float = 0.0
    verified: str = "no"
    device: dict[str, Any] = field(default_factory=dict, hash=False)
    versions: dict[str, Any] = field(default_factory=dict, hash=False)
    strategy: str = ""
    seed: int = 0
    trial: int = 0
    run: str = ""
    id: str = field(default_factory=new_id)
    at: str = field(default_factory=timestamp)
    v: int = VERSION
    extra: dict[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        # NumPy scalars are what measuring and searching naturally hand over; JSON knows none of them.
        try:
            plain: dict[str, Any] = {
                "samples": tuple(float(s) for s in self.samples),
                "knobs": {name: int(operator.index(value)) for name, value in self.knobs.items()},
                "build_s": float(self.build_s),
                "seed": int(operator.index(self.seed)),
                "trial": int(operator.index(self.trial)),
            }
        except (TypeError, ValueError, OverflowError, AttributeError) as e:
            raise RecordError(
                f"samples and build_s are numbers, knobs, seed and trial integers: {e}", asked="Record"
            ) from None
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def ok(self) -> bool:
        """Whether the candidate built, ran and was timed. Says nothing of `verified`."""
        return self.status == "ok"

    @property
    def seconds(self) -> float:
        """Median in seconds of the samples that nothing disturbed (`noise.typical`); infinite when the trial failed."""
        return typical(self.samples) if self.ok and self.samples else math.inf

    @property
    def key(self) -> str:
        """The workload's canonical hash: which computation was run."""
        key: str = self.workload["key"]
        return key

    @property
    def sizes(self) -> dict[str, int]:
        """Values of the workload's size variables; empty for fixed shapes."""
        sizes: dict[str, int] = self.workload["sizes"]
        return sizes

    @property
    def names(self) -> list[list[str]] | None:
        """How its program called its stages and their axes; None where that is not recorded."""
        return self.workload.get("names")

    @property
    def target_kind(self) -> str:
        """`llvm` of `llvm -mcpu=znver3`."""
        return self.target.split(maxsplit=1)[0] if self.target.strip() else ""

    @property
    def device_name(self) -> str:
        name = self.device.get("name", "")
        return name if isinstance(name, str) else ""

    @property
    def moment(self) -> float:
        """`at` as seconds since 1970."""
        return datetime.fromisoformat(self.at).timestamp()

    @property
    def playoff(self) -> dict[str, Any] | None:
        """The findings of the play-off that re-measured this record; None without one."""
        found = self.extra.get("playoff")
        return found if isinstance(found, dict) else None

    @property
    def family(self) -> tuple[str, int, str] | None:
        """The run that chose it for its sizes, the number of its kernel there, and when; None for others."""
        match self.extra.get("family"):
            case {"run": str(run), "kernel": int(kernel), "at": str(at)}:
                return run, kernel, at
        return None

    @property
    def predicted_s(self) -> float:
        """Seconds that a model predicted for what nobody timed (status `predicted`); NaN where none did."""
        found = self.extra.get("predicted_s")
        return float(found) if is_finite(found) else math.nan

    @property
    def raced(self) -> bool:
        """Whether measuring was stopped early, because the candidate was clearly slower than the best."""
        return self.extra.get("raced") is True

    @property
    def strain(self) -> float:
        """The share of the time it was timed that its threads waited for cores which other programs had; 0 where
        that was not noticed, or not recorded."""
        found = self.extra.get("strain")
        return float(found) if is_finite(found) and found >= 0 else 0.0

    @property
    def code(self) -> str:
        """Digest of the generated code, with its launches and signature; empty where it is not recorded.

        Equal digests are equal programs; their times are comparable on one device with the same software.
        """
        found = self.extra.get("code")
        return found if isinstance(found, str) else ""

    def features(self, version: str) -> tuple[float, ...] | None:
        """The candidate's features; None where they are not recorded, or of another version."""
        found = self.extra.get("features")
        if not isinstance(found, dict) or found.get("version") != version:
            return None
        values = found.get("values")
        return tuple(map(float, values)) if isinstance(values, list) and all(map(is_finite, values)) else None

    def with_strain(self, share: float) -> Record:
        """The record with how much its threads waited for cores that other programs had; see `strain`."""
        rest = {name: value for name, value in self.extra.items() if name != "strain"}
        return replace(self, extra={**rest, "strain": round(share, 3)} if share >= STRAINED else rest)

    def with_features(self, version: str, values: Iterable[float]) -> Record:
        """This record with a candidate's features, to six digits: a model's trees need no more.

        Without them where one is not finite, which no line can hold.
        """
        rounded = [float(f"{v:.6g}") for v in values]
        if not all(map(math.isfinite, rounded)):
            return self
        plain = [int(v) if v.is_integer() and abs(v) < 2**53 else v for v in rounded]
        return replace(self, extra={**self.extra, "features": {"version": version, "values": plain}})

    def with_playoff(self, samples: tuple[float, ...], *, run: str, winner: bool, **details: Any) -> Record:
        """The line to append after a play-off: the same `id`, the new samples in seconds.

        `run` is the run that held the play-off; `details` are numbers such as `speedup` over the
        default schedule. The latest line of an `id` is the one that counts.
        """
        extra = {**self.extra, "playoff": {"run": run, "winner": bool(winner), **details}}
        extra.pop("raced", None)  # the new samples are all there
        return replace(self, samples=samples, at=timestamp(), extra=extra)

    def with_family(self, run: str, kernel: int, at: str) -> Record:
        """The line that says that this schedule is for its sizes: kernel number `kernel` of those that `run` chose
        at `at`. Records of one run, and kernels of one number, belong together."""
        extra = {**self.extra, "family": {"run": run, "kernel": int(kernel), "at": at}}
        return replace(self, at=timestamp(), extra=extra)

    def as_failed(self, status: str, error: str) -> Record:
        """The line that withdraws this record: the same `id`, found not to work when it was applied."""
        extra = {name: value for name, value in self.extra.items() if name not in ("playoff", "raced", "family")}
        return replace(self, status=status, samples=(), error=error, verified="no", at=timestamp(), extra=extra)


def encode(record: Record) -> str:
    """The record as one line, without a line end. Raises RecordError for what no line can hold.

    An `error` longer than `MAX_ERROR` characters loses its middle, so that no trial is lost to a
    compiler's long complaint.
    """
    line = {f.name: getattr(record, f.name) for f in fields(Record) if f.name != "extra"}
    clash = sorted({*line, "crc"} & set(record.extra))
    if clash:
        raise RecordError(f"extra may not hold {', '.join(clash)}", asked=_asked(record))
    if isinstance(record.error, str):
        line["error"] = _clip(record.error)
    line |= record.extra | {"samples": list(record.samples)}
    try:
        _check_tree(line)
        _check_fields(line)
    except Malformed as e:
        raise RecordError(str(e), asked=_asked(record), legal="see docs/records.md for the fields") from None
    text = json.dumps(line, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate (undecodable bytes of somebody's error text) is no character: it becomes "?".
    body = (text if text.isascii() else text.translate(_LINE_ENDS)).encode("utf-8", "replace")
    if len(body) + _SEAL_BYTES - 1 > MAX_LINE:
        raise RecordError(
            f"the line would have {len(body)} bytes, more than {MAX_LINE}",
            asked=_asked(record),
            legal="shorten the trace or the extra fields",
        )
    return f'{body[:-1].decode()},"crc":"{zlib.crc32(body):08x}"}}'


def decode(line: str | bytes) -> Record:
    """The record in a line. Raises RecordError with the reason for a line that is not one.

    Strict: checksum, encoding, depth, ranges, names and types are checked; unknown fields are kept
    in `extra`. Takes milliseconds for any input.
    """
    try:
        values = _parse(line)
        _check_fields(values)
    except Malformed as e:
        raise RecordError(str(e), asked="record") from None
    known = {f.name: values.pop(f.name) for f in fields(Record) if f.name != "extra"}
    del values["crc"]
    return Record(**known, extra=values)


def _asked(record: Record) -> str:
    return f"record {record.id!r:.80}"


def _clip(text: str) -> str:
    if len(text) <= MAX_ERROR:
        return text
    tail = MAX_ERROR // 4
    # The note's length depends on the count in it, by a digit at most: leave room for the longest.
    head = MAX_ERROR - tail - 60
    return f"{text[:head]}\n... {len(text) - head - tail} characters left out ...\n{text[-tail:]}"


def _parse(line: str | bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE + 2:
        raise Malformed(f"longer than {MAX_LINE} bytes")
    try:
        data = (line.encode() if isinstance(line, str) else bytes(line)).removesuffix(b"\n").removesuffix(b"\r")
    except UnicodeEncodeError:
        raise Malformed("not UTF-8") from None
    if len(data) > MAX_LINE:
        raise Malformed(f"longer than {MAX_LINE} bytes")
    seal = _SEAL.fullmatch(data, max(0, len(data) - _SEAL_BYTES))
    if seal is None:
        raise Malformed("does not end in a checksum")
    if zlib.crc32(b"}", zlib.crc32(data[:-_SEAL_BYTES])) != int(seal[1], 16):
        raise Malformed("checksum does not match: the line was damaged or edited")
    try:
        values = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_constant=no_constant,
            parse_int=_integer_of,
            parse_float=_number_of,
        )
    except Malformed:
        raise
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None
    except RecursionError:
        raise Malformed(f"nested deeper than {MAX_DEPTH}") from None
    except ValueError as e:
        raise Malformed(f"not JSON: {e!s:.200}") from None
    if not isinstance(values, dict):
        raise Malformed("not a JSON object")
    if not _is_plainly_flat(data):
        _check_tree(values)
    if _HALF.search(data):
        _check_whole(values)
    return values


def _is_plainly_flat(data: bytes) -> bool:
    """Whether a JSON text is seen at once to have no more than `MAX_DEPTH` levels.

    Most lines are, and looking at each of their values takes longer than all the rest; ranges and types are the
    parser's business. A round takes away two levels at most, and brackets in strings only keep some from going.
    """
    brackets = data.translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH // 2):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets


def _integer_of(text: str) -> int:
    value = int(text) if len(text) < 40 else 1 << 64
    if value not in _INT64:
        raise Malformed("an integer does not fit 64 bits")
    return value


def _number_of(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Malformed("a number is not finite")
    return value


def _check_whole(values: dict[str, Any]) -> None:
    """No lone surrogates, which JSON's escapes can spell and which nobody could print or store."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Malformed("a string holds half a character") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise Malformed("a field occurs twice")
    return values


def _check_tree(root: Any) -> None:
    """Depth, ranges and types of every value; terminates on cyclic and on shared structures."""
    stack: list[tuple[Any, int]] = [(root, 1)]
    left = _MAX_NODES
    while stack:
        value, depth = stack.pop()
        left -= 1
        if depth > MAX_DEPTH:
            raise Malformed(f"nested deeper than {MAX_DEPTH}")
        if left < 0:
            raise Malformed(f"more than {_MAX_NODES} values")
        if isinstance(value, (str, bool, type(None))):
            continue
        if isinstance(value, int):
            if value not in _INT64:
                raise Malformed("an integer does not fit 64 bits")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise Malformed("a number is not finite")
        elif isinstance(value, dict):
            if not all(isinstance(name, str) for name in value):
                raise Malformed("a field's name is not a string")
            stack += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, (list, tuple)):
            stack += [(item, depth + 1) for item in value]
        else:
            raise Malformed(f"a value of type {type(value).__name__:.40} is no JSON")


def _is_moment(data: Any) -> bool:
    try:
        parsed = datetime.fromisoformat(data)
        return len(data) <= 40 and parsed.tzinfo is not None and math.isfinite(parsed.timestamp())
    except (TypeError, ValueError, OverflowError):
        return False


_TIME = Form.number(least=0, what="a number of seconds")
_INTEGERS = Form.object(Form.integer(), "an object of integers")
#: A sample of zero is a broken clock's, and would win every comparison.
_SAMPLES = Form.array(Form.number(above=0), "an array of positive numbers of seconds")
_WORKLOAD = Fields(
    {
        "name": Form.text(200, 1),
        "key": Form.text(200, 1),
        "params": Form.object(),
        "args": Form.array(Form.object(), "an array of objects"),
        "names": Form.array(Form.array(Form.text(), shortest=1), "an array of arrays of names"),
        "sizes": _INTEGERS,
    },
    optional=["names"],
)
_LINE = Fields(
    {
        "at": Form("a date and time in ISO 8601 with its time zone", _is_moment),
        "build_s": _TIME,
        "device": Form.object(),
        "error": Form.text(MAX_LINE),
        "id": Form.text(64, 1),
        "knobs": _INTEGERS,
        "run": Form.text(64),
        "samples": _SAMPLES,
        "seed": Form.integer(),
        "sketch": Form.text(200),
        "status": Form.text(64, 1),
        "strategy": Form.text(200),
        "target": Form("a target such as llvm", lambda data: isinstance(data, str) and 0 < len(data.strip()) <= 1000),
        "trace": Form.array(),
        "trial": Form.integer(),
        "verified": Form.text(64),
        "versions": Form.object(),
        "workload": _WORKLOAD,
    }
)


def _check_fields(values: Mapping[str, Any]) -> None:
    version = values.get("v")
    if not Form.integer(1).fits(version):
        raise Malformed("v is not a version number")
    if version > VERSION:  # type: ignore[operator]
        raise Malformed(f"{NEWER} (format {version}; this one reads up to {VERSION})")
    _LINE.check(values)
    if values["status"] == "ok" and not values["samples"]:
        raise Malformed("status is ok, but there are no samples")


def of_records(given: object, asked: str) -> Iterator[Record]:
    """The records of a list or another iterable, each looked at. Raises UsageTypeError for anything else."""
    expect(given, "a list of records", isinstance(given, Iterable) and not isinstance(given, str), asked)
    for r in given:  # type: ignore[attr-defined]
        expect(r, "a Record", isinstance(r, Record), asked)
        yield r
