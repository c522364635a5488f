"""Answers of a worker, checked before anyone believes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeGuard

from autosched.measure.protocol import STATUSES, VERDICTS

__all__ = ["UNLOADED", "AnswerError", "BuildAnswer", "RunAnswer", "read_build", "read_run", "read_time"]

UNLOADED = "unloaded"

_MAX_TEXT = 8192


class AnswerError(ValueError):
    """A frame that is JSON but no answer to what was asked."""


@dataclass(frozen=True)
class BuildAnswer:
    status: str
    error: str
    digest: str
    build_s: float


@dataclass(frozen=True)
class RunAnswer:
    """`recycle`: the worker asks to be replaced. `device_error`: the device itself refused.

    Status `UNLOADED` answers a question about a kernel that the worker does not hold.
    """

    status: str
    error: str
    samples: tuple[float, ...]
    verified: str
    run_s: float
    number: int
    raced: bool
    recycle: bool
    device_error: bool
    strain: float = 0.0


def read_build(reply: dict[str, Any]) -> BuildAnswer:
    """Raises AnswerError."""
    status = _text(reply, "status", STATUSES)
    digest = _text(reply, "digest") if status == "ok" else ""
    if status == "ok" and not digest:
        raise AnswerError("built, and no digest")
    return BuildAnswer(status, _text(reply, "error"), digest, _seconds(reply, "build_s"))


def read_run(reply: dict[str, Any]) -> RunAnswer:
    """Raises AnswerError."""
    return _read_run(reply, STATUSES)


def read_time(reply: dict[str, Any]) -> RunAnswer:
    """An answer that may also be `UNLOADED`. Raises AnswerError."""
    return _read_run(reply, (*STATUSES, UNLOADED))


def _read_run(reply: dict[str, Any], statuses: tuple[str, ...]) -> RunAnswer:
    status = _text(reply, "status", statuses)
    samples: tuple[float, ...] = ()
    verified = "no"
    if status == "ok":
        verified = _text(reply, "verified", VERDICTS)
        samples = _samples(reply.get("samples"))
    number = reply.get("number", 0)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise AnswerError("number is not a count")
    return RunAnswer(
        status=status,
        error=_text(reply, "error"),
        samples=samples,
        verified=verified,
        run_s=_seconds(reply, "run_s"),
        number=number,
        raced=reply.get("raced") is True,
        recycle=reply.get("recycle") is True,
        device_error=reply.get("device_error") is True,
        strain=_seconds(reply, "strain") if "strain" in reply else 0.0,
    )


def _text(reply: dict[str, Any], name: str, legal: tuple[str, ...] | None = None) -> str:
    value = reply.get(name)
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise AnswerError(f"{name} is not a text")
    if legal is not None and value not in legal:
        raise AnswerError(f"{name} {value[:40]!r} is unknown")
    return value


def _seconds(reply: dict[str, Any], name: str) -> float:
    value = reply.get(name)
    if not _is_number(value) or not (math.isfinite(value) and value >= 0):
        raise AnswerError(f"{name} is not a duration")
    return float(value)


def _samples(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or not value:
        raise AnswerError("measured, and no samples")
    if not all(_is_number(s) and math.isfinite(s) and s > 0 for s in value):
        raise AnswerError("a sample is not a positive number")
    return tuple(float(s) for s in value)


def _is_number(value: Any) -> TypeGuard[float]:
    # A JSON integer may be too large for a float.
    return not isinstance(value, bool) and isinstance(value, (int, float)) and abs(value) < 1e300
