"""A campaign of random cases, each run in a process that may crash or hang without harm.

    python -m autosched.testing.fuzz --seeds 0:1000 --backend llvm --backend interpreter
    python -m autosched.testing.fuzz --case failure.json        # run one case again

A failure is made smaller, printed, and written to `--failures` as a file that `--case` takes. The
exit status is 1 when something failed. Plug-in authors: primitives join in `autosched.testing.steps`,
kinds of operations in `autosched.testing.programs`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from autosched.measure.frames import answer_frames
from autosched.measure.process import REPLY, WorkerProcess, wait
from autosched.testing.case import BACKENDS, Case
from autosched.testing.shrink import shrink

#: Seconds of one case, at most.
LIMIT = 60.0


@dataclass(frozen=True)
class Verdict:
    """The end of a case. `kind` is empty where it passed, else the error's type, DIED or TIMEOUT."""

    kind: str = ""
    text: str = ""
    fingerprint: str = ""
    backend: str = ""


class Worker:
    """A process of a module's `--serve`, which runs cases."""

    def __init__(self, module: str = "autosched.testing.fuzz", limit: float = LIMIT) -> None:
        self._process = WorkerProcess("fuzz", [sys.executable, "-m", module, "--serve"], os.environ, Path.cwd())
        self._limit = limit

    def run(self, question: dict[str, Any]) -> Verdict:
        """`{"case": ...}`, or `{"seed", "backend", "generated"}` for the case of that seed."""
        if not self._process.running:
            self._process.start()
        if not self._process.send(question, [("case", self._limit)]):
            return self.run(question)
        while not (done := wait([self._process], 1.0)):
            pass
        outcome = done[0][1]
        if outcome.kind != REPLY:
            return Verdict(outcome.kind, f"{outcome.error}\n{outcome.log[-2000:]}")
        return Verdict(**outcome.reply)

    def close(self) -> None:
        self._process.kill()


def campaign(
    seeds: Iterable[int], backends: Sequence[str], budget: float | None = None, generated: bool = False
) -> Iterator[tuple[Case | None, Verdict]]:
    """Run every seed on every backend; yields the case, made smaller, for a failure, and else None.

    With `generated`, sketch rules make the schedules.
    """
    worker, end = Worker(), time.monotonic() + (budget or float("inf"))
    try:
        for seed in seeds:
            for backend in backends:
                if time.monotonic() > end:
                    return
                verdict = replace(
                    worker.run({"seed": seed, "backend": backend, "generated": generated}), backend=backend
                )
                yield (_shrunk(worker, seed, backend, verdict, generated) if verdict.kind else None), verdict
    finally:
        worker.close()


def _shrunk(worker: Worker, seed: int, backend: str, verdict: Verdict, generated: bool) -> Case | None:
    try:
        case = _drawn(seed, backend, generated)
    except Exception:  # then drawing is what failed, and there is nothing to make smaller
        return None
    return shrink(case, lambda c: worker.run({"case": c.to_json()}).kind == verdict.kind)


def _drawn(seed: int, backend: str, generated: bool) -> Case:
    return Case.generated(seed, backend) if generated else Case.draw(seed, backend)


# -- the process that runs cases --------------------------------------------------------------------


def _judge(message: dict[str, Any]) -> dict[str, str]:
    fingerprint = ""
    try:
        given = message.get("case")
        case = Case.from_json(given) if given else _drawn(message["seed"], message["backend"], message["generated"])
        fingerprint = case.fingerprint
        case.check()
    except Exception as error:
        return {"kind": kind_of(error), "text": str(error)[:4000], "fingerprint": fingerprint}
    return {"fingerprint": fingerprint}


def kind_of(error: Exception) -> str:
    """The error's type, and the text of ours without names and numbers: a smaller case must share both."""
    words = getattr(error, "why", "").split()
    said = " ".join(w for w in words if w.isalpha() and w.islower())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


# -- the command ------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run a campaign, or one case; returns the exit status."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m autosched.testing.fuzz", description=__doc__, formatter_class=plain)
    parser.add_argument("--seeds", default="0:100", help="first:end; `first:` goes on until --budget or Ctrl-C")
    parser.add_argument("--backend", action="append", choices=tuple(BACKENDS), help="all of them without one")
    parser.add_argument("--generated", action="store_true", help="schedules that sketch rules make")
    parser.add_argument("--budget", type=float, help="seconds")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for failing cases")
    parser.add_argument("--case", type=Path, help="run the case of a file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    for name in ("--read-fd", "--write-fd", "--parent"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.serve:
        answer_frames(args.read_fd, args.write_fd, _judge)
        os._exit(0)
    if args.case:
        case = Case.from_json(json.loads(args.case.read_text("utf-8")))
        print(case)
        case.check()
        return 0
    verdicts = campaign(seeds_of(args.seeds), args.backend or tuple(BACKENDS), args.budget, args.generated)
    return report(verdicts, args.failures, "autosched.testing.fuzz")


def seeds_of(text: str) -> Iterable[int]:
    """`7` is one seed, `0:100` a hundred, `0:` all that follow."""
    first, colon, end = text.partition(":")
    if colon and not end:
        return itertools.count(int(first))
    return range(int(first), int(end or int(first) + 1))


class AnyCase(Protocol):
    """What a campaign reports of a case."""

    @property
    def seed(self) -> int: ...
    @property
    def backend(self) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


def report(verdicts: Iterator[tuple[AnyCase | None, Verdict]], folder: Path, module: str) -> int:
    """Print failures, which `module --case` runs again, and progress now and then; returns the exit status. Ctrl-C
    ends the campaign."""
    seen: set[str] = set()
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    try:
        for case, verdict in verdicts:
            (failed if verdict.kind else passed)[verdict.kind or verdict.backend] += 1
            seen.add(verdict.fingerprint)
            if verdict.kind:
                _show(case, verdict, folder, module)
            if (passed.total() + failed.total()) % 500 == 0:
                print(_summary(passed, failed, seen), flush=True)
    except KeyboardInterrupt:
        pass
    print(_summary(passed, failed, seen))
    for kind, count in failed.most_common():
        print(f"  {count} {kind}")
    return int(bool(failed))


def _summary(passed: Counter[str], failed: Counter[str], seen: set[str]) -> str:
    counts = ", ".join(f"{count} on {backend}" for backend, count in passed.items())
    wrong = f"; {failed.total()} failed" if failed else ""
    return f"{passed.total()} passed ({counts}), {len(seen)} distinct cases{wrong}"


def _show(case: AnyCase | None, verdict: Verdict, folder: Path, module: str) -> None:
    print(f"-- {verdict.kind} on {verdict.backend}: {verdict.text}\n{case or 'while drawing the case'}", flush=True)
    if case is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{case.backend}-{case.seed}.json"
        path.write_text(json.dumps(case.to_json()), "utf-8")
        print(f"python -m {module} --case {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
