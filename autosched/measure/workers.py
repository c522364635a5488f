"""The workers of a measuring session: the folder they share, how they are started, and workers that start early.

The folder has inputs, build results, driver caches and temporary files. It is removed when the session closes. A
session that was killed leaves it behind, and the next session of the same user removes it. A folder is alive as long
as somebody holds the lock on its `lock` file, which the system releases however the holder ends (process ids would be
reused, and mean nothing to another container that shares the temporary folder).
"""

from __future__ import annotations

import json
import os
import shutil
import site
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, MeasureError
from autosched.measure.pool import WorkerPool
from autosched.measure.process import REPLY, WorkerProcess, wait
from autosched.measure.protocol import MeasureOptions
from autosched.places import open_flags, try_lock
from autosched.target import Target

_PREFIX = "autosched-measure-"
_MIN_AGE_S = 60.0  # a younger folder may be one that is just being made


class SessionFolder:
    """A private folder, created at once and removed by `close`."""

    def __init__(self, parent: Path | None = None) -> None:
        if os.name != "posix":
            raise MeasureError(
                f"candidates run in process groups of POSIX, which {sys.platform} does not have",
                asked="measure candidates",
                legal="Linux or macOS; what was tuned there is built here with records=FOLDER",
            )
        base = Path(tempfile.gettempdir()) if parent is None else parent
        remove_stale(base)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        self._owner = os.getpid()
        self._lock = os.open(self.path / "lock", open_flags("RDWR", "CREAT", "CLOEXEC"), 0o600)
        try_lock(self._lock)
        for name in ("artifacts", "known", "tmp", "cache"):
            (self.path / name).mkdir()
        self._artifacts = 0

    @property
    def is_ours(self) -> bool:
        """False in a forked copy of the process that made it."""
        return os.getpid() == self._owner

    def close(self) -> None:
        """Remove the folder. Safe to call twice; does nothing in a forked copy of this process."""
        if self._lock < 0 or not self.is_ours:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

    def new_artifact(self) -> Path:
        """A path that no artifact of this session had before."""
        self._artifacts += 1
        return self.path / "artifacts" / f"{self._artifacts}.artifact"

    @property
    def known(self) -> Path:
        """The folder of what was measured: an empty file for each piece of code, named by its digest."""
        return self.path / "known"

    def save_json(self, name: str, value: Any) -> str:
        path = self.path / name
        with self._written():
            path.write_text(json.dumps(value), encoding="utf-8")
        return str(path)

    def save_arrays(self, name: str, arrays: Sequence[np.ndarray[Any, Any] | None]) -> list[str]:
        """Write `name-0.npy`, `name-1.npy`, ...; return their paths, empty where there is no array."""
        paths = []
        for i, array in enumerate(arrays):
            if array is None:
                paths.append("")
                continue
            path = self.path / f"{name}-{i}.npy"
            with self._written(array.nbytes):
                np.save(path, np.asarray(array, order="C"), allow_pickle=False)
            paths.append(str(path))
        return paths

    @contextmanager
    def _written(self, size: int = 0) -> Iterator[None]:
        """Raise MeasureError where this finds no room in the temporary folder, which may be small."""
        try:
            yield
        except OSError as error:
            left = shutil.disk_usage(self.path).free
            why = error.strerror or f"{size:,} bytes are needed, {left:,} are left"  # NumPy tells no reason
            legal = "free some space there, or name another folder: TMPDIR=FOLDER"
            raise MeasureError(
                f"{self.path.parent}: {why}", asked="write to the temporary folder", legal=legal
            ) from None


def remove_stale(base: Path) -> list[Path]:
    """Remove this user's session folders in `base` that nobody holds; return them."""
    removed = []
    for path in base.glob(f"{_PREFIX}*"):
        try:
            status = path.lstat()
            if path.is_symlink() or status.st_uid != os.getuid() or time.time() - status.st_mtime < _MIN_AGE_S:
                continue
            if _is_held(path / "lock"):
                continue
        except OSError:  # another session was quicker
            continue
        shutil.rmtree(path, ignore_errors=True)
        removed.append(path)
    return removed


def _is_held(lock: Path) -> bool:
    try:
        fd = os.open(lock, open_flags("RDWR", "CLOEXEC", "NOFOLLOW"))
    except FileNotFoundError:
        return False
    try:
        return not try_lock(fd)
    finally:
        os.close(fd)


# -- how a worker is started ----------------------------------------------------------------------
#: The share of the available memory that a candidate may take.
MEMORY_SHARE = 0.75
#: A worker needs this much address space for its libraries alone, with room to spare.
_LEAST_MEMORY = 4 << 30


def worker_command(memory_limit_bytes: int, backend: str = "", load: Sequence[str] = ()) -> list[str]:
    """The command line of a worker, without the ends of its pipes, which `WorkerProcess` appends.

    The process imports the modules `load` before its first question, unless `backend` stands in for the compiler.
    """
    # -P: a file in the working folder must not take the place of a module.
    command = [sys.executable, "-P", "-m", "autosched.measure.worker"]
    if memory_limit_bytes:
        command += ["--memory-limit", str(memory_limit_bytes)]
    if backend:
        command += ["--backend", backend]
    elif load:
        command += ["--load", ",".join(load)]
    return command


def worker_modules(target: Target, role: str) -> list[str]:
    """The modules that every job of a role needs; importing them takes longer than most jobs."""
    is_llvm = target.kind == "llvm"
    if role == "builder":
        code = ["autosched.codegen.llvm"] if is_llvm else ["autosched.codegen"]
        return ["autosched.lowering", *code]
    return ["autosched.runtime.cpu"] if is_llvm else []


def worker_environment(folder: Path, target: Target, role: str, base: Mapping[str, str]) -> dict[str, str]:
    """`base`, the parent's environment, with what a worker needs on top.

    folder: the session's; it holds caches and temporary files
    role:   `"builder"` or `"runner"`
    """
    env = dict(base)
    if path := _python_path(base.get("PYTHONPATH", "")):
        env["PYTHONPATH"] = path
    env |= {
        "PYTHONHASHSEED": "0",  # the same job gives the same code in every builder
        "POCL_SIGFPE_HANDLER": "0",  # or integer division by zero in our own code is skipped silently
        "POCL_CACHE_DIR": str(folder / "cache"),
        "PYOPENCL_NO_CACHE": "1",
        "CUDA_CACHE_PATH": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": str(target.num_threads) if role == "runner" else "1",
        "OMP_DYNAMIC": "false",
        "AUTOSCHED_PROGRESS": "none",
        # Where another program has a core, an OpenMP team waits at each barrier for the thread that belongs there, a
        # slice of the scheduler's. Here nobody waits for it, so that times say how fast the code is.
        "AUTOSCHED_THREADS": base.get("AUTOSCHED_THREADS") or "team",
    }
    # Two settings are left out on purpose. With OMP_WAIT_POLICY=active, the runner's idle threads
    # would spin for minutes: beside builders, and beside the serial candidate that follows a parallel
    # one. OMP_PROC_BIND confines the main thread too, and with it whatever asks how many CPUs there are.
    return env


def ask_all(
    questions: Sequence[dict[str, Any]],
    module: str,
    processes: int,
    limit_s: float,
    asked: Callable[[dict[str, Any]], str],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of the question, answer) as answers come, from processes that run `python -m MODULE` and answer frames
    (`frames.answer_frames`). Raises MeasureError where one ends, or takes longer than the limit; `asked` says what a
    question was about."""
    env = dict(os.environ)
    if path := _python_path(env.get("PYTHONPATH", "")):
        env["PYTHONPATH"] = path
    command = [sys.executable, "-P", "-m", module]
    workers = [WorkerProcess(f"worker {i}", command, env, Path.cwd()) for i in range(processes)]
    left, doing = list(enumerate(questions))[::-1], dict[str, int]()
    try:
        while left or doing:
            for worker in workers:
                if left and not worker.busy:
                    number, question = left.pop()
                    doing[worker.name] = number
                    while not worker.running or not worker.send(question, [("run", limit_s)]):
                        worker.start()
            for worker, outcome in wait(workers, 1.0):
                number = doing.pop(worker.name)
                if outcome.kind != REPLY:
                    why = f"its process ended: {outcome.error or outcome.kind}\n{outcome.log[-1000:]}".strip()
                    raise MeasureError(why, asked=asked(questions[number]))
                yield number, outcome.reply
    finally:
        for worker in workers:
            worker.kill()


def _python_path(given: str) -> str:
    """PYTHONPATH with which a child in another working folder can import this package."""
    entries = [os.path.abspath(entry) for entry in given.split(os.pathsep) if entry]
    root = str(Path(__file__).resolve().parents[2])
    installed = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    # An installed package is found anyway, and site-packages must not come before the standard library.
    if root not in entries and root not in map(os.path.realpath, installed):
        entries.append(root)
    return os.pathsep.join(entries)


def memory_limit(target: Target, limit_mb: int) -> int:
    """Bytes of address space for a worker; 0 is no limit.

    `limit_mb` is `MeasureOptions.memory_limit_mb`: 0 chooses a share of the memory that is available now, so that a
    candidate that takes all it can get ends itself and nothing else.
    """
    if limit_mb:
        return min(limit_mb << 20, sys.maxsize)
    if target.kind == "opencl":
        return 0
    return max(_LEAST_MEMORY, int(MEMORY_SHARE * available_memory()))


def available_memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that programs may still take: what the system calls available, within the limit of the container.

    The whole memory where the system does not report it.
    """
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        found = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        left = int((cgroup / "memory.max").read_text()) - int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):  # none, "max", or the older kind of groups
        return found
    return max(0, min(found, left))


# -- the workers of a session ---------------------------------------------------------------------
@dataclass
class Workers:
    """The folder and the processes of a measuring session. Both may exist before it is known what to measure."""

    session: SessionFolder
    pool: WorkerPool
    configuration: dict[str, Any]  #: the first message to each process

    @staticmethod
    def make(target: Target, options: MeasureOptions, backend: str = "") -> Workers:
        """Starts no process. Raises OSError when the session's folder cannot be written."""
        session = SessionFolder()
        limit = memory_limit(target, options.memory_limit_mb)
        configuration: dict[str, Any] = {}

        def worker(role: str) -> WorkerProcess:
            env = worker_environment(session.path, target, role, os.environ)
            return WorkerProcess(role, worker_command(limit, backend, worker_modules(target, role)), env, session.path)

        pool = WorkerPool(worker, lambda role: {**configuration, "role": role}, limit)
        return Workers(session, pool, configuration)

    def spawn(self, builders: int) -> None:
        """Begin to start the runner and `builders` builders. Returns at once."""
        self.pool.spawn("builder", builders)
        self.pool.spawn("runner", 1)

    def close(self) -> None:
        """End the processes and remove the folder. Does nothing in a forked copy of this process."""
        if not self.session.is_ours:
            return
        try:
            self.pool.close()
        finally:
            self.session.close()


#: Builders that are started for the first candidates; others follow when there is more to build.
BUILDERS = 4

waiting: list[tuple[str, int, Workers]] = []


@contextmanager
def early_workers(target: str, options: MeasureOptions) -> Iterator[None]:
    """Start workers before the program has loaded what it needs itself: they load the compiler meanwhile.

        with early_workers("llvm", MeasureOptions()):
            from autosched.tuning import tune    # takes as long as they need to start
            tune(...)                            # takes them, by `take_workers`

    They are for the first search on this target; those that nobody took are ended.
    """
    found: Workers | None = None
    with suppress(AutoschedError, OSError):  # whoever needs them says what is wrong
        parsed = Target.parse(target)
        if parsed.kind == "llvm":  # of other kinds the device is asked for its limits first
            found = Workers.make(parsed, options)
            found.spawn(min(options.builders, BUILDERS))
            waiting.append((str(parsed), options.memory_limit_mb, found))
    try:
        yield
    finally:
        waiting.clear()
        if found is not None:
            found.close()


def take_workers(target: Target, options: MeasureOptions, backend: str = "") -> Workers:
    """The workers that wait, where they are what a search needs, or new ones, which begin to start now."""
    for name, limit, found in waiting:
        if (name, limit, "") == (str(target), options.memory_limit_mb, backend):
            waiting.clear()
            return found
    made = Workers.make(target, options, backend)
    made.spawn(min(options.builders, BUILDERS))
    return made
