"""`decl_buffer` and `binds`: tensors that lie in memory as somebody else decided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import without_line

from autosched import build, te
from autosched.errors import BuildError, LowerError, UsageError
from autosched.lowering import lower, lower_structure
from autosched.runtime.interpreter import interpret
from autosched.runtime.module import Module
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor


def box_blur() -> tuple[Schedule, Tensor, Tensor, Tensor, Any]:
    """The program of seed 002."""
    rows, cols, chans = te.size_var("rows"), te.size_var("cols"), te.size_var("chans")
    source = te.placeholder((rows, cols, chans), name="input")
    padded = te.compute(
        (rows + 2, cols + 2, chans),
        lambda y, x, c: source[te.max(te.min(y - 1, rows - 1), 0), te.max(te.min(x - 1, cols - 1), 0), c].astype(
            "uint16"
        ),
        name="padded",
    )
    x_blur = te.compute(
        (rows + 2, cols, chans),
        lambda y, x, c: (padded[y, x, c] + padded[y, x + 1, c] + padded[y, x + 2, c]) // 3,
        name="x_blur",
    )
    y_blur = te.compute(
        (rows, cols, chans),
        lambda y, x, c: (x_blur[y, x, c] + x_blur[y + 1, x, c] + x_blur[y + 2, x, c]) // 3,
        name="y_blur",
    )
    out = te.compute((rows, cols, chans), lambda y, x, c: y_blur[y, x, c].astype("uint8"), name="box_blur")
    s = create_schedule(out)
    s[padded].compute_inline()
    s[y_blur].compute_inline()
    return s, source, x_blur, out, rows


def transposed(x_blur: Tensor, rows: Any, **options: Any) -> Any:
    """y is the most rapidly changing dimension, then c, then x."""
    strides = [1, (rows + 2) * 3, rows + 2]
    return te.decl_buffer(x_blur.shape, x_blur.dtype, "x_blur", strides=strides, **options)


IMAGE = np.random.default_rng(0).integers(0, 255, (7, 9, 3)).astype("float32")


@pytest.mark.parametrize("at", ["root", "y", "x"])
def test_the_layout_of_an_intermediate(at: str, golden: Callable[..., None]) -> None:
    """Seed 002: x_blur is stored transposed and computed in order; nothing else changes."""
    s, source, x_blur, out, rows = box_blur()
    if at != "root":
        s[x_blur].compute_at(s[out], at)
    bound = {x_blur: transposed(x_blur, rows, scope="local")}
    golden(str(lower(s, [source, out], binds=bound)), f"x_blur_at_{at}")
    expected = build(s, args=[source, out])(IMAGE)
    np.testing.assert_array_equal(build(s, args=[source, out], binds=bound)(IMAGE), expected)
    result = np.empty_like(expected)
    interpret(lower_structure(s, [source, out], "llvm", binds=bound).bind(), [IMAGE, result])
    np.testing.assert_array_equal(result, expected)


def test_strides_that_meet_for_some_sizes_are_refused_then() -> None:
    s, source, x_blur, out, rows = box_blur()
    module = build(s, args=[source, out], binds={x_blur: transposed(x_blur, rows)})
    module(IMAGE)
    with pytest.raises(BuildError) as error:
        module(np.zeros((7, 9, 4), "float32"))
    assert "must not overlap" in error.value.why
    assert error.value.asked == "box_blur with chans = 4, rows = 7"


def doubled(dtype: str = "float32") -> tuple[list[Tensor], Any, Any]:
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), dtype=dtype, name="A")
    return [a, te.compute((n, m), lambda i, j: a[i, j] * 2, name="B")], n, m


def schedule(args: list[Tensor], target: str) -> Schedule:
    s = create_schedule(args)
    b = s[args[-1]]
    if target == "opencl":
        b.bind(b.loops[0], "blockIdx.x")
        b.bind(b.loops[1], "threadIdx.x")
    else:
        _, inner = b.split(b.loops[1], factor=4)
        b.vectorize(inner)
    return s


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "whole": lambda x: x,
    "rows apart": lambda x: x[:, :5],
    "every other row": lambda x: x[1::2],
    "every other column": lambda x: x[:, 1::2],
    "transposed": lambda x: x.T,
    "one row": lambda x: x[3:4, ::3],
    "one column": lambda x: x[:, 2:3],
    "nothing": lambda x: x[:0],
}


@pytest.mark.parametrize("backend", ["llvm", "opencl", "interpreter"])
def test_strided_arguments(backend: str) -> None:
    """Strides are read off the arrays; what lies between the elements of an output stays."""
    args, n, m = doubled()
    bound = {
        t: te.decl_buffer((n, m), t.dtype, t.name, strides=[te.var(f"{t.name}0"), te.var(f"{t.name}1")]) for t in args
    }
    target = backend if backend == "opencl" else "llvm"
    s = schedule(args, target)
    module = build(s, target, args=args, binds=bound) if backend != "interpreter" else None
    function = lower_structure(s, args, target, binds=bound).bind()
    for view in VIEWS.values():
        base = np.arange(80, dtype="float32").reshape(8, 10)
        result = np.full((8, 10), -1, "float32")
        given, wanted = view(base), result.copy()
        view(wanted)[...] = given * 2
        if module is not None:
            module(given, view(result))
        else:
            interpret(function, [given, view(result)])
        np.testing.assert_array_equal(result, wanted)


def test_a_strided_view_of_another_array_does_for_input_only() -> None:
    args, n, m = doubled()
    rows = te.decl_buffer((n, m), name="A", strides=[te.var("row"), 1])
    module = build(schedule(args, "llvm"), args=args, binds={args[0]: rows})
    base = np.arange(40, dtype="float32").reshape(4, 10)
    np.testing.assert_array_equal(module(base[:, 2:6]), base[:, 2:6] * 2)
    np.testing.assert_array_equal(module(base), base * 2)
    same = np.lib.stride_tricks.as_strided(base, (3, 4), (0, 4))
    np.testing.assert_array_equal(module(same), same * 2)
    with pytest.raises(BuildError, match="stride of dimension 1 is 2 elements and should be 1"):
        module(base[:, ::2])
    with pytest.raises(BuildError, match="negative"):
        module(base[::-1])
    with pytest.raises(BuildError, match="is not C-contiguous"):
        module(base, np.empty((4, 20), "float32")[:, ::2])


def test_outputs_that_meet_themselves_or_others() -> None:
    args, n, m = doubled()
    bound = {t: te.decl_buffer((n, m), name=t.name, strides=[te.var(f"{t.name}0"), te.var(f"{t.name}1")]) for t in args}
    module = build(schedule(args, "llvm"), args=args, binds=bound)
    base = np.arange(40, dtype="float32").reshape(4, 10)
    with pytest.raises(BuildError, match="elements share memory"):
        module(base[:3, :4], np.lib.stride_tricks.as_strided(np.zeros(9, "float32"), (3, 4), (4, 4)))
    with pytest.raises(BuildError, match="shares memory with argument 'A'"):
        module(base[:, :4], base[:, 3:7])
    wanted = base[:, :4] * 2
    module(base[:, :4], base[:, 4:8])  # neighbours in the same rows
    np.testing.assert_array_equal(base[:, 4:8], wanted)


def test_constant_strides_are_allocated_and_saved(tmp_path: Path) -> None:
    args, n, m = doubled()
    bound = {args[1]: te.decl_buffer((n, m), name="B", strides=[1, n])}
    module = build(schedule(args, "llvm"), args=args, binds=bound)
    assert str(module.signature) == "B(A: float32[n, m], B: float32[n, m] strides [1, n])"
    base = np.arange(12, dtype="float32").reshape(3, 4)
    module.save(tmp_path / "columns.module")
    for each in (module, Module.load(tmp_path / "columns.module")):
        for _ in range(2):
            result = each(base)
            assert result.strides == (4, 12)
            np.testing.assert_array_equal(result, base * 2)


@pytest.mark.parametrize("backend", ["llvm", "opencl", "interpreter"])
def test_an_input_is_broadcast(backend: str) -> None:
    n, m = te.size_var("n"), te.size_var("m")
    a, b = te.placeholder((n, m), name="A"), te.placeholder((n, m), name="B")
    args = [a, b, te.compute((n, m), lambda i, j: a[i, j] - b[i, j], name="C")]
    bound = {t: te.decl_buffer((n, m), name=t.name, buffer_type="auto_broadcast") for t in (a, b)}
    target = backend if backend == "opencl" else "llvm"
    s = schedule(args, target)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    for other in (x * 3, x[:1] * 3, x[:, :1] * 3, x[:1, :1]):
        for left, right in ((x, other), (other, x)):
            if backend == "interpreter":
                result = np.empty((3, 4), "float32")
                interpret(lower_structure(s, args, target, binds=bound).bind(), [left, right, result])
            else:
                result = build(s, target, args=args, binds=bound)(left, right)
            np.testing.assert_array_equal(result, left - right)


def test_the_address_is_checked() -> None:
    args, n, m = doubled()
    bound = {args[0]: te.decl_buffer((n, m), name="A", data_alignment=64)}
    module = build(schedule(args, "llvm"), args=args, binds=bound)
    memory = np.zeros(64, "float32")
    first = (-memory.ctypes.data // 4) % 16
    module(memory[first : first + 8].reshape(2, 4))
    with pytest.raises(BuildError, match="not aligned to 64 bytes"):
        module(memory[first + 1 : first + 9].reshape(2, 4))


def wrong_binds() -> dict[str, Callable[[], Any]]:
    args, n, m = doubled()
    a, b = args
    c = te.compute((n, m), lambda i, j: b[i, j] + 1, name="C")
    stranger = te.placeholder((3,), name="X")

    def bound(t: Tensor, inline: bool = False, **options: Any) -> Callable[[], Any]:
        def run() -> Any:
            s = create_schedule(c)
            if inline:
                s[b].compute_inline()
            options.setdefault("shape", t.shape)
            return lower(s, [a, c], binds={t: te.decl_buffer(name=t.name, **options)})

        return run

    return {
        "another shape": bound(b, shape=(m, n)),
        "another type": bound(b, dtype="int32"),
        "elements that overlap": bound(b, strides=[1, 1]),
        "rows that overlap": bound(c, strides=[0, 1]),
        "a negative stride": bound(a, strides=[m, -1]),
        "no memory": bound(b, inline=True),
        "an argument in local memory": bound(c, scope="local"),
        "an offset": bound(a, elem_offset=4),
        "broadcasting what is written": bound(c, buffer_type="auto_broadcast"),
        "a tensor of another program": bound(stranger),
        "no buffer": lambda: lower(create_schedule(c), [a, c], binds={b: "float32"}),  # type: ignore[dict-item]
        "an alignment that no memory has": bound(b, data_alignment=4096),
    }


def test_what_is_refused(golden: Callable[..., None]) -> None:
    texts = []
    for name, case in wrong_binds().items():
        with pytest.raises(LowerError) as error:
            case()
        assert error.value.legal
        texts.append(f"-- {name}\n{without_line(error.value)}\n")
    golden("\n".join(texts), "errors")


def test_no_two_of_no_elements_overlap() -> None:
    a = te.placeholder((4, 0), name="A")
    b = te.compute((4, 0), lambda i, j: a[i, j], name="B")
    lower(create_schedule(b), [a, b], binds={b: te.decl_buffer((4, 0), name="B", strides=[1, 0])})


def test_an_intermediate_without_elements_takes_no_memory() -> None:
    a = te.placeholder((0, 4), name="A")
    b = te.compute((0, 4), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((0, 4), lambda i, j: b[i, j] * 2, name="C")
    rows = te.decl_buffer((0, 4), name="B", strides=[7, 1])
    built = build(create_schedule(c), args=[a, c], target="llvm", binds={b: rows})
    built(np.empty((0, 4), "float32"), np.empty((0, 4), "float32"))


@pytest.mark.parametrize(
    "options", [{"strides": [1]}, {"strides": [1, 0.5]}, {"buffer_type": "odd"}, {"data_alignment": 48}]
)
def test_what_is_no_buffer(options: Any) -> None:
    with pytest.raises(UsageError) as error:
        te.decl_buffer((4, 4), **options)
    assert error.value.legal


def computed_together() -> tuple[Schedule, list[Tensor]]:
    """Two intermediates as results of one stage, and their difference."""
    a = te.placeholder((5, 11), name="a")
    x = te.compute((5, 11), lambda i, j: a[i, j] * 2.0, name="x")
    y = te.compute((5, 11), lambda i, j: a[i, j] + 1.0, name="y")
    z = te.compute((5, 11), lambda i, j: x[i, j] - y[i, j], name="z")
    s = create_schedule(z)
    s.compute_together(x, [y])
    return s, [a, x, y, z]


def test_handles_of_tensors_that_are_computed_together_mean_what_they_meant() -> None:
    s, (a, x, y, z) = computed_together()
    data = np.arange(55, dtype="float32").reshape(5, 11)
    f = build(s, "llvm", args=[a, y, z], binds={y: te.decl_buffer((5, 11), "float32", "y", strides=[1, 5])})
    found, out = np.zeros((11, 5), "float32").T, np.zeros((5, 11), "float32")
    f(data, found, out)
    np.testing.assert_array_equal(found, data + 1)
    np.testing.assert_array_equal(out, data - 1)
    results = build(s, "llvm", args=[a, x, y, z])(data)
    for found, wanted in zip(results, (data * 2, data + 1, data - 1), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("handle", ["y", 2], ids=["by name", "by tensor"])
def test_a_copy_of_one_of_them_is_of_that_one(handle: str | int) -> None:
    s, args = computed_together()
    copy = s.cache_read(args[handle] if isinstance(handle, int) else handle, "local", args[-1])
    assert copy.name == "y.local"
    data = np.arange(55, dtype="float32").reshape(5, 11)
    np.testing.assert_array_equal(build(s, "llvm", args=[args[0], args[-1]])(data), data - 1)
