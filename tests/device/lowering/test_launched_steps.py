"""Scans whose steps are kernels: the host runs the loop over time."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_emulation import with_emulated_cuda
from scan_programs import bind_steps, heat, heat_states, running_sum

import autosched
from autosched import te
from autosched.codegen import compile_function
from autosched.codegen.artifact import Artifact
from autosched.lowering.pipeline import lower_structure
from autosched.runtime.interpreter import interpret
from autosched.runtime.launch import LaunchPlan
from autosched.schedule import create_schedule
from autosched.space.default import default_schedule
from autosched.space.rules import generated
from autosched.space.space import template_space
from autosched.space.workload import Workload
from autosched.target import Target

GPU = Target.parse("opencl").with_limits(is_cpu=0, compute_units=16, work_group_multiple=32, max_threads_per_block=256)


@pytest.mark.parametrize("inlined", [True, False])
@pytest.mark.parametrize(
    ("backend", "size"),
    [("interpreter", "known"), *((b, size) for b in ("opencl", "cuda") for size in ("known", "symbolic"))],
)
def test_a_step_reads_what_all_work_items_wrote_before(
    backend: str, size: str, inlined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, n = 7, 100
    args = heat(steps, n) if size == "known" else heat(te.var("steps"), te.var("n"))
    s, rod = bind_steps(args, inlined=inlined), np.arange(n, dtype=np.int32)
    got = np.zeros((steps + 1, n), np.int32)
    if backend == "interpreter":
        interpret(lower_structure(s, args, "opencl").bind(), [rod, got])
    else:
        if backend == "cuda":
            with_emulated_cuda(monkeypatch)
        autosched.build(s, backend, args=args)(rod, got)
    np.testing.assert_array_equal(got, heat_states(rod, steps))


@pytest.mark.parametrize("known", [True, False])
def test_by_default_the_loops_of_such_a_scan_stay_the_hosts(known: bool) -> None:
    """Also where it has an axis along which no step looks aside, as rods beside each other have."""
    rods, n, steps = (3, 400, 5) if known else (te.var("rods"), te.var("n"), te.var("steps"))
    rod = te.placeholder((rods, n), "int32", name="rod")
    state = te.placeholder((steps, rods, n), "int32", name="state")
    first = te.compute((1, rods, n), lambda t, r, i: rod[r, i], name="first")
    step = te.compute((steps, rods, n), lambda t, r, i: state[t - 1, r, n - 1 - i] + 1, name="step")
    args = [rod, te.scan(first, step, state, name="out")]
    s = default_schedule(args, GPU)
    assert any(loop.thread for loop in s["step"].loops)
    assert not any(loop.thread for loop in s["out"].loops)
    x = np.arange(1200, dtype=np.int32).reshape(3, 400)
    got = np.zeros((5, 3, 400), np.int32)
    autosched.build(s, "opencl", args=args)(x, got)
    for t in range(5):
        np.testing.assert_array_equal(got[t], (x if t % 2 == 0 else x[:, ::-1]) + t)


def test_more_steps_than_a_queue_takes() -> None:
    steps, n = 2500, 40
    args = heat(te.var("steps"), te.var("n"))
    rod, got = np.arange(n, dtype=np.int32), np.zeros((steps + 1, n), np.int32)
    autosched.build(bind_steps(args, inlined=True), "opencl", args=args)(rod, got)
    np.testing.assert_array_equal(got, heat_states(rod, steps))


def test_the_plan_of_launches() -> None:
    args = heat(te.var("steps"), te.var("n"))
    artifact = compile_function(lower_structure(bind_steps(args, inlined=False), args, "cuda").bind(), Target("cuda"))
    (read,) = Artifact.from_bytes(artifact.to_bytes(), "a test")
    plan = LaunchPlan.of(read)
    names = [launch.name.removeprefix("main_").removesuffix("_kernel") for launch in plan.launches]
    assert names == ["first", "near", "step"]
    assert [launch.loop for launch in plan.launches] == [None, *[(0, 0, ["size", "steps"])] * 2]
    order = [(number, launch.step) for number, launch in plan.in_order({"steps": 2, "n": 5})]
    assert order == [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)]
    assert [number for number, _ in plan.in_order({"steps": 0, "n": 5})] == [0]
    assert list(plan.in_order({"steps": 3, "n": 0})) == []


def test_places_of_their_own_stay_one_kernel() -> None:
    """Where no step looks aside, work-items go through all of time by themselves."""
    args = running_sum()
    s = create_schedule(args[-1])
    for name in ("first", "step"):
        group, item = s[name].split("i", factor=32)
        s[name].bind(group, "blockIdx.x")
        s[name].bind(item, "threadIdx.x")
    artifact = compile_function(lower_structure(s, args, "cuda").bind(), Target("cuda"))
    assert [launch.loop for launch in LaunchPlan.of(artifact).launches] == [None]


def test_default_schedule_and_rules_launch_each_step() -> None:
    args = heat(7, 256)
    work = Workload("heat", tuple(args))
    space = template_space(work, GPU, {}, [generated(GPU)])
    schedules = [lower_structure(default_schedule(args, GPU), args, GPU).bind()]
    for sketch in space.sketches:
        points = sketch.valid_points
        schedules.append(sketch.structure.bind(sketch.values(points.rows([points.count - 1])[0])))
    rod = np.arange(256, dtype=np.int32)
    for f in schedules:
        assert any(launch.loop for launch in LaunchPlan.of(compile_function(f, GPU)).launches)
        got = np.zeros((8, 256), np.int32)
        interpret(f, [rod, got])
        np.testing.assert_array_equal(got, heat_states(rod, 7))
    on_cpu = GPU.with_limits(is_cpu=1)
    plain = compile_function(lower_structure(default_schedule(args, on_cpu), args, on_cpu).bind(), on_cpu)
    assert not any(launch.loop for launch in LaunchPlan.of(plain).launches)


def test_conditions_on_the_step_are_asked_by_each_kernel() -> None:
    """A state of two times is begun by two planes, the second of which the first step would store again."""
    steps, n = 6, 40
    rod = te.placeholder((n,), "int32", name="rod")
    state = te.placeholder((steps, n), "int32", name="state")
    first = te.compute((2, n), lambda t, i: rod[i] + t, name="first")
    step = te.compute(
        (steps, n),
        lambda t, i: te.if_then_else(t > 3, state[t - 1, n - 1 - i], state[t - 2, i]) + 1,
        name="step",
    )
    args = [rod, te.scan(first, step, state, name="states")]
    s = create_schedule(args[-1])
    for name in ("first", "step"):
        s[name].bind("i", "threadIdx.x")
    x = np.arange(n, dtype=np.int32)
    rows = [x, x + 1]
    for t in range(2, steps):
        rows.append((rows[-1][::-1] if t > 3 else rows[-2]) + 1)
    np.testing.assert_array_equal(autosched.build(s, "opencl", args=args)(x), np.array(rows))
