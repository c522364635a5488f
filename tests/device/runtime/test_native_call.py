"""Calls that stay in native code take what is like a call before, and leave everything else to Python's checks."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.building import build
from autosched.errors import BuildError
from autosched.ir.calls import call_packed
from autosched.ir.functions import register_func
from autosched.runtime import native_call as native
from autosched.runtime.function import CompiledFunction
from autosched.runtime.module import Module
from autosched.schedule.schedule import create_schedule

pytestmark = pytest.mark.skipif(not native.is_available(), reason="this Python's objects are laid out otherwise")


def sums(rows: int | None = 4, outputs: int = 1) -> Module:
    """x[rows, 6] and y[rows, 6] -> x + y (and x - y), through a buffer in the workspace."""
    n = te.var("n") if rows is None else rows
    x, y = te.placeholder((n, 6), name="x"), te.placeholder((n, 6), name="y")
    twice = te.compute((n, 6), lambda i, j: x[i, j] * 2.0, name="twice")
    total = te.compute((n, 6), lambda i, j: twice[i, 5 - j] + y[i, j], name="total")
    less = te.compute((n, 6), lambda i, j: x[i, j] - y[i, j], name="less")
    results = [total, less][:outputs]
    return build(create_schedule([r.op for r in results]), "llvm", args=[x, y, *results])


def arrays(rows: int = 4) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(rows * 6, dtype="float32").reshape(rows, 6)
    return x, np.ones_like(x)


def expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 2 * x[:, ::-1] + y


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts calls that went through Python's checks."""
    calls: list[int] = []
    checked = CompiledFunction._call_checked

    def counted(self: CompiledFunction, given: Any) -> Any:
        calls.append(1)
        return checked(self, given)

    monkeypatch.setattr(CompiledFunction, "_call_checked", counted)
    return calls


def test_the_second_call_does_without_python(slow: list[int]) -> None:
    module, (x, y) = sums(), arrays()
    out = np.zeros_like(x)
    for k in range(5):
        assert module(x + k, y, out) is out
        np.testing.assert_array_equal(out, expected(x + k, y))
    assert len(slow) == 1


def test_outputs_that_are_left_out_are_made_in_native_code(slow: list[int]) -> None:
    module, before = sums(rows=None, outputs=2), None
    for rows in range(1, 400):
        x, y = arrays(rows)
        total, less = module(x, y)
        assert (type(total), total.shape, total.dtype) == (np.ndarray, (rows, 6), np.dtype("float32"))
        assert total.flags.owndata and total.flags.writeable and total is not before
        np.testing.assert_array_equal(total, expected(x, y))
        np.testing.assert_array_equal(less, x - y)
        before = total
    assert len(slow) < 30  # the first, and those that found too little memory


def stencil() -> Module:
    """x[2*h + 1, w] -> sums of two rows [h // 2 + 1, w - 3], where h is at least 4."""
    h, w = te.var("h"), te.var("w")
    x = te.placeholder((2 * h + 1, w), name="x")
    out = te.compute((h // 2 + 1, w - 3), lambda i, j: x[i, j] + x[i + 1, j + 3], name="out")
    return build(create_schedule(out), "llvm", args=[x, out])


def test_sizes_are_solved_for_and_derived_lengths_checked(slow: list[int]) -> None:
    module = stencil()
    x = np.arange(9 * 7, dtype="float32").reshape(9, 7)
    module(x)
    slow.clear()
    for h, w in ((4, 7), (8, 4), (5, 30)):
        x = np.arange((2 * h + 1) * w, dtype="float32").reshape(2 * h + 1, w)
        n = h // 2 + 1
        wanted = x[:n, : w - 3] + x[1 : n + 1, 3:]
        np.testing.assert_array_equal(module(x), wanted)
        out = np.zeros_like(wanted)
        assert module(x, out) is out
        np.testing.assert_array_equal(out, wanted)
    assert not slow


@pytest.mark.parametrize(
    "shapes",
    [
        [(8, 7)],  # 2 h + 1 is odd
        [(0, 7)],
        [(9, 2)],  # w - 3 would be negative
        [(9, 3)],  # nothing to compute
        [(9, 7), (3, 5)],
        [(9, 7), (2, 4)],
        [(9, 7), (3, 4, 1)],
        [(9, 7), (12,)],
        [(9,)],
        [()],
        [(0, 2**40)],
        [(9, 0)],
    ],
)
def test_shapes_that_do_not_fit_end_as_they_do_in_a_first_call(shapes: list[tuple[int, ...]]) -> None:
    def outcome(module: Module) -> str:
        try:
            return repr(module(*[np.zeros(s, "float32") for s in shapes]))
        except BuildError as error:
            return str(error)

    used = stencil()
    used(np.zeros((9, 7), "float32"))
    assert outcome(used) == outcome(stencil())


def test_an_output_without_a_shape_is_refused_by_name() -> None:
    with pytest.raises(BuildError, match=r"argument 'out': dimension 1 would be w - 3 = -1, which is negative, with"):
        stencil()(np.zeros((9, 2), "float32"))


def test_what_a_schedule_requires_of_sizes_is_asked_of_every_call() -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="y")
    s = create_schedule(y)
    s[y].split(y.op.axis[0], factor=4, tail="round_up")
    module = build(s, "llvm", args=[x, y])
    assert module.signature.requires
    for _ in range(2):
        np.testing.assert_array_equal(module(np.ones(8, "float32")), np.full(8, 2))
        for wrong in (7, 9):
            with pytest.raises(BuildError, match="needed:"):
                module(np.ones(wrong, "float32"))


def test_arrays_without_dimensions(slow: list[int]) -> None:
    x = te.placeholder((), name="x")
    y = te.compute((), lambda: x() + 1.0, name="y")
    module = build(create_schedule(y), "llvm", args=[x, y])
    for k in range(3):
        made = module(np.array(k, "float32"))
        assert (type(made), made.shape, float(made)) == (np.ndarray, (), k + 1)
    assert len(slow) == 1


def test_memory_that_cannot_be_had_for_an_output_is_an_error_that_leaves_all_as_it_was() -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    pairs = te.compute((n, n), lambda i, j: x[i] * x[j], name="pairs")
    ends = te.compute((n,), lambda i: x[i] + 1.0, name="ends")
    module = build(create_schedule([ends.op, pairs.op]), "llvm", args=[x, ends, pairs])
    module(np.ones(4, "float32"))
    long = np.zeros(20_000_000, "float32")
    before = sys.getrefcount(long.dtype)
    for _ in range(3):
        with pytest.raises(MemoryError):
            module(long)
    assert sys.getrefcount(long.dtype) - before < 20
    np.testing.assert_array_equal(module(np.ones(2, "float32"))[1], np.ones((2, 2)))


def test_outputs_that_were_made_are_not_leaked(own_registries: None) -> None:
    def refuse(value: float) -> float:
        if value < 0:
            raise LookupError
        return value

    register_func("native.refuse", refuse)
    module, (x, _) = calling("native.refuse"), arrays()
    module(x)
    gc.collect()
    before = sys.getrefcount(x.dtype)
    for _ in range(300):
        module(x)
        with pytest.raises(LookupError):
            module(-1 - x)
    gc.collect()
    assert sys.getrefcount(x.dtype) - before < 20  # each array that lives on would hold its type


def test_a_tensor_of_torch_is_seen_through_its_own_view(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor:
        def __init__(self, array: np.ndarray, has_gradient: bool = False) -> None:
            self.array, self.has_gradient = array, has_gradient

        def numpy(self) -> np.ndarray:
            if self.has_gradient:
                raise RuntimeError("use tensor.detach().numpy()")
            return self.array

        def __dlpack__(self, **options: object) -> object:
            raise BufferError("it requires a gradient")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor))
    module, (x, y) = sums(), arrays()
    out = np.zeros_like(x)
    for _ in range(2):
        np.testing.assert_array_equal(module(Tensor(x), y), expected(x, y))
        assert module(Tensor(x), Tensor(y), Tensor(out)) is out
        np.testing.assert_array_equal(out, expected(x, y))
        with pytest.raises(BuildError, match="NumPy cannot see its memory: it requires a gradient"):
            module(Tensor(x, has_gradient=True), y)
        with pytest.raises(BuildError, match="'x'.*needs float32, got float64|needs float32, got float64"):
            module(Tensor(x.astype("float64")), y)


def test_several_outputs_come_as_a_tuple(slow: list[int]) -> None:
    module, (x, y) = sums(outputs=2), arrays()
    total, less = np.zeros_like(x), np.zeros_like(x)
    for _ in range(2):
        first, second = module(x, y, total, less)
        assert first is total
        assert second is less
    np.testing.assert_array_equal(less, x - y)
    assert len(slow) == 1


def test_sizes_take_turns(slow: list[int]) -> None:
    module = sums(rows=None)
    for _ in range(3):
        for rows in range(1, 10):
            x, y = arrays(rows)
            np.testing.assert_array_equal(module(x, y, np.zeros_like(x)), expected(x, y))
    slow.clear()
    x, y = arrays(9)
    module(x, y, np.zeros_like(x))
    assert not slow


def test_shapes_that_others_have_pushed_out_come_back(slow: list[int]) -> None:
    module = sums(rows=None)
    given = {rows: (*arrays(rows), np.zeros((rows, 6), "float32")) for rows in range(1, 10)}
    for rows in (*given, 2, 2):
        module(*given[rows])
    slow.clear()
    for rows in (2, 9, 2):
        np.testing.assert_array_equal(module(*given[rows]), expected(*given[rows][:2]))
    assert not slow


def read_only(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


def misplaced(a: np.ndarray) -> np.ndarray:
    """The same, one byte off."""
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
    moved = np.ndarray(a.shape, a.dtype, raw)
    moved[...] = a
    return moved


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, y, out: (x.astype("float64"), y, out),
        lambda x, y, out: (x.astype(">f4"), y, out),
        lambda x, y, out: (x.astype("int32"), y, out),
        lambda x, y, out: (x[:3], y, out),
        lambda x, y, out: (x.ravel(), y, out),
        lambda x, y, out: (np.asfortranarray(x), y, out),
        lambda x, y, out: (misplaced(x), y, out),
        lambda x, y, out: (x, y, read_only(out)),
        lambda x, y, out: (x, y, x),
        lambda x, y, out: (out, y, out),
        lambda x, y, out: (x, y),
        lambda x, y, out: (x,),
        lambda x, y, out: (x, y, out, out),
        lambda x, y, out: (),
        lambda x, y, out: (x, y, None),
        lambda x, y, out: (x.tolist(), y, out),
        lambda x, y, out: (1.0, y, out),
    ],
)
def test_what_is_not_like_before_ends_as_it_does_in_a_first_call(wrong: Callable[..., Any]) -> None:
    def outcome(module: Module) -> str:
        x, y = arrays()
        try:
            return repr(module(*wrong(x, y, np.zeros_like(x))))
        except BuildError as error:
            return str(error)

    used, (x, y) = sums(), arrays()
    used(x, y, np.zeros_like(x))
    assert outcome(used) == outcome(sums())


def test_an_alignment_that_was_asked_for_is_asked_of_every_call() -> None:
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i] + 1.0, name="y")
    bound = {x: te.decl_buffer((16,), name="x", data_alignment=64)}
    module = build(create_schedule(y), "llvm", args=[x, y], binds=bound)
    memory = np.zeros(64, "float32")
    at = -memory.ctypes.data % 64 // 4
    out = np.zeros(16, "float32")
    for _ in range(2):
        np.testing.assert_array_equal(module(memory[at : at + 16], out), np.ones(16))
    with pytest.raises(BuildError, match="not aligned to 64 bytes"):
        module(memory[at + 4 : at + 20], out)


def test_outputs_that_overlap_in_part_are_refused() -> None:
    module, memory = sums(), np.zeros(60, "float32")
    out = memory[:24].reshape(4, 6)
    module(*arrays(), out)
    for begin in (6, 18, 23):
        with pytest.raises(BuildError, match="shares memory|overlap"):
            module(memory[begin : begin + 24].reshape(4, 6), arrays()[1], out)
    beside = memory[24:48].reshape(4, 6)
    np.testing.assert_array_equal(module(beside, arrays()[1], out), expected(beside, arrays()[1]))


def test_subclasses_of_arrays_go_the_other_way(slow: list[int]) -> None:
    class Mine(np.ndarray):
        pass

    module, (x, y) = sums(), arrays()
    out = np.zeros_like(x)
    module(x, y, out)
    np.testing.assert_array_equal(module(x.view(Mine), y, out), expected(x, y))
    assert len(slow) > 1


def test_arrays_and_numbers_are_not_leaked() -> None:
    module, (x, y) = sums(), arrays()
    out, wrong = np.zeros_like(x), x.astype("float64")
    module(x, y, out)
    before = [sys.getrefcount(o) for o in (x, y, out, wrong, np.ndarray, x.dtype)]
    for _ in range(1000):
        module(x, y, out)
        with pytest.raises(BuildError):
            module(wrong, y, out)
    after = [sys.getrefcount(o) for o in (x, y, out, wrong, np.ndarray, x.dtype)]
    assert max(b - a for a, b in zip(before, after, strict=True)) < 20


def calling(name: str) -> Module:
    n = te.var("n")
    x = te.placeholder((n, 6), name="x")
    before = te.compute((n, 6), lambda i, j: x[i, j] * 3.0, name="before")
    out = te.compute((n, 6), lambda i, j: call_packed(name, before[i, 5 - j], dtype="float32"), name="out")
    return build(create_schedule(out), "llvm", args=[x, out])


def test_an_exception_of_a_call_back_arrives_every_time(own_registries: None, slow: list[int]) -> None:
    def refuse(value: float) -> float:
        if value < 0:
            raise LookupError(f"no {value}")
        return value

    register_func("native.refuse", refuse)
    module, (x, _) = calling("native.refuse"), arrays()
    out = np.zeros_like(x)
    for _ in range(3):
        np.testing.assert_array_equal(module(x, out), 3 * x[:, ::-1])
        with pytest.raises(LookupError, match="no -"):
            module(-1 - x, out)
    assert len(slow) == 1


def test_a_call_back_that_calls_a_module_does_not_use_its_workspace(own_registries: None, slow: list[int]) -> None:
    inner, (x, y) = sums(rows=None), arrays()
    inside = np.zeros_like(x)

    def nested(value: float) -> float:
        inner(x, y, inside)
        return value

    register_func("native.nested", nested)
    outer, out = calling("native.nested"), np.zeros_like(x)
    inner(x, y, inside)
    for _ in range(2):
        slow.clear()
        np.testing.assert_array_equal(outer(x, out), 3 * x[:, ::-1])
        np.testing.assert_array_equal(inside, expected(x, y))
    assert len(slow) == x.size  # the inner calls found the scratch memory taken


def test_what_found_the_workspace_taken_and_too_small_has_it_later(own_registries: None, slow: list[int]) -> None:
    inner, rows = sums(rows=None), 1_000_000
    x, y = arrays(rows)
    inside = np.zeros_like(x)

    def nested(value: float) -> float:
        if not inside.any():
            inner(x, y, inside)
        return value

    register_func("native.first", nested)
    calling("native.first")(x[:1], np.zeros_like(x[:1]))
    for _ in range(3):
        slow.clear()
        np.testing.assert_array_equal(inner(x, y, inside), expected(x, y))
    assert not slow


def test_threads_do_not_disturb_each_other() -> None:
    module = sums(rows=None)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for k in range(200):
            x, y = arrays(50 + seed)
            out = np.zeros_like(x)
            module(x + k, y, out)
            if not np.array_equal(out, expected(x + k, y)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_interpreter_is_free_while_the_kernel_runs(own_registries: None) -> None:
    others: list[int] = []

    def wait_for_another_thread(value: float) -> float:
        thread = threading.Thread(target=lambda: others.append(1))
        thread.start()
        thread.join()
        return value

    register_func("native.wait", wait_for_another_thread)
    module, (x, _) = calling("native.wait"), arrays()
    out = np.zeros_like(x)
    module(x, out)
    module(x, out)
    assert len(others) == 2 * x.size


def test_a_larger_workspace_is_had_by_the_next_call(slow: list[int]) -> None:
    module = sums(rows=None)
    for rows in (4, 4000, 400_000):
        x, y = arrays(rows)
        out = np.zeros_like(x)
        module(x, y, out)
        slow.clear()
        np.testing.assert_array_equal(module(x, y, out), expected(x, y))
        assert not slow


def test_memory_that_is_exchanged_is_nobodys_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    scratch, seen = native.Scratch(), []

    class Slow(np.ndarray):
        """Other threads run whenever something is asked of it."""

        @property
        def ctypes(self) -> Any:
            if not seen:
                seen.append(0)
                scratch.reserve(5000)
                seen.append(scratch._state[1])
            return super().ctypes

    monkeypatch.setattr(native.np, "empty", lambda n, of: np.zeros(n, of).view(Slow))
    scratch.reserve(1000)
    assert seen == [0, 0]
    _, size, address = scratch._state
    assert scratch._memory is not None
    begin = scratch._memory.__array_interface__["data"][0]
    assert size == 1000
    assert begin <= address <= address + size <= begin + scratch._memory.nbytes


def test_memory_in_use_is_kept() -> None:
    scratch = native.Scratch()
    scratch.reserve(1000)
    before, memory = list(scratch._state), scratch._memory
    scratch._state[0] = 1
    scratch.reserve(2000)
    assert scratch._memory is memory
    assert scratch._state[1:] == before[1:]
    scratch._state[0] = 0
    scratch.reserve(2000)
    assert scratch._state[1] == 2000


def test_a_workspace_that_cannot_be_had_is_told_of_by_name() -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    pairs = te.compute((n, n), lambda i, j: x[i] * x[j], name="pairs")
    k = te.reduce_axis((0, n), "k")
    out = te.compute((n,), lambda i: te.sum(pairs[k, i] + pairs[i, k], axis=k), name="out")
    module = build(create_schedule(out), "llvm", args=[x, out])
    long = np.zeros(100_000_000, np.float32)
    for _ in range(2):
        with pytest.raises(MemoryError, match="out needs a workspace of 40,000,000,000,000,000 bytes"):
            module(long, np.empty_like(long))
    np.testing.assert_array_equal(module(np.ones(9, np.float32), np.zeros(9, np.float32)), np.full(9, 18))


def test_where_objects_are_laid_out_otherwise_python_does_it(monkeypatch: pytest.MonkeyPatch, slow: list[int]) -> None:
    monkeypatch.setattr(native, "_DATA", native._SHAPE)
    native.is_available.cache_clear()
    try:
        assert not native.is_available()
        module, (x, y) = sums(), arrays()
        for _ in range(3):
            np.testing.assert_array_equal(module(x, y, np.zeros_like(x)), expected(x, y))
        assert len(slow) == 3
    finally:
        monkeypatch.undo()
        native.is_available.cache_clear()


def test_kernels_made_by_a_c_compiler_are_called_alike(slow: list[int]) -> None:
    x = te.placeholder((4, 6), name="x")
    y = te.compute((4, 6), lambda i, j: x[i, j] + 1.0, name="y")
    module = build(create_schedule(y), "c", args=[x, y])
    given, _ = arrays()
    for _ in range(3):
        np.testing.assert_array_equal(module(given, np.zeros_like(given)), given + 1)
    assert len(slow) == 1


def test_calls_with_many_arguments_are_left_to_python() -> None:
    """LLVM takes seconds for the checks of a hundred arrays."""
    a = [te.placeholder((8,), name=f"a{k}") for k in range(40)]
    doubled = [te.compute((8,), lambda i, x=x: x[i] * 2.0, name=f"b{k}") for k, x in enumerate(a)]
    f = build(create_schedule(doubled), "llvm", args=[*a, *doubled])
    inputs = [np.full(8, k, np.float32) for k in range(40)]
    compiled = native._compiled.cache_info().misses
    assert all(np.array_equal(y, x * 2) for x, y in zip(inputs, f(*inputs), strict=True))
    assert native._compiled.cache_info().misses == compiled
