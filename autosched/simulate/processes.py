"""Runs in several processes: `run_all`. Each process loads a space once and keeps it."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from autosched import errors
from autosched.errors import AutoschedError, MeasureError
from autosched.measure.environment import worker_environment
from autosched.measure.frames import read_frame, write_frame
from autosched.measure.process import REPLY, WorkerProcess, wait
from autosched.simulate.recorded import RecordedSpace, load
from autosched.simulate.replay import Contender, Run, replay_run
from autosched.target import Target

__all__ = ["run_all"]

#: Seconds that one run may take: a strategy that hangs must not hang the simulation.
LIMIT_S = 600.0

Task = dict[str, Any]


def run_all(
    files: Mapping[str, Path],
    spaces: Sequence[str],
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    trials: int,
    batch: int,
    processes: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Run]:
    """Every contender on every space with every seed; the same runs in the same order for any number of
    processes.

    `files` says where each space is, those that prime models included. Raises what `replay_run` raises,
    and MeasureError when a process dies or a run takes more than ten minutes.
    """
    tasks = [
        {
            "space": str(files[space]),
            "contender": asdict(contender),
            "primes": [str(files[name]) for name in contender.prime],
            "seed": seed,
            "trials": trials,
            "batch": batch,
        }
        for space in spaces
        for contender in contenders
        for seed in seeds
    ]
    found: dict[int, Run] = {}
    for number, run in _answers(tasks, min(processes, len(tasks))):
        found[number] = run
        progress(len(found), len(tasks))
    return [found[number] for number in range(len(tasks))]


def _answers(tasks: Sequence[Task], processes: int) -> Iterator[tuple[int, Run]]:
    if processes <= 1:
        yield from ((number, _run(task)) for number, task in enumerate(tasks))
        return
    command = [sys.executable, "-P", "-m", "autosched.simulate.processes"]
    env = worker_environment(Path.cwd(), Target("llvm"), "builder", os.environ)
    env["TMPDIR"] = os.environ.get("TMPDIR", "/tmp")
    workers = [WorkerProcess(f"simulate {i}", command, env, Path.cwd()) for i in range(processes)]
    left, doing = list(enumerate(tasks))[::-1], dict[str, tuple[int, Task]]()
    try:
        while left or doing:
            for worker in workers:
                if left and not worker.busy:
                    doing[worker.name] = left.pop()
                    _ask(worker, doing[worker.name][1])
            for worker, outcome in wait(workers, 1.0):
                number, task = doing.pop(worker.name)
                if outcome.kind != REPLY:
                    why = f"its process ended: {outcome.error or outcome.kind}\n{outcome.log[-1000:]}".strip()
                    raise MeasureError(why, asked=f"simulate {task['contender']['strategy']}")
                yield number, _decoded(outcome.reply)
    finally:
        for worker in workers:
            worker.kill()


def _ask(worker: WorkerProcess, task: Task) -> None:
    if not worker.running:
        worker.start()
    while not worker.send(task, [("run", LIMIT_S)]):
        worker.start()


def _run(task: Task) -> Run:
    contender = Contender(**{**task["contender"], "prime": tuple(task["contender"]["prime"])})
    primes = [_loaded(path) for path in task["primes"]]
    return replay_run(_loaded(task["space"]), contender, task["seed"], task["trials"], task["batch"], primes)


@cache
def _loaded(path: str) -> RecordedSpace:
    return load(path)


# -- the other end --------------------------------------------------------------------------------------
def _answer(task: Task) -> dict[str, Any]:
    try:
        run = _run(task)
    except AutoschedError as error:
        return {"error": type(error).__name__, "why": error.why, "asked": error.asked, "legal": error.legal}
    return {**asdict(run), "seconds": [s if math.isfinite(s) else None for s in run.seconds]}


def _decoded(reply: dict[str, Any]) -> Run:
    if "error" in reply:
        raise getattr(errors, reply["error"])(reply["why"], asked=reply["asked"], legal=reply["legal"])
    return Run(**{**reply, "seconds": tuple(math.inf if s is None else s for s in reply["seconds"])})


def main() -> None:
    """Answer questions until the pipe is closed."""
    parser = argparse.ArgumentParser()
    for name in ("--read-fd", "--write-fd", "--parent"):
        parser.add_argument(name, type=int, required=True)
    args = parser.parse_args()
    while (message := read_frame(args.read_fd)) is not None:
        write_frame(args.write_fd, {"seq": message["seq"], **_answer(message)})


if __name__ == "__main__":
    main()
