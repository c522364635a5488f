"""Telling this machine's own records from others: by a seal that only its key makes.

Whoever builds with a record has to know whether its output was really compared with the reference, and the
field `verified` says what whoever wrote the line wanted it to say. So a run seals what it has verified:

    "origin": HMAC-SHA256(key, [workload key, target, device, trace, knobs, verified]), 32 hexadecimal digits

The key is 32 random bytes in the user's data folder, made when the first record is sealed, and readable by the
user alone. A record that was edited or comes from elsewhere has no seal that fits, and is checked before it is used
(`autosched.trust`). Times are not part of the seal: a wrong one makes code slower, never wrong.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from autosched.places import data_folder, write_whole
from autosched.records.best import VERIFIED
from autosched.records.record import Record

_BYTES = 32


def sealed(record: Record) -> Record:
    """The record with this machine's seal, if it was verified; as it is where there is no place for a key."""
    if record.verified not in VERIFIED:
        return record
    key = _key(make=True)
    return record if key is None else replace(record, extra={**record.extra, "origin": _seal(key, record)})


def is_own(record: Record) -> bool:
    """Whether this user's own run on this machine made the record, and verified its output."""
    seal = record.extra.get("origin")
    if not isinstance(seal, str) or not seal.isascii() or record.verified not in VERIFIED:
        return False
    key = _key()
    return key is not None and hmac.compare_digest(seal, _seal(key, record))


def _seal(key: bytes, r: Record) -> str:
    what = [r.key, r.target, r.device_name, r.trace, sorted(r.knobs.items()), r.verified]
    text = json.dumps(what, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]


def _key(make: bool = False) -> bytes | None:
    """The key, made where there is none if `make`; None where there is none, or its file is damaged."""
    try:
        file = data_folder() / "origin.key"
        with suppress(FileNotFoundError):
            return _read(str(file), file.stat().st_mtime_ns)
        if not make:
            return None
        write_whole(file, lambda out: out.write(secrets.token_bytes(_BYTES)), replace=False, mode=0o600)
        return _read(str(file), file.stat().st_mtime_ns)
    except (OSError, RuntimeError):  # a folder that cannot be written, or no home
        return None


@lru_cache(maxsize=4)
def _read(file: str, changed: int) -> bytes | None:
    found = Path(file).read_bytes()
    return found if len(found) == _BYTES else None
