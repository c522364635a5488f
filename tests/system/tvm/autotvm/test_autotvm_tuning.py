"""Programs of AutoTVM's tutorials after one change, their imports: the space, tuning, the log, and what is built."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import UsageError, WorkloadError
from autosched.records import Record
from autosched.space.space import SearchSpace, template_space
from autosched.tvm import autotvm, te
from autosched.tvm.autotvm.tracing import TracedTask

#: the machine may be busy: nothing here is about speed
OPTIONS = autotvm.measure_option(
    builder=autotvm.LocalBuilder(timeout=120, n_parallel=1), runner=autotvm.LocalRunner(timeout=120, number=1, repeat=1)
)


@autotvm.template("tutorial/matmul")
def matmul(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)

    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)

    # schedule
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]

    ##### define space begin #####
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    ##### define space end #####

    # schedule according to config
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)

    s[C].reorder(yo, xo, k, yi, xi)

    return s, [A, B, C]


def space_of(task: autotvm.task.Task) -> tuple[TracedTask, SearchSpace]:
    traced = TracedTask(task)
    return traced, template_space(traced.workload, traced.target, {})


def test_simple_template(tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    N, L, M = 16, 8, 32
    task = autotvm.task.create("tutorial/matmul", args=(N, L, M, "float32"), target="llvm")
    assert len(task.config_space) == 5 * 6 and task.flop == 2 * N * L * M
    log, monitor = tmp_path / "matmul.log", autotvm.callback.Monitor()
    tuner = autotvm.tuner.RandomTuner(task)
    caplog.set_level(logging.DEBUG, "autotvm")
    tuner.tune(
        n_trial=3,
        measure_option=OPTIONS,
        callbacks=[autotvm.callback.log_to_file(str(log)), autotvm.callback.progress_bar(3), monitor],
    )
    pairs = list(autotvm.record.load_from_file(log))
    said = [r.getMessage() for r in caplog.records if r.getMessage().startswith("No: ")]
    assert [text.split("\t")[0] for text in said] == ["No: 1", "No: 2", "No: 3"]
    for text, (inp, result) in zip(said, pairs, strict=True):
        _, speeds, costs, config = text.split("\t")
        assert speeds.startswith("GFLOPS: ") and f"costs={result.costs!r:.8}" in costs and config == str(inp.config)
    assert len(pairs) == 3 == len({inp.config.index for inp, _ in pairs}) == len(monitor.trial_scores())
    for inp, result in pairs:
        assert result.error_no == 0 and inp.task.workload == task.workload == ("tutorial/matmul", N, L, M, "float32")
        assert task.config_space.get(inp.config.index) == inp.config
    assert "3/3" in capsys.readouterr().err
    assert tuner.best_config in [inp.config for inp, _ in pairs] and tuner.best_flops > 0

    # apply history best from log file
    with autotvm.apply_history_best(str(log)) as best:
        with tvm.target.Target("llvm"):
            s, arg_bufs = matmul(N, L, M, "float32")
            func = tvm.build(s, arg_bufs)
        chosen = best.query(tvm.target.Target("llvm"), task.workload)
    assert f'split("i", factor={chosen["tile_y"].size[-1]})' in str(s.trace)

    a_np = np.random.uniform(size=(N, L)).astype(np.float32)
    b_np = np.random.uniform(size=(L, M)).astype(np.float32)
    c_tvm = tvm.nd.empty((N, M))
    func(tvm.nd.array(a_np), tvm.nd.array(b_np), c_tvm)
    tvm.testing.assert_allclose(a_np.dot(b_np), c_tvm.numpy(), rtol=1e-4)


def test_splits_are_knobs_of_one_sketch() -> None:
    task = autotvm.task.create("tutorial/matmul", args=(16, 8, 12, "float32"), target="llvm")
    _, space = space_of(task)
    (sketch,) = space.sketches
    assert [(k.name, k.values) for k in sketch.knobs] == [
        ("tile_y_1", (1, 2, 4, 8, 16)),
        ("tile_x_1", (1, 2, 3, 4, 6, 12)),
    ]
    assert [i[0] for i in sketch.trace] == ["define_knob", "define_knob", "split", "split", "reorder"]


@autotvm.template("structure")
def structure(n):
    """What a script does with values: truth, comparison, a key, a count, a name, an order, annotations."""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    y, x = s[B].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile", x, num_outputs=2)
    cfg.define_knob("parallel", [False, True])
    cfg.define_knob("step", [1, 2])
    cfg.define_knob("way", [1, 2])
    cfg.define_knob("unused", ["a", None])
    xo, xi = cfg["tile"].apply(s, B, x)
    cfg.define_reorder("order", [y, xo, xi], policy="candidate", candidate=[[y, xo, xi], [xo, y, xi]])
    cfg.define_annotate("ann", [xi], policy="try_vec")
    axes = cfg["order"].apply(s, B, [y, xo, xi])
    if cfg["parallel"].val:
        s[B].parallel(axes[0])
    if cfg["step"].val == 2:
        s[B].unroll(axes[1])
    _ = {1: "one", 2: "two"}[cfg["way"].val]
    cfg["ann"].apply(s, B, [axes[-1]])
    return s, [A, B]


def test_values_that_the_script_needs_are_choices() -> None:
    task = autotvm.task.create("structure", args=(8,), target="llvm")
    assert task.config_space.dims == [4, 2, 2, 2, 2, 2, 2]
    _, space = space_of(task)
    assert len(space.sketches) == 64 and all(s.size == 4 for s in space.sketches)
    assert len({repr([i for i in s.trace if i[0] != "choose"]) for s in space.sketches}) == 16  # of 2 x 2 nothing hangs


def test_every_point_is_one_configuration_with_the_same_schedule() -> None:
    """A sketch's trace with its knobs bound is what the template does with the configuration."""
    task = autotvm.task.create("structure", args=(8,), target="llvm")
    traced, space = space_of(task)
    found = set()
    for sketch in space.sketches[::7]:
        for value in sketch.knobs[0].values:
            record = Record(
                workload={},
                target="llvm",
                sketch="",
                trace=sketch.trace,
                knobs={sketch.knobs[0].name: value},
                status="ok",
            )
            config = traced.config_of(record)
            found.add(config.index)
            s, _ = task.instantiate(config)
            ours = [[value if x == ["knob", "tile_1"] else x for x in map(_plain, i)] for i in sketch.trace]
            bound = [i for i in ours if i[0] not in ("define_knob", "choose")]
            assert bound == [[_plain(x) for x in i] for i in s.trace.to_json()]
    assert len(found) == 4 * len(space.sketches[::7])


def _plain(x):
    return next(iter(x.values())) if isinstance(x, dict) else x


@autotvm.template("refused")
def refused(kind):
    A = te.placeholder((8,), name="A")
    cfg = autotvm.get_config()
    cfg.define_split("tile", cfg.axis(8), num_outputs=2)
    size = cfg["tile"].size[-1] if kind == "shape" else 4
    P = te.compute((8 // size, size), lambda i, j: A[i * size + j], name="P")
    B = te.compute((8,), lambda i: P[i // size, i % size] + 1.0, name="B")
    s = te.create_schedule(B.op)
    if kind == "raises" and cfg["tile"].size[-1] == 2:
        raise ValueError("no such thing")
    if kind == "invalid" and cfg["tile"].size[-1] > 2:
        cfg.raise_error("too large")
    cfg["tile"].apply(s, B, s[B].op.axis[0])
    return s, [A, B]


@pytest.mark.parametrize(
    ("kind", "left", "why"),
    [
        ("shape", 1, "what it computes depends on the configuration"),
        ("raises", 3, "ValueError: no such thing"),
        ("invalid", 2, "too large"),
    ],
)
def test_configurations_that_cannot_be_are_left_out_with_the_reason(kind: str, left: int, why: str) -> None:
    _, space = space_of(autotvm.task.create("refused", args=(kind,), target="llvm"))
    assert len(space.sketches) == left and len(space.failures) == 4 - left
    assert all(why in text for text in space.failures.values())


@autotvm.template("filtered")
def filtered(n):
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    y, x = s[B].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.multi_filter(lambda e: e["tile_y"].size[-1] * e["tile_x"].size[-1] == 4)
    cfg["tile_y"].apply(s, B, y)
    cfg["tile_x"].apply(s, B, x)
    return s, [A, B]


def test_a_filter_over_entities_holds_in_the_space() -> None:
    task = autotvm.task.create("filtered", args=(8,), target="llvm")
    assert len(task.config_space) == 3
    traced, space = space_of(task)
    found = set()
    for sketch in space.sketches:
        rows = np.indices([len(k.values) for k in sketch.knobs]).reshape(len(sketch.knobs), sketch.size).T
        for row in rows[sketch.mask(rows)]:
            record = Record(
                workload={}, target="llvm", sketch="", trace=sketch.trace, knobs=sketch.values(row), status="ok"
            )
            found.add(traced.config_of(record).index)
    assert found == {i for i in range(16) if task.config_space.is_index_valid(i)} and len(found) == 3


@autotvm.template("tutorial/conv2d_no_batching")
def conv2d_no_batching(N, H, W, CO, CI, KH, KW, stride, padding):
    """The GPU tutorial's, with its direct convolution written out."""
    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    pad = te.compute(
        (N, CI, H + 2 * padding, W + 2 * padding),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= padding, y < H + padding, x >= padding, x < W + padding),
            data[n, c, y - padding, x - padding],
            0.0,
        ),
        name="pad",
    )
    rc, ry, rx = (te.reduce_axis((0, n), name=name) for n, name in ((CI, "rc"), (KH, "ry"), (KW, "rx")))
    conv = te.compute(
        (N, CO, (H + 2 * padding - KH) // stride + 1, (W + 2 * padding - KW) // stride + 1),
        lambda n, f, y, x: te.sum(pad[n, rc, y * stride + ry, x * stride + rx] * kernel[f, rc, ry, rx], [rc, ry, rx]),
        name="conv",
    )
    s = te.create_schedule([conv.op])

    n, f, y, x = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_f", f, num_outputs=4)
    cfg.define_split("tile_y", y, num_outputs=4)
    cfg.define_split("tile_x", x, num_outputs=4)
    cfg.define_split("tile_rc", rc, num_outputs=3)
    cfg.define_split("tile_ry", ry, num_outputs=3)
    cfg.define_split("tile_rx", rx, num_outputs=3)
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])

    pad_data = s[conv].op.input_tensors[0]
    s[pad_data].compute_inline()
    data, raw_data = pad_data, data
    output = conv
    OL = s.cache_write(conv, "local")
    AA = s.cache_read(data, "shared", [OL])
    WW = s.cache_read(kernel, "shared", [OL])
    AL = s.cache_read(AA, "local", [OL])
    WL = s.cache_read(WW, "local", [OL])

    n, f, y, x = s[output].op.axis
    bf, vf, tf, fi = cfg["tile_f"].apply(s, output, f)
    by, vy, ty, yi = cfg["tile_y"].apply(s, output, y)
    bx, vx, tx, xi = cfg["tile_x"].apply(s, output, x)
    kernel_scope = n
    s[output].bind(bf, te.thread_axis("blockIdx.z"))
    s[output].bind(by, te.thread_axis("blockIdx.y"))
    s[output].bind(bx, te.thread_axis("blockIdx.x"))
    s[output].bind(vf, te.thread_axis("vthread"))
    s[output].bind(vy, te.thread_axis("vthread"))
    s[output].bind(vx, te.thread_axis("vthread"))
    s[output].bind(tf, te.thread_axis("threadIdx.z"))
    s[output].bind(ty, te.thread_axis("threadIdx.y"))
    s[output].bind(tx, te.thread_axis("threadIdx.x"))
    s[output].reorder(n, bf, by, bx, vf, vy, vx, tf, ty, tx, fi, yi, xi)
    s[OL].compute_at(s[output], tx)

    n, f, y, x = s[OL].op.axis
    rc, ry, rx = s[OL].op.reduce_axis
    rco, rcm, rci = cfg["tile_rc"].apply(s, OL, rc)
    ryo, rym, ryi = cfg["tile_rx"].apply(s, OL, ry)
    rxo, rxm, rxi = cfg["tile_ry"].apply(s, OL, rx)
    s[OL].reorder(rco, ryo, rxo, rcm, rym, rxm, rci, ryi, rxi, n, f, y, x)

    s[AA].compute_at(s[OL], rxo)
    s[WW].compute_at(s[OL], rxo)
    s[AL].compute_at(s[OL], rxm)
    s[WL].compute_at(s[OL], rxm)

    for load in [AA, WW]:
        n, f, y, x = s[load].op.axis
        fused = s[load].fuse(n, f, y, x)
        tz, fused = s[load].split(fused, nparts=cfg["tile_f"].size[2])
        ty, fused = s[load].split(fused, nparts=cfg["tile_y"].size[2])
        tx, fused = s[load].split(fused, nparts=cfg["tile_x"].size[2])
        s[load].bind(tz, te.thread_axis("threadIdx.z"))
        s[load].bind(ty, te.thread_axis("threadIdx.y"))
        s[load].bind(tx, te.thread_axis("threadIdx.x"))

    s[output].pragma(kernel_scope, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[output].pragma(kernel_scope, "unroll_explicit", cfg["unroll_explicit"].val)
    return s, [raw_data, kernel, conv]


def test_gpu_convolution_is_six_sketches_and_computes_what_it_should() -> None:
    task = autotvm.task.create("tutorial/conv2d_no_batching", args=(1, 4, 4, 4, 4, 3, 3, 1, 1), target="opencl")
    assert task.config_space.dims == [10, 10, 10, 6, 3, 3, 3, 2]
    _, space = space_of(task)
    assert len(space.sketches) == 6 and all(len(s.knobs) == 15 for s in space.sketches)
    config = task.config_space.get(task.config_space.knob2point([5, 5, 5, 4, 1, 1, 1, 1]))
    with task.target, autotvm.apply_history_best([]):
        s, args = task.instantiate(config)
        func = tvm.build(s, args, "opencl")
    rng = np.random.default_rng(0)
    data = rng.integers(-3, 3, (1, 4, 4, 4)).astype("float32")
    kernel = rng.integers(-3, 3, (4, 4, 3, 3)).astype("float32")
    conv = np.zeros((1, 4, 4, 4), "float32")
    func(data, kernel, conv)
    tvm.testing.assert_allclose(conv, te.reference(args, [data, kernel])[0])


def test_bad_tasks() -> None:
    with pytest.raises(WorkloadError, match=r"'nothing': no such template"):
        autotvm.task.create("nothing", args=(), target="llvm")
    with pytest.raises(UsageError, match="cannot be stored"):
        autotvm.task.create("tutorial/matmul", args=(object(),), target="llvm")
    autotvm.template("no schedule", lambda n: n)
    with pytest.raises(WorkloadError, match="it returned 3"):
        autotvm.task.create("no schedule", args=(3,), target="llvm")


def test_without_a_log_a_template_uses_its_first_candidates(caplog: pytest.LogCaptureFixture) -> None:
    with tvm.target.Target("llvm"):
        s, _ = matmul(4, 4, 4, "float64")
        matmul(4, 4, 4, "float64")
    assert 'split("i", factor=1)' in str(s.trace)
    assert sum("no configuration for" in m for m in caplog.messages) == 1


def test_compute_and_schedule_apart() -> None:
    """As operators are written: the compute and the schedule function get the same configuration."""

    @autotvm.register_topi_compute("scale.test")
    def scale(cfg, data, by):
        cfg.add_flop(123)
        return te.compute(data.shape, lambda i: data[i] * by, name="scaled")

    @autotvm.register_topi_schedule("scale.test")
    def schedule_scale(cfg, outs):
        s = te.create_schedule([t.op for t in outs])
        x = s[outs[0]].op.axis[0]
        cfg.define_split("tile", x, num_outputs=2)
        if cfg.is_fallback:
            cfg.fallback_split("tile", [-1, 6])
        cfg["tile"].apply(s, outs[0], x)
        return s

    data = te.placeholder((16,), name="data")
    task = autotvm.task.create("scale.test", args=(data, 2.0), target="llvm")
    assert task.workload == ("scale.test", ("TENSOR", (16,), "float32"), 2.0)
    assert len(task.config_space) == 5 and task.flop == 123
    s, tensors = task.instantiate(task.config_space.get(3))
    assert "factor=8" in str(s.trace) and len(tensors) == 2
    with tvm.target.Target("llvm"):
        out = scale(data, 2.0)
        later = te.compute((16,), lambda i: out[i] + 1.0, name="later")
        assert autotvm.task.get_workload([later]) == task.workload
        assert "factor=4" in str(schedule_scale([out]).trace)
        with pytest.raises(WorkloadError, match="made none of B"):
            schedule_scale([te.compute((4,), lambda i: data[i], name="B")])


def _small() -> autotvm.task.Task:
    return autotvm.task.create("tutorial/matmul", args=(2, 2, 2, "float32"), target="llvm")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: autotvm.LocalBuilder(build_func="ndk"), "compiled by this package"),
        (lambda: autotvm.LocalBuilder(build_kwargs={"check_gpu": {}}), "limits of a device"),
        (lambda: autotvm.LocalRunner(module_loader=print), "load what they built"),
        (lambda: autotvm.RPCRunner("rasp", "0.0.0.0", 9190), "run on this machine"),
        (lambda: autotvm.measure_option(builder="remote", runner="local"), "'remote' is no builder"),
        (lambda: autotvm.tuner.RandomTuner(_small(), range_idx=(4, 9)), "no part of the space"),
        (lambda: autotvm.tuner.XGBTuner(None, optimizer="reg"), "no optimizer"),
        (lambda: autotvm.tuner.XGBTuner(None, loss_type="l2"), "no loss"),
        (lambda: autotvm.tuner.DropletTuner(None, start_position=[1, 2]), "the descent begins"),
        (lambda: autotvm.callback.progress_bar(3, si_prefix="Q"), "no prefix"),
        (lambda: autotvm.graph_tuner, "layouts between the kernels"),
    ],
)
def test_what_is_not_here_says_so(call, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        call()


def test_measure_options() -> None:
    from autosched.tvm.autotvm.measure import options_of

    options = options_of(autotvm.measure_option("local", autotvm.LocalRunner(timeout=4, number=7, repeat=2)))
    assert (options.timeout_s, options.build_timeout_s, options.number, options.repeat) == (4, 10, 7, 2)
    options = options_of(
        autotvm.measure_option(autotvm.LocalBuilder(n_parallel=3), autotvm.LocalRunner(min_repeat_ms=50))
    )
    assert (options.number, options.min_repeat_ms, options.builders) == (0, 50, 3)


def test_callbacks_write_to_open_files_and_count_failures(capsys: pytest.CaptureFixture[str]) -> None:
    task = autotvm.task.create("tutorial/matmul", args=(4, 4, 4, "float32"), target="llvm")
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(1))
    good, bad = autotvm.MeasureResult((1e-6, 3e-6), 0, 1.0, 5.0), autotvm.MeasureResult(("x",), 4, 1.0, 6.0)
    out, monitor, bar = io.StringIO(), autotvm.callback.Monitor(), autotvm.callback.progress_bar(2, si_prefix="M")
    for callback in (autotvm.callback.log_to_file(out), monitor, bar):
        callback(None, [inp, inp], [good, bad])
    assert len(out.getvalue().splitlines()) == 2
    assert monitor.trial_scores() == pytest.approx([64e6, 0]) and monitor.trial_timestamps() == [5.0, 6.0]
    shown = capsys.readouterr().err
    assert "64.00 MFLOPS | Progress: (2/2)" in shown and "1 failed" in shown
