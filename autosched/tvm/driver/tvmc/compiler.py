"""`tvmc.compile`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autosched.errors import UsageError
from autosched.records.log import RecordLog, read_files
from autosched.tvm.driver.tvmc.model import TVMCModel, TVMCPackage
from autosched.tvm.relay.build_module import compile_model as compile_with_records
from autosched.tvm.relay.frontend import with_params
from autosched.tvm.transform import PassContext


def compile_model(
    tvmc_model: TVMCModel,
    target: Any,
    opt_level: int = 3,
    executor: Any = "graph",
    runtime: Any = "cpp",
    tuning_records: str | None = None,
    package_path: str | None = None,
    cross: Any = None,
    cross_options: Any = None,
    output_format: str = "so",
    dump_code: str | None = None,
    target_host: Any = None,
    desired_layout: str | None = None,
    disabled_pass: Sequence[str] | str | None = None,
    pass_context_configs: Sequence[str] | None = None,
    additional_target_options: Mapping[str, Any] | None = None,
    mod_name: str | None = "default",
    **more: Any,
) -> TVMCPackage:
    """Compile a model to a file: kernels with their best records, else predicted; default schedules for `opt_level=0`.

    tuning_records: what `tune` returned or wrote: a file, or a folder of records; by default the usual folders
    package_path:   the file, .tar or .so
    dump_code:      "source", "llvm" or "asm": written beside it

    Layouts are chosen here, so `desired_layout` changes nothing; `executor` and `runtime` do not either. Raises
    UsageError for what has no meaning here (`cross`, micro-controllers' formats), and what compiling raises.
    """
    refused = {"cross": cross, "cross_options": cross_options, "pass_context_configs": pass_context_configs} | more
    _refuse({k: v for k, v in refused.items() if v}, "tvmc.compile", "target='llvm -mtriple=..' for another machine")
    if output_format not in ("so", "tar"):
        legal = '"so"; autosched compile model.onnx --target c writes C that needs nothing'
        raise UsageError(f"{output_format!r} is not written", asked="tvmc.compile(output_format=..)", legal=legal)
    path = package_path or tvmc_model.default_package_path()
    model = with_params(tvmc_model.mod.model, tvmc_model.params) if tvmc_model.params else tvmc_model.mod.model
    passes = disabled_pass.split(",") if isinstance(disabled_pass, str) else disabled_pass
    with PassContext(opt_level=opt_level, disabled_pass=passes), records_folder(tuning_records) as folder:
        built = compile_with_records(model, target, mod_name or "default", folder)
    if dump_code:
        for kind in dump_code.split(","):
            Path(f"{path}.{kind}").write_text(built.lib.get_source(kind), encoding="utf-8")
    built.export_library(path)
    return TVMCPackage(path, tvmc_model)


def _refuse(given: Mapping[str, Any], asked: str, legal: str) -> None:
    if given:
        raise UsageError(f"it has no meaning here: {', '.join(given)}", asked=asked, legal=legal)


@contextmanager
def records_folder(records: str | None) -> Iterator[str | None]:
    """A folder of records; for a file of them one that lasts as long as the context."""
    if records is None or Path(records).is_dir():
        yield records
        return
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        add_records(records, folder)
        yield folder


def add_records(source: str, folder: str) -> None:
    """Add the records of a file or folder to a folder."""
    files = sorted(Path(source).glob("*.jsonl")) if Path(source).is_dir() else [source]
    for record in read_files(files).records:
        RecordLog(Path(folder, f"records.{record.target_kind}.jsonl")).append(record)
