"""`Module`: calling compiled code with arrays, and every way to call it wrongly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.codegen import compile_function
from autosched.errors import BuildError, UsageError
from autosched.ir.dtype import dtype
from autosched.ir.expr import const, var
from autosched.ir.stmt import Buffer, For, Function, Seq, Store, load
from autosched.runtime.jit import Arena
from autosched.runtime.module import Module
from autosched.target import Target

TARGET = Target.parse("llvm -threads=1")


def stencil() -> Function:
    """total = a[1:, 1:] + b, twice = 2 * b; the first output stands before the last input."""
    h, w = var("height", role="size"), var("width", role="size")
    f32 = dtype("float32")
    a, b = Buffer("a", (h + 1, w + 1), f32), Buffer("b", (h, w), f32)
    total, twice = Buffer("total", (h, w), f32), Buffer("twice", (h, w), f32)
    y, x = var("y", role="loop"), var("x", role="loop")
    here = y * w + x
    body = Seq(
        (
            Store(total, (here,), load(a, (y + 1) * (w + 1) + x + 1) + load(b, here)),
            Store(twice, (here,), load(b, here) + load(b, here)),
        )
    )
    loops = For(y, const(0), h, "serial", For(x, const(0), w, "serial", body))
    return Function("stencil", (a, total, b, twice), (h, w), loops, (1, 3))


def increment() -> Function:
    """out = a + 1, eight fixed elements."""
    a, out = Buffer("a", (const(8),), dtype("int16")), Buffer("out", (const(8),), dtype("int16"))
    i = var("i", role="loop")
    body = For(i, const(0), const(8), "serial", Store(out, (i,), load(a, i) + const(1, "int16")))
    return Function("increment", (a, out), (), body, (1,))


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(compile_function(stencil(), TARGET), TARGET, provenance={"schedule": "default"})


@pytest.fixture(scope="module")
def simple() -> Module:
    return Module(compile_function(increment(), TARGET), TARGET)


def arrays(h: int = 4, w: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.random((h + 1, w + 1), np.float32), rng.random((h, w), np.float32)


# -- calls that work ------------------------------------------------------------------------------


def test_outputs_are_allocated_in_order(module: Module) -> None:
    a, b = arrays()
    total, twice = module(a, b)
    np.testing.assert_array_equal(total, a[1:, 1:] + b)
    np.testing.assert_array_equal(twice, 2 * b)


def test_outputs_may_be_passed(module: Module) -> None:
    a, b = arrays()
    total, twice = np.zeros_like(b), np.zeros_like(b)
    returned = module(a, total, b, twice)
    assert returned[0] is total
    assert returned[1] is twice
    np.testing.assert_array_equal(total, a[1:, 1:] + b)
    np.testing.assert_array_equal(twice, 2 * b)


def test_one_output_is_returned_alone(simple: Module) -> None:
    np.testing.assert_array_equal(simple(np.arange(8, dtype=np.int16)), np.arange(1, 9))


def test_shapes_may_change_between_calls(module: Module) -> None:
    for h, w in ((1, 1), (7, 3), (4, 6), (7, 3)):
        a, b = arrays(h, w)
        np.testing.assert_array_equal(module(a, b)[0], a[1:, 1:] + b)


def test_many_shapes_do_not_pile_up(simple: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.runtime.function.MAX_PLANS", 2)
    module = Module(compile_function(stencil(), TARGET), TARGET)
    for h in range(1, 9):
        module(*arrays(h, 2))
    assert len(module._plans) <= 2


@pytest.mark.parametrize(("h", "w"), [(0, 6), (4, 0), (0, 0)])
def test_empty_outputs(module: Module, h: int, w: int) -> None:
    """Nothing to compute is no error."""
    total, twice = module(*arrays(h, w))
    assert total.shape == twice.shape == (h, w)


def test_inputs_may_be_read_only_and_may_be_one_array() -> None:
    n = var("n", role="size")
    a, b, out = (Buffer(name, (n,), dtype("float32")) for name in ("a", "b", "out"))
    i = var("i", role="loop")
    body = For(i, const(0), n, "serial", Store(out, (i,), load(a, i) + load(b, i)))
    module = Module(compile_function(Function("add", (a, b, out), (n,), body, (2,)), TARGET), TARGET)
    x = np.arange(5, dtype=np.float32)
    x.flags.writeable = False
    np.testing.assert_array_equal(module(x, x), 2 * x)


class Exporter:
    """Something that is no ndarray and lends its memory by one protocol."""

    def __init__(self, array: np.ndarray, protocol: str) -> None:
        self.array = array
        if protocol == "__array_interface__":
            self.__array_interface__ = array.__array_interface__

    def lend(self, **kwargs: object) -> object:
        return self.array.__dlpack__(**kwargs)


class DlpackExporter(Exporter):
    def __dlpack__(self, **kwargs: object) -> object:
        return self.lend(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class ElsewhereExporter(DlpackExporter):
    def __dlpack__(self, **kwargs: object) -> object:
        raise BufferError("the memory is on another device")


def test_other_arrays_lend_their_memory(simple: Module) -> None:
    x = np.arange(8, dtype=np.int16)
    for lender in (Exporter(x, "__array_interface__"), DlpackExporter(x, "__dlpack__"), memoryview_array(x)):
        np.testing.assert_array_equal(simple(lender), x + 1)
    out = np.zeros(8, np.int16)
    simple(x, Exporter(out, "__array_interface__"))
    np.testing.assert_array_equal(out, x + 1)


def memoryview_array(x: np.ndarray) -> np.ndarray:
    """A subclass of ndarray."""
    return x.view(type("Sub", (np.ndarray,), {}))


def test_zero_dimensional_arrays() -> None:
    a, out = Buffer("a", (), dtype("float64")), Buffer("out", (), dtype("float64"))
    body = Store(out, (const(0),), load(a, const(0)) + load(a, const(0)))
    module = Module(compile_function(Function("double", (a, out), (), body, (1,)), TARGET), TARGET)
    assert module(np.array(3.5)) == 7.0


# -- calls that do not ----------------------------------------------------------------------------


def crooked(x: np.ndarray) -> np.ndarray:
    """The same shape one byte off."""
    return np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)


def frozen(x: np.ndarray) -> np.ndarray:
    made = np.zeros_like(x)
    made.flags.writeable = False
    return made


def overlapping(a: np.ndarray, b: np.ndarray) -> tuple[object, ...]:
    memory = np.zeros(48, np.float32)
    return a, memory[:24].reshape(4, 6), b, memory[23:47].reshape(4, 6)


#: arguments that `stencil` refuses, made of arrays that it takes: a and b, and room for its outputs
REFUSED: dict[str, Callable[..., tuple[object, ...]]] = {
    "no array": lambda a, b, out: (),
    "an array too few": lambda a, b, out: (a,),
    "an output of two": lambda a, b, out: (a, b, b),
    "an array too many": lambda a, b, out: (a, b, b, b, b),
    "a list": lambda a, b, out: (a, [1.0]),
    "nothing": lambda a, b, out: (None, b),
    "memory of another device": lambda a, b, out: (a, ElsewhereExporter(b, "__dlpack__")),
    "another type": lambda a, b, out: (a, b.astype(np.float64)),
    "another byte order": lambda a, b, out: (a, b.astype(">f4")),
    "another number of dimensions": lambda a, b, out: (a, b.ravel()),
    "sizes that disagree": lambda a, b, out: (a[:-1].copy(), b),
    "an output of another size": lambda a, b, out: (a, np.zeros((4, 6), "f4"), b, np.zeros((4, 5), "f4")),
    "columns before rows": lambda a, b, out: (np.asfortranarray(a), b),
    "every other column": lambda a, b, out: (a, np.zeros((4, 12), "f4")[:, ::2]),
    "addresses that are not aligned": lambda a, b, out: (a, crooked(b)),
    "an output that is read only": lambda a, b, out: (a, out, b, frozen(b)),
    "an output that is an input": lambda a, b, out: (a, out, b, b),
    "an output given twice": lambda a, b, out: (a, out, b, out),
    "an output that overlaps another": lambda a, b, out: overlapping(a, b),
}


def test_what_is_refused(module: Module, golden: Callable[..., None]) -> None:
    """Also where arrays of these shapes have been seen before."""
    a, b = arrays()
    module(a, b)
    memory = np.zeros(48, np.float32)
    module(a, memory[:24].reshape(4, 6), b, memory[24:].reshape(4, 6))  # neighbours do not overlap
    texts = []
    for title, values in REFUSED.items():
        with pytest.raises(BuildError) as caught:
            module(*values(a, b, np.zeros_like(b)))
        assert caught.value.asked and caught.value.why and caught.value.legal
        texts.append(f"-- {title}\n{caught.value}\n")
    golden("\n".join(texts), "refused")


def test_wrong_fixed_length(simple: Module) -> None:
    with pytest.raises(BuildError, match=r"argument 'a': shape \(9,\): dimension 0 is 9 and should be 8"):
        simple(np.zeros(9, np.int16))


def test_negative_size() -> None:
    n = var("n", role="size")
    a, out = Buffer("a", (n + 2,), dtype("int8")), Buffer("out", (n,), dtype("int8"))
    i = var("i", role="loop")
    body = For(i, const(0), n, "serial", Store(out, (i,), load(a, i)))
    module = Module(compile_function(Function("crop", (a, out), (n,), body, (1,)), TARGET), TARGET)
    with pytest.raises(BuildError, match=r"shape \(1,\) makes the size 'n' negative: -1"):
        module(np.zeros(1, np.int8))
    assert module(np.zeros(2, np.int8)).shape == (0,)


def test_workspace_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch, simple: Module) -> None:
    """Running out of memory is an error of its own and leaves the module usable."""

    def none(self: object, size: int, name: str) -> int:
        raise MemoryError(f"{name} needs a workspace of {size:,} bytes")

    x = np.zeros(8, np.int16)
    simple(x)
    plan = next(iter(simple._plans.values()))
    monkeypatch.setattr(simple, "_native", None)
    monkeypatch.setattr(plan._direct.__self__, "workspace_bytes", 10**6)
    monkeypatch.setattr(Arena, "address", none)
    with pytest.raises(MemoryError, match="increment needs a workspace of 1,000,000 bytes"):
        simple(x)
    monkeypatch.undo()
    np.testing.assert_array_equal(simple(x), x + 1)


# -- what a module knows --------------------------------------------------------------------------


def test_texts(module: Module) -> None:
    assert "@stencil.body" in module.source
    assert module.source == module.get_source()
    assert "attributes #0" in module.llvm_ir == module.get_source("llvm")
    assert "stencil:" in module.assembly
    with pytest.raises(BuildError, match="has no such text"):
        module.get_source("ptx")
    assert repr(module).startswith("<Module stencil(a: float32[height + 1, width + 1]")


def test_time(module: Module) -> None:
    a, b = arrays()
    samples = module.time(a, b, number=10, repeat=4)
    assert len(samples) == 4
    assert all(s > 0 for s in samples)
    total, twice = np.zeros_like(b), np.zeros_like(b)
    assert len(module.time(a, total, b, twice, repeat=1)) == 1
    np.testing.assert_array_equal(twice, 2 * b)
    for wrong in ({"number": 0}, {"repeat": 0}):
        with pytest.raises(UsageError, match="0 is not more than 0"):
            module.time(a, b, **wrong)


def test_file_round_trip(module: Module, tmp_path: Path) -> None:
    path = tmp_path / "stencil.module"
    module.save(path)
    again = Module.load(path)
    assert (again.provenance, str(again.target)) == ({"schedule": "default"}, str(TARGET))
    a, b = arrays()
    np.testing.assert_array_equal(again(a, b)[0], a[1:, 1:] + b)
    assert Module.load(path, Target.parse("llvm -threads=2")).target.num_threads == 2
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BuildError, match="not a usable artifact"):
        Module.load(path)
