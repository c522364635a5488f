"""Sums of products of bytes: sketches that add up four at a time, with the signs that the machine's instruction takes."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.codegen import compile_function
from autosched.ir.stmt import Store, walk
from autosched.ir.visit import post_order
from autosched.model import prior_for
from autosched.runtime.module import Module
from autosched.search.predicted import look_ahead
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te import Tensor

LIMITS = {"vector_bytes": 64, "vector_registers": 32, "l1_bytes": 32 << 10, "l2_bytes": 1 << 20, "l3_bytes": 8 << 20}
MIXED = Target.parse("llvm -threads=2").with_limits(**LIMITS, mixed_bytes=1)
C = Target.parse("c -threads=2").with_limits(**LIMITS)
PLAIN = Target.parse("llvm -threads=2").with_limits(**LIMITS)


def product(left: str, right: str, n: int = 24, m: int = 40, length: int = 64, rows: bool = False) -> list[Tensor]:
    """C = A @ B, or A @ B.T with `rows`."""
    a, b = te.placeholder((n, length), left, "A"), te.placeholder((m, length) if rows else (length, m), right, "B")
    k = te.reduce_axis((0, length), "k")
    body = lambda i, j: te.sum(a[i, k].astype("int32") * b[(j, k) if rows else (k, j)].astype("int32"), axis=k)  # noqa: E731
    return [a, b, te.compute((n, m), body, "C")]


def batched(left: str, right: str) -> list[Tensor]:
    a, b = te.placeholder((3, 26, 20), left, "A"), te.placeholder((3, 20, 24), right, "B")
    k = te.reduce_axis((0, 20), "k")
    body = lambda n, i, j: te.sum(a[n, i, k].astype("int32") * b[n, k, j].astype("int32"), axis=k)  # noqa: E731
    return [a, b, te.compute((3, 26, 24), body, "C")]


def convolution(left: str, right: str) -> list[Tensor]:
    """Channels last, 3 x 3."""
    x, w = te.placeholder((1, 9, 9, 16), left, "X"), te.placeholder((3, 3, 16, 32), right, "W")
    r, q, c = (te.reduce_axis((0, n), name) for n, name in ((3, "r"), (3, "q"), (16, "c")))
    body = lambda n, y, z, f: te.sum(  # noqa: E731
        x[n, y + r, z + q, c].astype("int32") * w[r, q, c, f].astype("int32"), axis=[r, q, c]
    )
    return [x, w, te.compute((1, 7, 7, 32), body, "C")]


def product_of_floats(n: int) -> list[Tensor]:
    a, b = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")]


def columns(left: str, right: str) -> list[Tensor]:
    """A.T @ B."""
    a, b = te.placeholder((40, 32), left, "A"), te.placeholder((40, 48), right, "B")
    k = te.reduce_axis((0, 40), "k")
    body = lambda i, j: te.sum(a[k, i].astype("int32") * b[k, j].astype("int32"), axis=k)  # noqa: E731
    return [a, b, te.compute((32, 48), body, "C")]


PROGRAMS = {
    "columns": columns,
    "whole": product,
    "rows": lambda a, b: product(a, b, rows=True),
    "tails": lambda a, b: product(a, b, 29, 37, 43),
    "tails_of_rows": lambda a, b: product(a, b, 29, 37, 43, rows=True),
    "batched": batched,
    "convolution": convolution,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"), ("int8", "uint8")])
def test_sketches_compute_what_the_definition_says(name: str, types: tuple[str, str]) -> None:
    """For a machine that multiplies unsigned by signed bytes, one operand becomes what is missing."""
    args = PROGRAMS[name](*types)
    w, rng = Workload("w", args), np.random.default_rng(1)
    shapes = [[int(d.value) for d in t.shape] for t in args[:2]]
    ranges = [np.iinfo(t) for t in types]
    inputs = [rng.choice([x.min, x.max, 1, 77], n).astype(x.dtype) for x, n in zip(ranges, shapes, strict=True)]
    (wanted,) = w.reference(inputs)
    for target, is_mixed in ((MIXED, True), (PLAIN, False)):
        found = [x for x in w.search_space(target, {}).sketches if x.name != "default"]
        for sketch in rng.permutation(np.array(found, object))[:2]:
            calls = [i[0] for i in sketch.trace]
            assert ("offset_bytes" in calls) == (is_mixed and types[0] == types[1])
            points = sketch.valid_points
            knobs = sketch.values(points.rows([int(rng.integers(points.count))])[0])
            f = sketch.structure.bind(knobs)
            assert any(e.op == "dot" for s in walk(f.body) if isinstance(s, Store) for e in post_order(s.value))
            np.testing.assert_array_equal(Module(compile_function(f, target), target)(*inputs), wanted)


def test_what_has_no_four_steps_side_by_side() -> None:
    """Other types, other targets, and a product of a matrix with itself."""
    a = te.placeholder((32, 64), "int8", "A")
    k = te.reduce_axis((0, 64), "k")
    itself = te.compute((32, 32), lambda i, j: te.sum(a[i, k].astype("int32") * a[j, k].astype("int32"), axis=k))
    for args, target in (([a, itself], MIXED), (product("int16", "int16"), MIXED), (product("int8", "int8"), C)):
        for sketch in Workload("w", args).search_space(target, {}).sketches:
            assert not any(i[0] == "offset_bytes" for i in sketch.trace)
            assert not any(i[0] == "split" and i[-1] == {"factor": 4} and i[2] == "k.c" for i in sketch.trace)


def test_pairs_of_bfloat16_where_there_is_an_instruction() -> None:
    a, b = te.placeholder((24, 64), "bfloat16", "A"), te.placeholder((64, 40), "bfloat16", "B")
    k = te.reduce_axis((0, 64), "k")
    body = lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k)  # noqa: E731
    w = Workload("w", [a, b, te.compute((24, 40), body, "C")])
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=shape).astype("bfloat16") for shape in ((24, 64), (64, 40))]
    wanted = inputs[0].astype("float64") @ inputs[1].astype("float64")
    bfloats = PLAIN.with_limits(bfloat_pairs=1)
    for target, pairs in ((bfloats, True), (PLAIN, False), (bfloats.as_strict(), False)):
        sketch = w.search_space(target, {}).sketches[0]
        points = sketch.valid_points
        f = sketch.structure.bind(sketch.values(points.rows([int(rng.integers(points.count))])[0]))
        found = any(e.op == "dot" for s in walk(f.body) if isinstance(s, Store) for e in post_order(s.value))
        assert found == pairs
        np.testing.assert_allclose(Module(compile_function(f, target), target)(*inputs), wanted, atol=1e-4)


def test_the_model_takes_four_products_for_one() -> None:
    """With no trial, bytes are predicted to be faster than floats."""
    times = []
    for of in ("int8", "float32"):
        args = product(of, of, 256, 256, 256) if of == "int8" else product_of_floats(256)
        space = Workload("w", args).search_space(MIXED, {})
        model = prior_for(space.feature_names, is_gpu_style=False, units=2, limits=MIXED.limits)
        assert model is not None
        times.append(look_ahead(space, model.seconds, sketches=2).choices[0].seconds)
    assert times[0] < 0.5 * times[1]


def halves(n: int = 29, m: int = 37, length: int = 43) -> list[Tensor]:
    """C = A @ B of float16, added up in float32."""
    a, b = te.placeholder((n, length), "float16", "A"), te.placeholder((length, m), "float16", "B")
    k = te.reduce_axis((0, length), "k")
    body = lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k)  # noqa: E731
    return [a, b, te.compute((n, m), body, "C")]


def distances(n: int = 29, m: int = 37, length: int = 43) -> list[Tensor]:
    """The squared distance of each row of A from each row of B, with the differences in a stage of their own."""
    a, b = te.placeholder((n, length), name="A"), te.placeholder((m, length), name="B")
    k = te.reduce_axis((0, length), "k")
    between = te.compute((n, m, length), lambda i, j, d: a[i, d] - b[j, d], "D")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(between[i, j, k] * between[i, j, k], axis=k), "C")]


def spread(c: int = 5, o: int = 32, size: int = 28) -> list[Tensor]:
    """A transposed convolution with a window of 4 x 4, two further on for each pixel."""
    x, w = te.placeholder((c, size, size), name="X"), te.placeholder((c, o, 4, 4), name="W")
    p = te.constant_exterior(x, 0.0, axes=(1, 2))
    q, ky, kx = (te.reduce_axis((0, n), name) for n, name in ((c, "q"), (4, "ky"), (4, "kx")))
    body = lambda f, i, j: te.sum(  # noqa: E731
        p[q, (i + 1 - ky) // 2, (j + 1 - kx) // 2] * w[q, f, ky, kx],
        axis=[q, ky, kx],
        where=te.all((i + 1 - ky) % 2 == 0, (j + 1 - kx) % 2 == 0),
    )
    return [x, w, te.compute((o, 2 * size, 2 * size), body, "C")]


@pytest.mark.parametrize("program", [halves, distances, spread])
def test_packed_operands_are_converted_and_found_behind_terms_and_phases(program) -> None:  # type: ignore[no-untyped-def]
    """Every sketch computes what the definition says; those with packed operands are among them."""
    w, rng = Workload("w", program()), np.random.default_rng(5)
    inputs = [x.astype(str(t.dtype)) for x, t in zip(w.sample_inputs(None), w.args[:2], strict=True)]
    (wanted,) = w.reference(inputs)
    sketches = [x for x in w.search_space(PLAIN, {}).sketches if x.name != "default"]
    packed = {halves: "pack_A=True, C_pack_B=True", distances: "pack_A=True", spread: "tile=j.outer.c_f.c"}[program]
    assert any(packed in x.name for x in sketches)
    some = [x for x in sketches if packed in x.name][:2]
    for sketch in [*some, *rng.permutation(np.array(sketches, object))[:3]]:
        points = sketch.valid_points
        knobs = sketch.values(points.rows([int(rng.integers(points.count))])[0])
        f = sketch.structure.bind(knobs)
        found = Module(compile_function(f, PLAIN), PLAIN)(*inputs)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=f"{sketch.name} {knobs}")


def test_halves_are_widened_once() -> None:
    """In the sketch that packs both operands nothing is cast where products are added up."""
    found = [x for x in Workload("w", halves()).search_space(PLAIN, {}).sketches if "pack_A=True" in x.name]
    sketch = next(x for x in found if "pack_B=True" in x.name)
    s = sketch.schedule()
    assert not any(e.op == "cast" for e in post_order(s["C.local"].body))
    assert sum(i[0] == "cache_read" and i[-1] == {"cast": True} for i in sketch.trace) == 2


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_packing_of_columns_is_short_in_kernels(dtype: str) -> None:
    """Only where a square of lanes is small is it written out: compilers take minutes for 64 x 64 loads."""
    a, b = (te.placeholder((96, 192), dtype, x) for x in "AB")
    k = te.reduce_axis((0, 192), "k")
    w = Workload("w", (a, b, te.compute((96, 96), lambda i, j: te.max(a[i, k] - b[j, k], axis=k), "C")))
    kernels = Target.parse("opencl").with_limits(**LIMITS, is_cpu=1, max_threads_per_block=4096)
    sketches = [x for x in w.search_space(kernels, {}).sketches if "pack_A=False" in x.name]
    assert sketches
    for sketch in sketches:
        rows = sketch.valid_points.rows(range(sketch.valid_points.count))
        widest = max((sketch.values(row) for row in rows), key=lambda knobs: knobs.get("C_lanes", 0))
        body = sketch.structure.bind(widest).body
        loads = [e for s in walk(body) if isinstance(s, Store) for e in post_order(s.value) if e.op == "load"]
        assert sum(e.dtype.lanes for e in loads if e.value.name == "B") <= 1024
