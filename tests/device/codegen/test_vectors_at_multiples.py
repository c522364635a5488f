"""Vectors of GPUs lie at multiples of their width: elements elsewhere are taken from those around them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cuda_emulation import EmulatedDriver, with_emulated_cuda

from autosched import search_space, te
from autosched.codegen.c_family import compile_cuda, compile_opencl
from autosched.codegen.nvrtc import compile_cuda_source, find_nvrtc
from autosched.lowering import lower_structure
from autosched.runtime.module import Module
from autosched.schedule import Schedule, create_schedule
from autosched.space.loading import find_workload
from autosched.space.samples import random_inputs
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.tensor import PlaceholderOp, Tensor
from autosched.testing.oracle import check_against_reference

CUDA, OPENCL = Target.parse("cuda"), Target.parse("opencl").with_limits(is_cpu=0)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    return with_emulated_cuda(monkeypatch)


def kernels(s: Schedule, args: list[Tensor], target: Target = CUDA) -> str:
    """The kernels and the helpers made for them, without the preamble."""
    compiled = (compile_cuda if target.kind == "cuda" else compile_opencl)(
        lower_structure(s, args, target).bind(), target
    )
    text = compiled.texts["source"]
    if target.kind == "cuda" and find_nvrtc() is not None:
        compile_cuda_source(text, "sm_80", to="ptx")
    return text[text.index("min_index_t") if "min_index_t" in text else 0 :]


def check(s: Schedule, args: list[Tensor], sizes: dict[str, int] | None = None) -> None:
    """On emulated CUDA, and on OpenCL as for a GPU."""
    inputs = random_inputs([t for t in args if isinstance(t.op, PlaceholderOp)], sizes or {}, 0, "vectors")
    for target in (CUDA, OPENCL):
        check_against_reference(args, s, target, inputs)


def window(dtype: str, width: int | te.Expr, lanes: int, items: int = 8) -> tuple[Schedule, list[Tensor]]:
    """Sums of three neighbours in rows, borders repeated; `lanes` results for each work-item."""
    x = te.placeholder((5, width), dtype, name="x")
    edge = te.repeat_edge(x)
    y = te.compute((5, width), lambda i, j: edge[i, j - 1] + edge[i, j] * 2 + edge[i, j + 1], name="y")
    s = create_schedule(y)
    rest, lane = s[y].split("j", lanes)
    group, item = s[y].split(rest, items)
    s[y].bind("i", "blockIdx.y")
    s[y].bind(group, "blockIdx.x")
    s[y].bind(item, "threadIdx.x")
    s[y].vectorize(lane)
    return s, [x, y]


@pytest.mark.parametrize(
    ("dtype", "lanes"), [("uint8", 16), ("uint8", 4), ("int16", 8), ("float32", 4), ("float32", 8)]
)
def test_neighbours_come_from_whole_vectors(emulated: EmulatedDriver, dtype: str, lanes: int) -> None:
    s, args = window(dtype, 192, lanes)
    text = kernels(s, args)
    inside = text[text.index('extern "C"') :].split("} else {")[0]
    assert "load_aligned<" in inside
    assert "load_vector" not in inside
    assert "store_vector" not in inside
    check(s, args)


def test_each_work_item_asks_whether_it_is_at_the_border(emulated: EmulatedDriver) -> None:
    """Only those at the ends of a row go lane by lane, not all of a group."""
    s, args = window("float32", 192, 4)
    conditions = re.findall(r"if \((.*)\)", kernels(s, args))
    assert "threadIdx_x" in conditions[0]


@pytest.mark.parametrize("step", [2, 3, 4])
def test_elements_some_places_apart_are_taken_from_whole_vectors(emulated: EmulatedDriver, step: int) -> None:
    x = te.placeholder((64 * step,), name="x")
    y = te.compute((64,), lambda i: x[i * step] + x[i * step + step - 1], name="y")
    s = create_schedule(y)
    item, lane = s[y].split("i", 4)
    s[y].bind(item, "threadIdx.x")
    s[y].vectorize(lane)
    assert "load_aligned<4>" in kernels(s, [x, y])
    check(s, [x, y])


def test_rows_that_begin_anywhere_are_read_element_by_element(emulated: EmulatedDriver) -> None:
    s, args = window("float32", 190, 4)
    assert "load_aligned" not in kernels(s, args)
    check(s, args)


@pytest.mark.parametrize(("columns", "taken"), [(13, False), (14, True)])
def test_shared_arrays_are_not_read_beyond_their_end(emulated: EmulatedDriver, columns: int, taken: bool) -> None:
    """Of 15 elements there is no fourth vector; behind them is other memory of the group."""
    x = te.placeholder((3, 20), name="x")
    y = te.compute((3, columns), lambda i, j: x[i, j + 1] + x[i, j + 3], name="y")
    s = create_schedule(y)
    tile = s[s.cache_read(x, "shared", "y")]
    s[y].bind("i", "blockIdx.x")
    rest, lane = s[y].split("j", 4)
    s[y].bind(rest, "threadIdx.x")
    s[y].vectorize(lane)
    tile.compute_at(s[y], "i")
    text = kernels(s, [x, y])
    assert f"x_shared[{columns + 2}]" in text
    assert ("taken_" in text) == taken
    check(s, [x, y])


def test_at_the_border_lanes_are_outside(emulated: EmulatedDriver) -> None:
    """Rows of one lane share where it reads: for each lane all rows, not for each row all lanes."""
    x = te.placeholder((8, 64), name="x")
    edge = te.repeat_edge(x)
    y = te.compute((8, 64), lambda i, j: edge[i, j - 1] + edge[i, j + 1], name="y")
    s = create_schedule(y)
    band, row = s[y].split("i", 4)
    item, lane = s[y].split("j", 4)
    s[y].reorder(band, item, row, lane)
    s[y].bind(band, "blockIdx.x")
    s[y].bind(item, "threadIdx.x")
    s[y].unroll(row)
    s[y].vectorize(lane)
    border = kernels(s, [x, y]).split("} else {")[1]
    assert border.index("j_inner = 0") < border.index("i_inner = 0")
    check(s, [x, y])


def test_rules_make_vectors_of_rows_that_begin_at_multiples(emulated: EmulatedDriver) -> None:
    """Of a width that is known, lanes that divide it; of one that is not, a version for multiples of the most."""

    def patches(width: int | te.Expr) -> tuple[set[int], set[str]]:
        x = te.placeholder((12, width), "uint8", name="x")
        edge = te.repeat_edge(x)
        y = te.compute((12, width), lambda i, j: te.max(edge[i, j - 1], edge[i, j + 1]), name="y")
        sketches = [
            t for t in Workload("window", (x, y)).search_space(CUDA, {"w": 64}, "auto").sketches if t.name != "default"
        ]
        lanes = {n for t in sketches for k in t.knobs if k.name == "y_lanes" for n in k.values}
        return lanes, {repr(c) for t in sketches for stage in t.schedule().stages for c in stage.special_cases}

    assert patches(40) == ({1, 2, 4, 8}, set())
    assert patches(41) == (set(), set())
    assert patches(te.var("w")) == ({2, 4, 8, 16}, {"w%16 == 0"})


@pytest.mark.parametrize("width", [64, 96, 61, 1, 16])
def test_a_kernel_chooses_by_sizes(emulated: EmulatedDriver, width: int) -> None:
    """`specialize`: in the version for multiples of 16 it is known where rows begin."""
    n = te.var("n")
    s, args = window("uint8", n, 16)
    s["y"].specialize(n % 16 == 0)
    text = kernels(s, args)
    assert text.count("n % 16 == 0") >= 1
    assert "load_aligned<16>" in text
    check(s, args, {"n": width})


def test_each_of_several_kernels_has_the_quotients_that_it_mentions(emulated: EmulatedDriver) -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    a = te.compute((n,), lambda i: x[i] * 2, name="a")
    b = te.compute((n,), lambda i: a[i] + a[n - 1 - i], name="b")
    s = create_schedule(b)
    for stage in (s[a], s[b]):
        group, item = stage.split("i", 8)
        stage.bind(group, "blockIdx.x")
        stage.bind(item, "threadIdx.x")
        stage.specialize(n % 8 == 0)
    launches = compile_cuda(lower_structure(s, [x, b], CUDA).bind(), CUDA).meta["launches"]
    assert len(launches) == 2
    for length in (40, 43):
        check(s, [x, b], {"n": length})


def test_a_launch_asks_for_no_quotient_of_a_version(emulated: EmulatedDriver) -> None:
    """Loops that come one after the other are both in a version; the host launches as many groups as either needs."""
    n = te.var("n")
    x = te.placeholder((n, 3), name="x")
    k = te.reduce_axis((0, 3), "k")
    y = te.compute((n,), lambda i: te.sum(x[i, k], axis=k), name="y")
    s = create_schedule(y)
    s[y].decompose_reduction("i")
    s[y].bind("i", "blockIdx.x")
    s[y].specialize(n % 2 == 0)
    for length in (6, 7):
        check(s, [x, y], {"n": length})


def test_a_task_chooses_by_sizes() -> None:
    """On a CPU, each work-group chooses: it is the iteration of a parallel loop of either version."""
    n = te.var("n")
    x = te.placeholder((12, n), name="x")
    y = te.compute((12, n), lambda i, j: x[i, j] * 2, name="y")
    s = create_schedule(y)
    s[y].parallel("i")
    s[y].vectorize(s[y].split("j", 8)[1])
    s[y].specialize(n % 8 == 0)
    cpu = OPENCL.with_limits(is_cpu=1)
    (launch,) = compile_opencl(lower_structure(s, [x, y], cpu).bind(), cpu).meta["launches"]
    assert launch["grid"] == [12, 1, 1]
    for length in (24, 27):
        check_against_reference([x, y], s, cpu, [np.arange(12 * length, dtype="float32").reshape(12, length)])


def test_the_template_of_the_box_blur_is_right_on_any_image(emulated: EmulatedDriver) -> None:
    work = find_workload("box_blur")()
    sketch = next(x for x in search_space(work, CUDA, space="templates").sketches if x.name == "vectors")
    module = Module(compile_cuda(sketch.structure.bind({"lanes": 16, "items": 32, "rows": 4}), CUDA), CUDA)
    for height, width in ((7, 32), (9, 31), (1, 1), (33, 48)):
        inputs = work.sample_inputs({"height": height, "width": width})
        blurred = np.zeros_like(inputs[0])
        module(*inputs, blurred)
        np.testing.assert_array_equal(blurred, work.reference(inputs)[0])


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_channels_of_pixels_are_written_whole(emulated: EmulatedDriver, channels: int, dtype: str) -> None:
    """Where the vectors lie at multiples of their width: 60 pixels of a row are no whole vectors of 16 bytes."""
    lanes = 4 if dtype == "float32" else 16
    for width in (64, 60):
        x = te.placeholder((3, width, channels), dtype, name="x")
        y = te.compute((3, width, channels), lambda i, j, c, x=x: x[i, j, channels - 1 - c], name="y")
        s = create_schedule(y)
        outer, lane = s[y].split("j", lanes)
        s[y].reorder("i", outer, "c", lane)
        s[y].vectorize(lane)
        s[y].unroll("c")
        s[y].bind("i", "blockIdx.x")
        s[y].bind(outer, "threadIdx.x")
        if width == 64:
            assert "y[" not in kernels(s, [x, y])
        check(s, [x, y])
