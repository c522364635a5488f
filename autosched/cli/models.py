"""`autosched compile`, `tune`, `run` and `report` of an ONNX model."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from autosched.cli import options
from autosched.cli.failures import interrupted_status
from autosched.cli.model_arguments import LIBRARIES, TASK_TRIALS
from autosched.cli.model_inputs import read_inputs
from autosched.cli.tune import search_arguments
from autosched.errors import ModelError, UsageError, VerificationError, check_path, named_file, new_file
from autosched.graph import CompiledModel, Model, TunedModel, load
from autosched.graph.running import Executable
from autosched.graph.timing import medians
from autosched.graph.tuning import check
from autosched.graph.verifying import verify
from autosched.html.network import Call, Network, model_html
from autosched.html.report import check_output, write_page
from autosched.ir.dtype import dtype
from autosched.ir.expr import is_const
from autosched.report.progress import make_display
from autosched.report.summary import Standing, standing
from autosched.report.text import duration, plural, ratio, seconds, table
from autosched.runtime.device import describe_device, resolve_target
from autosched.space.samples import random_inputs
from autosched.tuning import TasksResult

Arrays = dict[str, Any]


def run(args: argparse.Namespace) -> int:
    if args.verb == "run" and args.source.endswith(LIBRARIES):
        return _run_library(args)
    if args.source.endswith(LIBRARIES):
        raise UsageError("a library has no kernels apart, and no model", asked=args.source, legal="MODEL.onnx")
    model = load(args.source, shapes=_shapes(args.shape))
    verbs: dict[str, Callable[[argparse.Namespace, Model], int]] = {"compile": _compile, "tune": _tune, "run": _run,
                                                                      "report": _report}  # fmt: skip
    return verbs[args.verb](args, model)


def _shapes(words: list[str]) -> dict[str, Any]:
    """Sizes from `data:1x3x224x224` or `batch:8`."""
    found: dict[str, Any] = {}
    for word in words:
        name, colon, text = word.rpartition(":")
        sizes = text.replace(",", "x").strip("[]").split("x")
        if not colon or not name or not all(s.strip().isdigit() for s in sizes):
            legal = "NAME:1x3x224x224 for an input, NAME:8 for a symbolic dimension"
            raise UsageError("it is no shape", asked=f"--shape {word}", legal=legal)
        numbers = [int(s) for s in sizes]
        found[name] = numbers[0] if len(numbers) == 1 else numbers
    return found


# -- compile --------------------------------------------------------------------------------------
def _compile(args: argparse.Namespace, model: Model) -> int:
    output = check_path(args.output, f"compile -o {args.output}").expanduser()
    if args.output.endswith(LIBRARIES):
        new_file(output, f"compile -o {args.output}", args.force)
    else:  # all folders have it, and compiling takes long
        new_file(output / "README.md", f"compile -o {args.output}: README.md", args.force, what="folder")
    compiled, took = _compiled(args, model)
    report: dict[str, Any] = {"model": model.name, "output": args.output, "build_s": took}
    if args.output.endswith(LIBRARIES):
        if args.arrays:
            raise UsageError("a library has the weights inside", asked=f"--arrays -o {args.output}", legal="a folder")
        compiled.save(output)
        size = output.stat().st_size
        report["files"], told = {os.path.basename(args.output): size}, f"{size:,} bytes, weights inside"
    else:
        written = compiled.export(output, arrays=args.arrays, force=args.force)
        report["files"], told = dict(written.files), str(written)
    if args.json:
        options.emit(report)
    else:
        print(_headline(compiled, took))
        print(f"{args.output}: {told}")
    return 0


def _compiled(
    args: argparse.Namespace, model: Model, values: Mapping[str, Any] | None = None
) -> tuple[CompiledModel, float]:
    begun = time.perf_counter()
    show = sys.stderr.isatty() and not args.json

    def progress(done: int, of: int) -> None:
        if show:
            print(f"\r{done} of {plural(of, 'kernel')}", end="\n" if done == of else "", file=sys.stderr, flush=True)

    compiled = model.compile(
        args.target, effort=args.effort, records=options.records_folder(args), values=values, progress=progress
    )
    return compiled, time.perf_counter() - begun


def _headline(compiled: CompiledModel, took: float) -> str:
    used, cut = compiled.memory, compiled.cut
    weights = sum(w.nbytes for w in compiled.program.weights)
    memory = f"arena {used.arena:,} bytes (tensors {used.apart:,}, alive at once {used.alive:,}), weights {weights:,}"
    kernels = f"{plural(len(cut.kernels), 'kernel')} in {plural(len(cut.calls), 'call')}"
    return f"{compiled.graph.name} for {compiled.target}: {kernels}, compiled in {duration(took)}\n{memory}"


# -- tune -----------------------------------------------------------------------------------------
def _tune(args: argparse.Namespace, model: Model) -> int:
    limited = args.trials is not None or args.budget is not None
    with make_display(args.progress, sys.stderr) as display:
        search = search_arguments(args)
        if not limited:
            search["trials"] = TASK_TRIALS * len(model.compile(args.target, effort="none").cut.kernels)
        else:
            search["trials"] = args.trials
        inputs = _random(model, {})
        tuned = model.tune(args.target, inputs=inputs, verified=not args.unverified, **search, progress=display)
    result = tuned.tasks
    if args.json:
        times = {} if tuned.seconds is None else dict(zip(("seconds_before", "seconds"), tuned.seconds, strict=True))
        report = {"model": model.name, "verified": len(tuned.compared), "schedules": _origins(tuned)} | times
        options.emit(report | (result.to_json() if result else {}))
    elif result is None:
        print(f"{model.name}: nothing to tune, it has no kernel with work")
    else:
        print("\n".join(_tuned_lines(tuned, result)))
    return interrupted_status() if result is not None and result.interrupted else 0


def _origins(tuned: TunedModel) -> list[str]:
    """For each kernel where its schedule comes from now: a record, the model's prediction, the default schedule."""
    modules = tuned.compiled.modules if tuned.compiled is not None else []
    return [str(m.provenance.get("kind", "")) for m in modules]


def _tuned_lines(tuned: TunedModel, result: TasksResult) -> list[str]:
    origins = _origins(tuned)
    found = dict(zip(tuned.kernels, result.results, strict=True))
    rows = []
    for i, k in enumerate(tuned.cut.kernels):
        measured = [""] * 4
        if (r := found.get(i)) is not None:
            measured = [str(r.trials), seconds(r.default_seconds), seconds(r.seconds), ratio(r.speedup)]
        rows.append([k.workload.name, f"{k.count}", *measured, *origins[i : i + 1]])
    head = ["kernel", "calls", "trials", "default", "best", "speed-up", *(["schedule"] if origins else [])]
    lines = table(rows, head, range(1, 6))
    if tuned.compared:
        lines.append(f"{plural(len(tuned.compared), 'tensor')} of the untuned model agree with onnx.reference")
    took = f"after {plural(result.trials, 'trial')}, {duration(result.elapsed_s)}"
    if math.isfinite(result.objective):
        took = f"{seconds(result.default_objective)} -> {seconds(result.objective)} {took}"
    lines.append(f"tuned kernels of one run: {took}")
    if tuned.seconds is not None:
        before, after = tuned.seconds
        lines.append(f"a whole run: {seconds(before)} untuned, {seconds(after)} now ({ratio(before / after)})")
    return lines


# -- run ------------------------------------------------------------------------------------------
def _prepared(args: argparse.Namespace, model: Model) -> tuple[CompiledModel, Arrays, Arrays, float]:
    """The model compiled, its inputs, those of them that were given, and the seconds of compiling."""

    def wanted(name: str) -> tuple[Any, str]:
        tensor = model.graph().inputs[name]
        return [int(d) if is_const(d) else str(d) for d in tensor.shape], str(tensor.dtype)

    given = read_inputs(args.inputs, model.input_names, wanted, args.pixels, _note)
    inputs = _random(model, given)
    graph = model.graph_for(inputs)
    compiled, took = _compiled(args, model, {name: inputs[name] for name in model.deciding})
    assert compiled.graph.name == graph.name
    return compiled, inputs, given, took


def _run(args: argparse.Namespace, model: Model) -> int:
    if args.output is not None:
        _arrays_file(args)  # before the work
    compiled, inputs, given, took = _prepared(args, model)
    outputs = compiled.run(inputs)
    report: dict[str, Any] = {"model": model.name, "target": str(compiled.target), "build_s": took}
    if args.verify:
        report["verified"] = _verify(compiled, model, inputs)
    beside = [_beside(args, model, inputs)] if args.compare else []
    ours, *others = medians(lambda: compiled.run(inputs), *beside)
    theirs = others[0] if others else None
    report |= {"seconds": ours} | ({args.compare: theirs} if args.compare else {})
    if args.profile:
        calls = _calls(compiled, inputs)
        report["profile"] = [asdict(c) for c in calls]
    if not args.json:
        print(_headline(compiled, took))
    _tell_random(model.input_names, given)
    _tell_outputs(args, outputs, report)
    if args.json:
        return 0
    if args.verify:
        print(f"{plural(report['verified'], 'tensor')} agree with onnx.reference")
    compared = "" if theirs is None else f"; {args.compare} takes {seconds(theirs)}, {ratio(theirs / ours)} as long"
    print(f"a run takes {seconds(ours)}{compared}")
    if args.profile:
        print("\n".join(_profile(calls, ours)))
    return 0


def _run_library(args: argparse.Namespace) -> int:
    """Run what `compile -o x.so` wrote."""
    asked = [w for w, is_given in (("--profile", args.profile), ("--verify", args.verify), ("--compare", args.compare),
                                   ("--shape", args.shape)) if is_given]  # fmt: skip
    if asked:
        raise UsageError("a library has no kernels apart, and no model", asked=", ".join(asked), legal="MODEL.onnx")
    if args.output is not None:
        _arrays_file(args)
    model = Executable.load(args.source)
    params = {p.name: p for p in model.inputs}

    def wanted(name: str) -> tuple[Any, str]:
        return params[name].shape_for({}), params[name].dtype

    given = read_inputs(args.inputs, [*params], wanted, args.pixels, _note)
    rng = np.random.default_rng(0)
    inputs = {n: rng.uniform(size=wanted(n)[0]).astype(dtype(p.dtype).numpy) for n, p in params.items()} | given
    outputs = model.run(inputs)
    (ours,) = medians(lambda: model.run(inputs))
    _tell_random([*params], given)
    _tell_outputs(args, outputs, {"model": model.name, "target": str(model.module.target), "seconds": ours})
    if not args.json:
        print(f"a run takes {seconds(ours)}")
    return 0


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _tell_random(names: Sequence[str], given: Arrays) -> None:
    if missing := [name for name in names if name not in given]:
        _note(f"random values for {', '.join(missing)}")


def _arrays_file(args: argparse.Namespace) -> Path:
    """The file of the outputs, which NumPy lets end in .npz. Raises the errors of `new_file`."""
    asked = f"run -o {args.output}"
    path = check_path(args.output, asked).expanduser()
    return new_file(path if path.suffix == ".npz" else Path(f"{path}.npz"), asked, args.force)


def _tell_outputs(args: argparse.Namespace, outputs: Arrays, report: dict[str, Any]) -> None:
    """Write the outputs where they were asked for, and print a line for each, or all as JSON."""
    if args.output is not None:
        there = {k: v for k, v in outputs.items() if v is not None}
        with named_file(f"--output {args.output}"):
            np.savez(_arrays_file(args), **there)
    if args.json:
        options.emit(report | {"outputs": {name: _described(x) for name, x in outputs.items()}})
        return
    for name, x in outputs.items():
        print(f"{name}: {_described(x)}")


def _random(model: Model, given: Arrays) -> Arrays:
    """The inputs that were not given, at random; what looks things up is within what it looks up."""
    graph = model.graph({k: x for k, x in given.items() if k in model.deciding})
    tensors = {name: t for name, t in graph.inputs.items() if name not in given}
    wanted = [t for v in graph.outputs.values() if v is not None for t in (v if isinstance(v, list) else [v])]
    for name, t in tensors.items():
        if not all(is_const(d) for d in t.shape):
            legal = f"--shape {name}:SIZES, or --inputs"
            raise ModelError(
                f"{name!r} has the shape {list(t.shape)}", asked=f"random inputs of {model.name}", legal=legal
            )
    arrays = random_inputs([*tensors.values(), *(t for t in wanted if t not in tensors.values())], {}, 0, model.name)
    return {**given, **dict(zip(tensors, arrays, strict=False))}


def _verify(compiled: CompiledModel, model: Model, inputs: Arrays) -> int:
    """The number of tensors that were compared. Raises VerificationError for the first that is wrong."""
    rows = verify(compiled, model.proto, inputs)
    check(rows, model.name)
    if not rows:
        raise VerificationError("there is nothing to compare", asked=f"run {model.name} --verify", legal="a node")
    return len(rows)


def _beside(args: argparse.Namespace, model: Model, inputs: Arrays) -> Callable[[], object]:
    """A run by ONNX Runtime, on as many threads."""
    try:
        import onnxruntime
    except ImportError:
        legal = "pip install onnxruntime"
        raise UsageError("it is not installed", asked=f"--compare {args.compare}", legal=legal) from None
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = resolve_target(args.target).num_threads
    session = onnxruntime.InferenceSession(model.proto.SerializeToString(), settings)
    return lambda: session.run(None, inputs)


def _described(x: Any) -> str:
    if x is None or isinstance(x, list):
        return "nothing" if x is None else f"a sequence of {plural(len(x), 'tensor')}"
    x = np.asarray(x)  # it may lie on a device
    told = f"{x.dtype}{list(x.shape)}"
    if not x.size or x.dtype.kind not in "fiu":
        return told
    return f"{told}, {x.min():.6g} to {x.max():.6g}, mean {x.mean():.6g}"


def _calls(compiled: CompiledModel, inputs: Arrays) -> list[Call]:
    """Each call of a kernel, timed."""
    cut = compiled.cut
    maker = {n: -1 - k for k, n in enumerate(cut.inputs.values())}
    maker |= {n: k for k, (_, _, made, _) in enumerate(cut.calls) for n in made}
    found = []
    for timed, (_, read, made, _) in zip(compiled.profile(inputs), cut.calls, strict=True):
        near = standing(timed.workload.args, compiled.target, {}, timed.seconds)
        tensors = [cut.tensors[n] for n in made]
        shape = ", ".join(f"{t.dtype}[{', '.join(str(d.value) for d in t.shape)}]" for t in tensors)
        limit = f"{near.fraction:.0%} of {near.limit}" if isinstance(near, Standing) else ""
        reads = tuple(maker[n] for n in read if n in maker)
        origin = str(timed.provenance.get("kind", ""))
        found.append(Call(timed.workload.name, timed.nodes, timed.seconds, origin, limit, shape, reads))
    return found


def _profile(calls: Sequence[Call], whole: float) -> list[str]:
    lines = [
        [c.name, seconds(c.seconds), f"{c.seconds / whole:.0%}", c.limit, c.origin, c.nodes[:60]]
        for c in sorted(calls, key=lambda c: -c.seconds)
    ]
    header = ["kernel", "time", "share", "roofline", "schedule", "nodes"]
    return [*table(lines, header, (1, 2, 3)), f"all kernels {seconds(sum(c.seconds for c in calls))}"]


# -- report ---------------------------------------------------------------------------------------
def _report(args: argparse.Namespace, model: Model) -> int:
    """The network with the time of each kernel, as a page."""
    check_output(args.output, args.force)
    compiled, inputs, given, _ = _prepared(args, model)
    _tell_random(model.input_names, given)
    calls = _calls(compiled, inputs)
    (whole,) = medians(lambda: compiled.run(inputs))
    made = {n: k for k, (_, _, numbers, _) in enumerate(compiled.cut.calls) for n in numbers}
    names = [f"{p.name}: {p.dtype}{list(p.shape)}" for p in compiled.program.inputs]
    ends = [f"{p.name}: {p.dtype}{list(p.shape)}" for p in compiled.program.outputs]
    network = Network(names, calls, list(zip(ends, map(made.__getitem__, compiled.cut.outputs.values()), strict=True)))
    facts = [
        (seconds(whole), "a run"), (seconds(network.seconds), "all kernels"), (str(len(calls)), "calls of kernels"),
        (str(len(compiled.cut.kernels)), "different kernels"),
        (f"{compiled.memory.arena:,}", "bytes of intermediates"),
        (f"{sum(w.nbytes for w in compiled.program.weights):,}", "bytes of weights"),
    ]  # fmt: skip
    commands = [f"{options.program()} {shlex.join(args.words)}"]
    about = f"{compiled.target} on {describe_device(compiled.target)['name']}"
    written = write_page(model_html(model.name, about, facts, network, commands), args.output, args.force)
    size = written.stat().st_size
    if args.json:
        rows = [asdict(c) for c in calls]
        options.emit({"model": model.name, "report": str(written), "bytes": size, "seconds": whole, "profile": rows})
    else:
        print(f"{written}: {size:,} bytes")
    return 0
