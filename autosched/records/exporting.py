"""Records for other programs: an Optuna study, Kernel Tuner's T4 results.

study = records.to_study("box_blur")                    # in memory, for optuna.visualization
records.to_study("box_blur", "sqlite:///blur.db")       # then: optuna-dashboard sqlite:///blur.db
"""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.errors import UsageError, expect, is_integer
from autosched.records.best import VERIFIED, latest, trials
from autosched.records.frame import RecordWarning, Source, files_of_sources
from autosched.records.log import read_files
from autosched.records.record import PREDICTED, Record
from autosched.records.tasks import one_task, task_text
from autosched.records.transfer import Task

if TYPE_CHECKING:
    import optuna

#: version of Kernel Tuner's schema that is written
T4_VERSION = "1.0.0"
#: status of a trial -> why a configuration is invalid, in T4's words
T4_INVALIDITY = {
    "ok": "correct",
    "constraints": "constraints",
    "compile": "compile",
    "build_timeout": "compile",
    "timeout": "timeout",
    "runtime": "runtime",
    "crash": "runtime",
    "correctness": "correctness",
}
#: What is no outcome of a configuration: nobody timed it, or its measurement was lost.
_NO_TRIALS = (PREDICTED, "lost")
#: ends of files that are databases of SQLite
DATABASES = (".db", ".sqlite", ".sqlite3")


def to_study(
    source: Source | Iterable[Source] | Iterable[Record] | None = None,
    storage: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    replace: bool = False,
) -> optuna.Study:
    """The trials of one task as an Optuna study: what it minimises is seconds.

    source:  as `load` takes it, or records; all have to be of one workload, target, device and set of sizes
    storage: a file that Optuna keeps the study in, to be opened later or by optuna-dashboard: a URL such as
             `sqlite:///blur.db`, a path that ends in .db, .sqlite or .sqlite3, or any other path for a journal;
             by default the study is in memory
    name:    of the study, by default the task
    replace: whether a study of that name in the storage makes way

    Each knob is a parameter with the values that it may take in any sketch; `sketch` is one where there are several.
    A trial that failed has the state FAIL. User attributes hold the rest: status, error, samples, id, strategy ..
    A trial that was measured twice has its latest time. Raises RecordError where there are records of several tasks or
    none, UsageError where Optuna is not installed or the storage has such a study.

        study = autosched.records.to_study("box_blur.llvm.jsonl")
        optuna.visualization.plot_param_importances(study)
    """
    asked = "records.to_study"
    optuna = _import_optuna(asked)
    given = _records(source)
    task = one_task(given, asked)
    by_id = {r.id: r for r in latest(given)}
    tried = _dated(by_id[r.id] for r in trials(given))
    with _quiet(optuna):
        study = _new_study(optuna, name or study_name(given[0]), storage, replace)
        sketch = _sketch_parameter(tried)
        choices = _choices(tried, sketch)
        study.set_metric_names(["seconds"])
        for key, value in (("workload", task.workload), ("key", task.key), ("sizes", dict(task.sizes)),
                           ("target", task.target), ("device", task.device)):  # fmt: skip
            study.set_user_attr(key, value)
        in_order = sorted(tried, key=lambda r: r.moment)
        study.add_trials([_trial(optuna, r, _parameters(r, sketch), choices) for r in in_order])
    return study


def study_name(r: Record) -> str:
    """The name of the study of the task that a record is of."""
    return f"{task_text(r)} [{Task.of(r).key[:8]}]"


def studies_in(storage: str | os.PathLike[str]) -> list[str]:
    """The names of the studies that a storage has. Raises UsageError as `to_study` does."""
    optuna = _import_optuna("records.studies_in")
    with _quiet(optuna):
        return list(optuna.get_all_study_names(_storage(optuna, storage)))


def to_t4(records: Iterable[Record]) -> dict[str, Any]:
    """The trials of one task as Kernel Tuner's T4 results, schema version 1.0.0; times are milliseconds.

    Predictions, and trials whose measurement was lost, are left out. Raises RecordError where there are records of
    several tasks or none.
    """
    given = list(records)
    task = one_task(given, "records.to_t4")
    tried = _dated(r for r in latest(given) if r.status not in _NO_TRIALS)
    sketch = _sketch_parameter(tried)
    about = {"workload": task.workload, "key": task.key, "sizes": dict(task.sizes)}
    return {
        "schema_version": T4_VERSION,
        "metadata": {"timeunit": "milliseconds", **about, "target": task.target, "device": task.device},
        "results": [_t4_result(r, sketch) for r in tried],
    }


def _t4_result(r: Record, sketch: str) -> dict[str, Any]:
    ms = [1e3 * s for s in r.samples]
    build = 1e3 * r.build_s
    # the schema has `compilation_time`, Kernel Tuner's own files `compilation`
    times = {"compilation_time": build, "compilation": build, "benchmark": sum(ms), "runtimes": ms}
    measured = [{"name": "time", "value": 1e3 * r.seconds, "unit": "ms"}] if r.ok else []
    return {
        "timestamp": r.at,
        "configuration": _parameters(r, sketch),
        "objectives": ["time"],
        "times": times,
        "invalidity": T4_INVALIDITY.get(r.status, "runtime"),
        "correctness": int(r.ok and r.verified in VERIFIED),
        "measurements": measured,
    }


def _records(source: Any) -> list[Record]:
    """The records of what `load` takes, or of a list of them."""
    if source is not None and not isinstance(source, (str, os.PathLike)):
        expect(source, "a path, the name of a workload, a list of them, or records", isinstance(source, Iterable),
               "records.to_study")  # fmt: skip
        source = list(source)
        if source and all(isinstance(r, Record) for r in source):
            return source
    return list(read_files(files_of_sources(source)).records)


def _dated(records: Iterable[Record]) -> list[Record]:
    """The records without those that begin or end outside of the calendar, for each of which there is a warning."""
    found = []
    for r in records:
        try:
            _begin_and_end(r)
            found.append(r)
        except (OverflowError, ValueError):
            why = "it begins or ends outside of the calendar"
            warnings.warn(f"record {r.id:.40} is passed over: {why}", RecordWarning, stacklevel=3)
    return found


def _begin_and_end(r: Record) -> tuple[datetime, datetime]:
    """Local times, as Optuna has them."""
    end = datetime.fromisoformat(r.at).astimezone().replace(tzinfo=None)
    return end - timedelta(seconds=r.build_s + sum(r.samples)), end


def _sketch_parameter(records: Sequence[Record]) -> str:
    """The name of the parameter that says which sketch a trial is of; empty where there is only one."""
    if len({r.sketch for r in records}) < 2:
        return ""
    return "sketch" if not any("sketch" in r.knobs for r in records) else "name of the sketch"


def _parameters(r: Record, sketch: str) -> dict[str, Any]:
    return {**r.knobs, **({sketch: r.sketch} if sketch else {})}


def _choices(records: Sequence[Record], sketch: str) -> dict[str, list[Any]]:
    """The values of each parameter: those that some sketch declares for a knob, and those that were tried."""
    values: dict[str, set[Any]] = defaultdict(set)
    for r in records:
        for name, value in _parameters(r, sketch).items():
            values[name].add(value)
        for instruction in r.trace:
            match instruction:
                case ["define_knob", str(knob), [*declared]] if knob in r.knobs:
                    values[knob].update(filter(is_integer, declared))
    return {name: sorted(of) for name, of in values.items()}


def _trial(optuna: Any, r: Record, params: dict[str, Any], choices: Mapping[str, Sequence[Any]]) -> Any:
    states, kinds = optuna.trial.TrialState, optuna.distributions
    begin, end = _begin_and_end(r)
    rest = {
        "status": r.status, "error": r.error, "samples": list(r.samples), "verified": r.verified, "build_s": r.build_s,
        "strategy": r.strategy, "seed": r.seed, "run": r.run, "trial": r.trial, "id": r.id, "sketch": r.sketch,
    }  # fmt: skip
    return optuna.trial.FrozenTrial(
        number=-1,  # the study's to say
        trial_id=-1,
        state=states.COMPLETE if r.ok else states.FAIL,
        value=r.seconds if r.ok else None,
        datetime_start=begin,
        datetime_complete=end,
        params=params,
        distributions={name: kinds.CategoricalDistribution(choices[name]) for name in params},
        user_attrs=rest,
        system_attrs={},
        intermediate_values={},
    )


def _new_study(optuna: Any, name: str, storage: str | os.PathLike[str] | None, replace: bool) -> Any:
    kept = _storage(optuna, storage)
    if kept is not None and name in optuna.get_all_study_names(kept):
        if not replace:
            raise UsageError(
                "it has a study of this name", asked=f"{storage}: {name}", legal="replace it, or choose another file"
            )
        optuna.delete_study(study_name=name, storage=kept)
    return optuna.create_study(study_name=name, storage=kept, direction="minimize")


def _storage(optuna: Any, storage: str | os.PathLike[str] | None) -> Any:
    """What Optuna takes for a URL or a path."""
    if storage is None:
        return None
    text = os.fspath(storage)
    asked = f"storage {text}"
    try:
        if "://" in text:
            return optuna.storages.RDBStorage(text)
        path = Path(text).expanduser()
        if not path.parent.is_dir():
            raise UsageError("there is no such folder", asked=asked, legal="a file in a folder that is there")
        if path.suffix in DATABASES:
            return optuna.storages.RDBStorage(f"sqlite:///{path.absolute()}")
        return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    except UsageError:
        raise
    except Exception as error:  # of any of the packages below
        why = " ".join(str(error).split("\n")[0].split()) or type(error).__name__
        legal = "sqlite:///FILE.db, FILE.db, or any other file for a journal"
        raise UsageError(f"Optuna cannot use it: {why}", asked=asked, legal=legal) from None


def _import_optuna(asked: str) -> Any:
    try:
        import optuna
        import optuna.storages.journal
    except ImportError as error:
        raise UsageError(
            f"it needs Optuna, which cannot be imported: {error}", asked=asked, legal="pip install optuna"
        ) from None
    return optuna


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keep Optuna's log and its notes on experimental functions off the user's screen, within our calls only."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(level)
