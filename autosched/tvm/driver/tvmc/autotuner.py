"""`tvmc.tune`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from autosched.errors import UsageError
from autosched.measure import MeasureOptions
from autosched.records.log import RecordLog, read_files
from autosched.search import DEFAULT
from autosched.tvm.driver.tvmc.compiler import add_records
from autosched.tvm.driver.tvmc.model import TVMCModel
from autosched.tvm.relay.frontend import with_params

#: TVM's tuners -> strategies
_TUNERS = {"random": "random", "gridsearch": "grid", "ga": "genetic"}
#: trials for each kernel, where neither trials nor a budget is given
_TRIALS = 100


def tune(
    tvmc_model: TVMCModel,
    target: Any,
    tuning_records: str | None = None,
    prior_records: str | None = None,
    enable_autoscheduler: bool = False,
    rpc_key: str | None = None,
    hostname: str | None = None,
    port: int | str | None = 9090,
    trials: int | None = None,
    target_host: Any = None,
    tuner: str = "xgb",
    min_repeat_ms: int | None = None,
    early_stopping: int | None = None,
    timeout: float | None = None,
    repeat: int | None = None,
    number: int | None = None,
    parallel: int | None = None,
    hardware_params: Any = None,
    include_simple_tasks: bool = False,
    log_estimated_latency: bool = False,
    additional_target_options: Any = None,
    *,
    budget_s: float | None = None,
) -> str:
    """Tune the kernels of a model under one limit; where the records are, for `compile`.

    tuning_records: a file that they are added to, or a folder; by default the usual folder, which every build reads
    prior_records:  a file or folder that the search begins with
    trials:         of all kernels together; 100 for each by default (TVM's default are 10000)
    tuner:          "xgb" and its variants are the default strategy; "ga", "random", "gridsearch"
    early_stopping: a kernel is over after so many trials without a faster one
    timeout:        seconds that a candidate may run;  budget_s: seconds of the whole search

    Every kernel is searched in generated sketches and templates alike, so `enable_autoscheduler`, `hardware_params`
    and `include_simple_tasks` change nothing, nor do `number`, `repeat` and `parallel`: the harness measures until the
    result is certain. Raises UsageError, ModelError, VerificationError.
    """
    if rpc_key is not None or hostname is not None:
        raise UsageError(
            "kernels are measured on this machine", asked="tvmc.tune(rpc_key=.., hostname=..)", legal="None"
        )
    if tuner not in _TUNERS and not tuner.startswith("xgb"):
        raise UsageError(f"there is no tuner {tuner!r}", asked="tvmc.tune", legal=f"xgb, {', '.join(_TUNERS)}")
    model = with_params(tvmc_model.mod.model, tvmc_model.params) if tvmc_model.params else tvmc_model.mod.model
    options: dict[str, Any] = {"budget_s": budget_s, "trials": trials, "patience": early_stopping}
    if trials is None and budget_s is None:
        options["trials"] = _TRIALS * len(model.compile(target, effort="none").cut.kernels)
    if timeout is not None:
        options["measure"] = MeasureOptions(timeout_s=float(timeout))
    to = tuning_records if tuning_records is not None else tvmc_model.default_tuning_records_path()
    with tempfile.TemporaryDirectory(prefix="autosched-") as scratch:
        folder = to if tuning_records is None or os.path.isdir(to) else scratch
        if prior_records is not None:
            add_records(prior_records, folder)
        model.tune(target, records=folder, strategy=_TUNERS.get(tuner, DEFAULT), **options)
        if folder is scratch:
            for record in read_files(sorted(Path(scratch).glob("*.jsonl"))).records:
                RecordLog(to).append(record)
    return to
