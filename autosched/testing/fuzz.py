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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from autosched.measure.frames import serve
from autosched.measure.process import REPLY, WorkerProcess, wait
from autosched.testing.case import BACKENDS, Case
from autosched.testing.sanitized import IN_C, environment
from autosched.testing.shrink import shrink

#: Seconds of one case, at most, and of one whose code is compiled with sanitizers: compilers take longer for these.
LIMIT, LIMIT_SANITIZED = 60.0, 300.0


@dataclass(frozen=True)
class Verdict:
    """The end of a case. `kind` is empty where it passed, else the error's type, DIED or TIMEOUT."""

    kind: str = ""
    text: str = ""
    fingerprint: str = ""
    backend: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of cases.

    module: `python -m` it runs a campaign
    draw:   makes the case of a seed on a backend, by rules where they are asked for
    read:   makes a case of its `to_json`
    shrink: makes a case smaller that fails as it does
    """

    module: str
    backends: tuple[str, ...]
    draw: Callable[[int, str, bool], Any]
    read: Callable[[dict[str, Any]], Any]
    shrink: Callable[[Any, Callable[[Any], bool]], Any]
    has_rules: bool = False

    def judge(self, message: dict[str, Any]) -> dict[str, str]:
        """The verdict on a case as data, in the process that runs it."""
        fingerprint = ""
        try:
            given = message.get("case")
            case = self.read(given) if given else self.draw(message["seed"], message["backend"], message["generated"])
            fingerprint = case.fingerprint
            case.check()
        except Exception as error:
            return {"kind": kind_of(error), "text": str(error)[:4000], "fingerprint": fingerprint}
        return {"fingerprint": fingerprint}


SCHEDULES = Kind(
    "autosched.testing.fuzz",
    tuple(BACKENDS),
    lambda seed, backend, generated: (Case.generated if generated else Case.draw)(seed, backend),
    Case.from_json,
    shrink,
    has_rules=True,
)


class Worker:
    """A process of a module's `--serve`, which runs cases, with variables of its own if these are given."""

    def __init__(
        self, module: str = SCHEDULES.module, limit: float | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", module, "--serve"]
        self._process = WorkerProcess("fuzz", command, os.environ if env is None else env, Path.cwd())
        if limit is None:
            limit = LIMIT if env is None else LIMIT_SANITIZED
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
    kind: Kind,
    seeds: Iterable[int],
    backends: Sequence[str],
    budget: float | None = None,
    generated: bool = False,
    env: Mapping[str, str] | None = None,
) -> Iterator[tuple[AnyCase | None, Verdict]]:
    """Run every seed on every backend; yields the case, made smaller, for a failure, and else None.

    With `generated`, sketch rules make the schedules. `env` has the variables of the process that runs cases.
    """
    worker, end = Worker(kind.module, env=env), time.monotonic() + (budget or float("inf"))
    try:
        for seed in seeds:
            for backend in backends:
                if time.monotonic() > end:
                    return
                question = {"seed": seed, "backend": backend, "generated": generated}
                verdict = replace(worker.run(question), backend=backend)
                yield (_shrunk(kind, worker, question, verdict) if verdict.kind else None), verdict
    finally:
        worker.close()


def _shrunk(kind: Kind, worker: Worker, question: dict[str, Any], verdict: Verdict) -> AnyCase | None:
    try:
        case: AnyCase = kind.draw(*question.values())
    except Exception:  # then drawing is what failed, and there is nothing to make smaller
        return None
    return kind.shrink(case, lambda c: worker.run({"case": c.to_json()}).kind == verdict.kind)  # type: ignore[no-any-return]


def kind_of(error: Exception) -> str:
    """The error's type, and the text of ours without names and numbers: a smaller case must share both."""
    words = getattr(error, "why", "").split()
    said = " ".join(w for w in words if w.isalpha() and w.islower())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


# -- the command ------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None, kind: Kind = SCHEDULES, about: str | None = __doc__) -> int:
    """Run a campaign, or one case; returns the exit status."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"python -m {kind.module}", description=about, formatter_class=plain)
    parser.add_argument("--seeds", default="0:100", help="first:end; `first:` goes on until --budget or Ctrl-C")
    parser.add_argument("--backend", action="append", choices=kind.backends, help="all of them without one")
    if kind.has_rules:
        parser.add_argument("--generated", action="store_true", help="schedules that sketch rules make")
    parser.add_argument("--sanitize", action="store_true", help="C alone, which ends where C defines nothing")
    parser.add_argument("--budget", type=float, help="seconds")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for failing cases")
    parser.add_argument("--case", type=Path, help="run the case of a file")
    args = parser.parse_args(argv)
    env, usable = None, kind.backends
    if args.sanitize:
        env, usable = environment(), tuple(b for b in kind.backends if b in IN_C)
        if wrong := [b for b in args.backend or () if b not in usable]:
            parser.error(f"--sanitize is for C: {', '.join(usable)}, not {', '.join(wrong)}")
    if args.case:
        case = kind.read(json.loads(args.case.read_text("utf-8")))
        print(case)
        return _again(case, kind, env)
    by_rules = kind.has_rules and args.generated
    verdicts = campaign(kind, seeds_of(args.seeds), args.backend or usable, args.budget, by_rules, env)
    return report(verdicts, args.failures, kind.module)


def _again(case: Any, kind: Kind, env: Mapping[str, str] | None) -> int:
    """Run a case here, where an error has a traceback, or in a process with variables of its own."""
    if env is None:
        case.check()
        return 0
    worker = Worker(kind.module, env=env)
    try:
        verdict = worker.run({"case": case.to_json()})
    finally:
        worker.close()
    print(verdict.kind or "passed", verdict.text)
    return int(bool(verdict.kind))


def run(kind: Kind, about: str | None) -> NoReturn:
    """Be the program of a kind's module: with `--serve` one that judges cases, else the command."""
    if sys.argv[1:2] == ["--serve"]:
        os.environ.pop("LD_PRELOAD", None)  # what was meant for this process, not for compilers that it runs
        serve(kind.judge)
        os._exit(0)
    sys.exit(main(None, kind, about))


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
    run(SCHEDULES, __doc__)
