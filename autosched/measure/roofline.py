"""The roofline of a machine: how fast a program can be at best, from what it computes and moves.

The model is that of S. Williams, A. Waterman and D. Patterson ("Roofline: an insightful visual
performance model", 2009): a program takes at least as long as its arithmetic takes at the peak rate,
and at least as long as moving its data takes. The machine is measured once (`autosched roofline`)
and remembered in the user's cache folder; nothing here measures.

    roof = cached()
    roof.bound(work_of(args, sizes), threads=2).seconds
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import Fields, Form, is_finite, parse_json
from autosched.places import cache_folder, write_whole
from autosched.runtime.device import host_cpu
from autosched.target import cpu_count
from autosched.te.work import Work

_VERSION = 1
#: Rates that no core has had, in bytes or operations a second: two vectors of 64 bytes at 10 GHz are 1.3e12.
_SLOWEST, _FASTEST = 1e8, 5e12
#: A level is never so many times slower than one further away, nor more threads than fewer: something disturbed them.
_DISTURBED = 4.0


@dataclass(frozen=True)
class Bound:
    """The least time that a call can take, and the limit that is reached: `L2`, `memory`, `FMA`..."""

    seconds: float
    limit: str


@dataclass(frozen=True)
class Level:
    """A level of the memory hierarchy: bandwidths in bytes per second by number of threads.

    `capacity` is what fits, in bytes for each thread if `private`; None for main memory. `working_set`
    is how many bytes were gone through to measure it. `copy` counts bytes read and bytes written.
    """

    name: str
    capacity: int | None
    private: bool
    working_set: int
    read: dict[int, float]
    copy: dict[int, float]

    def holds(self, size: int, threads: int) -> bool:
        return self.capacity is None or size <= self.capacity * (threads if self.private else 1)


@dataclass(frozen=True)
class Impossible:
    """A rate that was measured and cannot be: of a level, `read` or `copy`; of `multiply-adds`, of a type."""

    name: str
    what: str
    threads: int
    rate: float

    def __str__(self) -> str:
        many = "" if self.threads == 1 else "s"
        unit = "GFLOP/s" if self.name == "multiply-adds" else "GB/s"
        return f"{self.threads} thread{many}, {self.name}, {self.what}: {self.rate / 1e9:.3g} {unit}"


@dataclass(frozen=True)
class Roofline:
    """The measured rates of a machine; `fma` is type -> threads -> floating-point operations a second."""

    cpu: str
    cores: int
    measured: str
    levels: tuple[Level, ...]
    fma: dict[str, dict[int, float]]

    def bound(self, work: Work, threads: int) -> Bound:
        """The least time of a call that does this work, with its data where a repeated call finds them.

        That is the smallest level that holds all arguments. Bytes read cost what reading alone takes; bytes written
        cost what a copy takes beyond that. A level counts as at least as fast as those further away, and more threads
        as at least as fast as fewer: a slower measurement was disturbed.
        """
        at = next(k for k, x in enumerate(self.levels) if x.holds(work.moved, threads))
        level, further = self.levels[at], self.levels[at:]
        read, copy = max(_at(x.read, threads) for x in further), max(_at(x.copy, threads) for x in further)
        memory = work.loaded / read + work.stored * max(2 / copy - 1 / read, 0.5 / copy)
        arithmetic = work.flops / _at(self.fma["float64" if work.wide else "float32"], threads)
        return Bound(arithmetic, "FMA") if arithmetic > memory else Bound(memory, level.name)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, which `from_json` reads."""
        return {"v": _VERSION, **asdict(self)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Roofline:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        _DATA.check(data, "the roofline")
        if data["v"] != _VERSION or data["levels"][-1]["capacity"] is not None:
            raise ValueError(f"version {data['v']} is not {_VERSION}, or the last level is not main memory")
        levels = tuple(
            Level(**{n: x[n] for n in _LEVEL.fields}, read=_by_threads(x["read"]), copy=_by_threads(x["copy"]))
            for x in data["levels"]
        )
        fma = {name: _by_threads(rates) for name, rates in data["fma"].items()}
        found = Roofline(data["cpu"], data["cores"], data["measured"], levels, fma)
        if wrong := found.impossible():
            raise ValueError(str(wrong[0]))
        return found

    def impossible(self) -> list[Impossible]:
        """The rates that cannot be this machine's: they were measured while something else had its cores."""
        found = [
            Impossible(name, what, t, rate)
            for name, what, rates in self._measured()
            for t, rate in rates.items()
            if not _SLOWEST <= rate <= _FASTEST * t or rate * _DISTURBED < max(r for n, r in rates.items() if n <= t)
        ]
        for what in ("read", "copy"):
            for k, level in enumerate(self.levels):
                further = [getattr(x, what) for x in self.levels[k + 1 :]]
                for t, rate in getattr(level, what).items():
                    if rate * _DISTURBED < max((x.get(t, 0.0) for x in further), default=0.0):
                        found.append(Impossible(level.name, what, t, rate))
        return list(dict.fromkeys(found))

    def _measured(self) -> Iterator[tuple[str, str, dict[int, float]]]:
        """(Name, what, rates by threads) of all that was measured."""
        for level in self.levels:
            yield from ((level.name, "read", level.read), (level.name, "copy", level.copy))
        yield from (("multiply-adds", name, rates) for name, rates in self.fma.items())


def _are_rates(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and bool(data)
        and all(str(threads).isdecimal() and is_finite(rate) and rate > 0 for threads, rate in data.items())
    )


_RATES = Form("rates above 0 by threads", _are_rates)
_LEVEL = Fields(
    {
        "name": Form.text(),
        "capacity": Form("a number of bytes, or null", lambda data: data is None or Form.integer(1).fits(data)),
        "private": Form.flag(),
        "working_set": Form.integer(0),
    }
)
_RATED_LEVEL = Fields({**_LEVEL.fields, "read": _RATES, "copy": _RATES})
_DATA = Fields(
    {
        "v": Form.integer(),
        "cpu": Form.text(),
        "cores": Form.integer(1),
        "measured": Form.text(),
        "levels": Form.array(_RATED_LEVEL, "an array of levels", shortest=1),
        "fma": Fields({"float32": _RATES, "float64": _RATES}),
    }
)


def _by_threads(rates: Mapping[Any, Any]) -> dict[int, float]:
    """Keys as integers again, which JSON makes strings."""
    return {int(threads): float(rate) for threads, rate in rates.items()}


def _at(rates: dict[int, float], threads: int) -> float:
    """The rate of a number of threads, interpolated where it was not measured; never less than that of fewer."""
    known = sorted(rates)
    return float(np.interp(threads, known, np.maximum.accumulate([rates[t] for t in known])))


# -- the cache ------------------------------------------------------------------------------------
def cache_file() -> Path:
    """The file of this machine's roofline, one for each combination of CPU, cores and system."""
    facts = json.dumps([host_cpu(), cpu_count(), sys.platform])
    return cache_folder() / f"roofline-{hashlib.sha256(facts.encode()).hexdigest()[:12]}.json"


def cached() -> Roofline | None:
    """This machine's roofline, if it has been measured. A damaged file counts as none."""
    try:
        file = cache_file()
        return _read(str(file), file.stat().st_mtime_ns)
    except (OSError, RuntimeError):  # no such file; or no home folder
        return None


@lru_cache(maxsize=4)
def _read(path: str, changed: int) -> Roofline | None:
    try:
        return Roofline.from_json(parse_json(Path(path).read_bytes()))
    except (OSError, ValueError):
        return None


def store(roofline: Roofline) -> Path:
    """Keep a roofline for later; returns the file. Raises OSError where that cannot be written."""
    file = cache_file()
    write_whole(file, lambda out: out.write(json.dumps(roofline.to_json(), indent=2).encode()))
    return file
