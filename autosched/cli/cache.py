"""`autosched cache`: what is kept in the user's cache folder, and what of it goes."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from autosched import build_cache
from autosched.cli import options
from autosched.errors import UsageError, did_you_mean
from autosched.report.text import duration, plural, table

#: kind -> what it is
_ABOUT = {
    "builds": "compiled modules of `autosched.jit`",
    "predictions": "schedules that a model chose",
    "machine": "what was measured of this machine",
}


#: seconds after which `prune` takes what was not used
OLDER_S = 30 * 86_400.0


def run(args: argparse.Namespace) -> int:
    if args.older is not None and args.action != "prune":  # `clear` would remove all, however new
        raise UsageError(
            "that is for what is pruned", asked=f"cache {args.action} --older", legal="cache prune --older"
        )
    kept = build_cache.kinds()
    if unknown := [k for k in args.only if k not in {**_ABOUT, **kept}]:
        legal = did_you_mean(unknown[0], [*kept]) or f"there are: {', '.join(kept) or 'none'}"
        raise UsageError(f"nothing of kind {unknown[0]!r} is kept", asked=f"cache {args.action}", legal=legal)
    chosen = {k: files for k, files in kept.items() if not args.only or k in args.only}
    report: dict[str, Any] = {"folder": str(build_cache.folder() or "no home folder")}
    if args.action != "list":
        going = [f for files in chosen.values() for f in files]
        if args.action == "prune":
            going = [f for f in going if _age(f) > (args.older or OLDER_S)]
        report["removed"], report["freed_bytes"] = len(going), build_cache.remove(going)
        chosen = {k: [f for f in files if f.exists()] for k, files in chosen.items()}
    report["kept"] = {
        kind: {"files": len(files), "bytes": sum(map(_size, files)), "last_used_s": min(map(_age, files), default=None)}
        for kind, files in chosen.items()
    }
    if args.json:
        options.emit(report)
    else:
        print("\n".join(_lines(report)))
    return 0


def _age(file: Path) -> float:
    """Seconds since it was last used; 0 for a file that is gone."""
    try:
        return max(0.0, time.time() - file.stat().st_mtime)
    except OSError:
        return 0.0


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _lines(report: dict[str, Any]) -> list[str]:
    rows = [
        [kind, str(x["files"]), f"{x['bytes']:,}", duration(x["last_used_s"]) + " ago" if x["files"] else "",
         _ABOUT.get(kind, "")]
        for kind, x in report["kept"].items()
    ]  # fmt: skip
    lines = table(rows, ["kind", "files", "bytes", "last used", "what it is"], (1, 2)) if rows else ["nothing is kept"]
    if "removed" in report:
        lines.insert(0, f"removed {plural(report['removed'], 'file')}, {report['freed_bytes']:,} bytes")
    return [*lines, f"in {report['folder']}"]
