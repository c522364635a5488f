"""Records without what summaries and tables do not show, so that a log of 100,000 trials fits into memory.

    contents = read_files(files, keep=Slimmer())

A trace takes most of a record, and thousands share one: its digest takes its place, which is enough to tell schedules
apart. Features are left out, and what many records have in common (workload, device, versions) is kept once.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from typing import Any

from autosched.records.record import Record

__all__ = ["Slimmer"]


class Slimmer:
    """Makes records slim; one for all that are read together, because they share parts."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, r: Record) -> Record:
        text = json.dumps(r.trace, sort_keys=True)
        digest = self._known.setdefault(text, hashlib.sha256(text.encode()).hexdigest()[:24]) if r.trace else ""
        return replace(
            r,
            workload=self._shared(r.workload),
            device=self._shared(r.device),
            versions=self._shared(r.versions),
            trace=self._shared([digest] if digest else []),
            extra=self._shared({name: value for name, value in r.extra.items() if name not in ("features", "code")}),
            knobs={sys.intern(name): value for name, value in r.knobs.items()},
            target=sys.intern(r.target),
            sketch=sys.intern(r.sketch),
            status=sys.intern(r.status),
            verified=sys.intern(r.verified),
            strategy=sys.intern(r.strategy),
            run=sys.intern(r.run),
        )

    def _shared(self, value: Any) -> Any:
        """The first of equal values."""
        return self._known.setdefault(json.dumps(value, sort_keys=True), value)
