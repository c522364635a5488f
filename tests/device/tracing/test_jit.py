"""`autosched.jit`: arguments, results, builds, what is kept, what is refused and where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import build_cache, te, topi
from autosched.errors import UsageError, UsageTypeError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def blur(image):
    p = np.pad(image, 1, mode="edge")
    rows = p[:-2] + p[1:-1] + p[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 7 + 1).astype(dtype)


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_a_filter_in_numpy_s_spelling(target) -> None:
    filtered = autosched.jit(blur, target=target)
    for shape in ((5, 9), (16, 16), (1, 1)):
        x = array(*shape)
        np.testing.assert_allclose(filtered(x), blur(x), rtol=1e-6)
    assert filtered.__name__ == "blur"


def test_arguments_by_name_defaults_and_structures() -> None:
    @autosched.jit
    def f(pair, scale=2.0, *, options, power=2):
        return {"sum": (pair[0] + pair[1]) * scale, "rest": [pair[0] ** power, options["shift"] - pair[1]], "n": 3}

    x, y, z = array(4), array(4) + 1, array(4) * 2
    found = f((x, y), options={"shift": z})
    assert found["n"] == 3
    np.testing.assert_array_equal(found["sum"], (x + y) * 2)
    np.testing.assert_array_equal(found["rest"][0], x**2)
    np.testing.assert_array_equal(found["rest"][1], z - y)
    np.testing.assert_array_equal(f((x, y), 0.5, options={"shift": z}, power=1)["rest"][0], x)


def test_a_float_comes_with_the_call_and_an_int_is_compiled_in() -> None:
    calls = []

    @autosched.jit
    def f(x, alpha, n):
        calls.append(n)
        return sum(x * alpha for _ in range(n))

    x = array(5)
    for alpha in (0.5, 0.25, 1e-3):
        np.testing.assert_array_equal(f(x, alpha, 2), x * np.float32(alpha) * 2)
    assert calls == [2]
    f(x, 0.5, 3)
    assert calls == [2, 3]


def test_static_floats_are_compiled_in() -> None:
    @autosched.jit(static="limit")
    def f(x, limit):
        return x * 2 if limit > 1 else x

    x = array(3)
    np.testing.assert_array_equal(f(x, 2.0), x * 2)
    np.testing.assert_array_equal(f(x, limit=0.5), x)


def test_layouts_byte_orders_and_scalars_of_arguments() -> None:
    f = autosched.jit(lambda x, y: x * 2 + y)
    x = array(4, 6)
    for given in (x.T, x[::2, ::-1], np.asfortranarray(x), x.astype(">f4")):
        np.testing.assert_array_equal(f(given, np.float32(1)), given * 2 + 1)
    x.flags.writeable = False
    np.testing.assert_array_equal(f(x, np.float32(1)), x * 2 + 1)


def test_what_it_reads_from_around_is_as_it_was_at_the_first_call() -> None:
    table = np.array([1.0, 2.0, 4.0], np.float32)
    f = autosched.jit(lambda x: x * table)
    np.testing.assert_array_equal(f(array(3)), [1, 4, 12])
    table[:] = 0
    np.testing.assert_array_equal(f(array(3)), [1, 4, 12])


def test_te_and_topi_inside() -> None:
    @autosched.jit
    def f(a, b):
        k = te.reduce_axis((0, a.shape[1]), "k")
        product = te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
        return topi.nn.relu(product - a[:, :1]), np.exp(product), product + a[:, :1] * 0

    a, b = array(4, 3), array(3, 5) - 3
    relu, e, product = f(a, b)
    np.testing.assert_allclose(product, a @ b)
    np.testing.assert_allclose(relu, np.maximum(a @ b - a[:, :1], 0))
    np.testing.assert_allclose(e, np.exp(a @ b), rtol=1e-5)


def test_results_that_are_arguments_or_the_same_are_arrays_of_their_own() -> None:
    def f(x, y):
        z = x + y
        return x, z, z

    x, y = array(3), array(3)
    found = autosched.jit(f)(x, y)
    assert not any(np.shares_memory(a, b) for k, a in enumerate(found) for b in [x, y, *found[:k]])
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], found[2])


def test_a_long_function_is_cut_into_kernels() -> None:
    def f(x, w):
        for _ in range(6):
            x = np.tanh(x @ w + x.mean(1, keepdims=True)) - x.max()
        return x

    x, w = array(8, 8) / 8, array(8, 8) / 32
    long = autosched.jit(f, effort="none")
    np.testing.assert_allclose(long(x, w), f(x, w), rtol=1e-4, atol=1e-5)
    found = long.compiled(x, w)
    assert found.cut
    assert len(found.module.provenance["kernels"]) > 1


def test_each_element_of_a_leading_axis() -> None:
    @autosched.jit
    def f(x, w, alpha=2.0):
        return (x @ w).max(0) * alpha, np.linalg.norm(x)

    xs, w = array(3, 4, 5), array(5, 2)
    best, norm = f.batched(xs, w, over=["x"])
    np.testing.assert_allclose(best, np.stack([(x @ w).max(0) * 2 for x in xs]))
    np.testing.assert_allclose(norm, [np.linalg.norm(x) for x in xs], rtol=1e-6)
    both, _ = f.batched(xs, np.stack([w, w * 2, w * 3]))
    np.testing.assert_allclose(both[2], best[2] * 3)
    with pytest.raises(UsageError, match="leading axes of"):
        f.batched(xs, array(2, 5, 2))
    with pytest.raises(UsageError, match="carries something"):
        autosched.jit(lambda x: np.cumsum(x)).batched(xs)


def test_tensors_of_pytorch_are_shared_and_returned() -> None:
    torch = pytest.importorskip("torch")
    f = autosched.jit(lambda x: x * 2 + 1)
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    found = f(x)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, x * 2 + 1)
    assert torch.equal(f(x.T), x.T * 2 + 1)
    assert torch.equal(f(x.clone().requires_grad_()), x * 2 + 1)


def test_bfloat16_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(4, dtype=torch.bfloat16)
    found = autosched.jit(lambda x: x + x)(x)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, x + x)


def test_one_inside_another_is_a_part_of_it() -> None:
    doubled = autosched.jit(lambda x: x * 2)
    both = autosched.jit(lambda x: doubled(x) + doubled(x=x).sum())
    x = array(4)
    np.testing.assert_array_equal(both(x), x * 2 + (x * 2).sum())
    assert len(both.compiled(x).program.inputs) == 1


@pytest.mark.parametrize("given", [np.ma.array([1.0, 2.0], mask=[0, 1]), np.asmatrix(np.eye(2))])
def test_arrays_with_rules_of_their_own_are_refused(given) -> None:
    with pytest.raises(UsageTypeError, match="rules of its own"):
        autosched.jit(lambda x: x * x)(given)


def test_methods_are_bound_to_their_objects() -> None:
    class Scale:
        def __init__(self, by: int) -> None:
            self.by = by

        @autosched.jit
        def __call__(self, x):
            return x * self.by

    x = array(3)
    np.testing.assert_array_equal(Scale(2)(x), x * 2)
    np.testing.assert_array_equal(Scale(5)(x), x * 5)


def test_whatever_has_dlpack() -> None:
    class Shared:
        def __init__(self, a: np.ndarray) -> None:
            self.a, self.shape, self.dtype = a, a.shape, a.dtype

        def __dlpack__(self, **options: Any) -> Any:
            return self.a.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.a.__dlpack_device__()

    x = array(4)
    np.testing.assert_array_equal(autosched.jit(lambda x: x + 1)(Shared(x)), x + 1)


# -- what is refused -----------------------------------------------------------------------------------
def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (found,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{found}"


@pytest.mark.parametrize(
    ("f", "where", "why"),
    [
        (lambda x: x if x.sum() > 0 else -x, "if", "numbers are not known"),  # if
        (lambda x: x[x > 0], "mask", "how many elements"),  # mask
        (lambda x: np.linalg.svd(x), "svd", "not among the functions"),  # svd
        (lambda x: np.sort(x), "sort", "not among the functions"),  # sort
        (lambda x: float(x[0, 0]), "float", "numbers are not known"),  # float
        (lambda x: x.__iadd__(1), "iadd", "would change the caller's array 'x'"),  # iadd
        (lambda x: x + x.astype(complex), "complex", "no such element type"),  # complex
        (lambda x: x + np.ones((7, 3)), "shapes", "cannot be broadcast"),  # shapes
        (lambda x: x.cumsum_of_all(), "attribute", "not among those"),  # attribute
        (lambda x: np.add(x, 1, out=np.zeros((2, 3))), "out", "an array of NumPy's"),  # out
        (lambda x: np.asarray([float(v) for v in x[0]]), "list", "numbers are not known"),  # list
        (lambda x: np.arange(9)[x.astype(int)], "table", "has to be an argument"),  # table
    ],
)
def test_what_cannot_be_traced_is_refused_with_the_line(f, where, why) -> None:
    with pytest.raises(UsageTypeError) as caught:
        autosched.jit(f)(array(2, 3))
    assert why in str(caught.value)
    assert line_of(where) in str(caught.value)


def test_views_that_are_out_of_date_and_views_of_views() -> None:
    def stale(x):
        y = x.copy()
        row = y[0]
        y[0] = 3
        return row + 1

    def deep(x):
        y = x.copy()
        y[1:][0] += 1
        return y

    def right(x):
        y = x.copy()
        y[0] += 1
        row = y[0]
        row *= 2
        return y

    with pytest.raises(UsageTypeError, match="was assigned to since"):
        autosched.jit(stale)(array(2, 3))
    with pytest.raises(UsageTypeError, match="view of another array"):
        autosched.jit(deep)(array(2, 3))
    np.testing.assert_array_equal(autosched.jit(right)(array(2, 3)), right(array(2, 3)))


def test_a_traced_value_that_is_kept_is_of_no_use() -> None:
    kept = []
    autosched.jit(lambda x: kept.append(x) or x * 2)(array(2))
    with pytest.raises(UsageTypeError, match="the call that it belongs to is over"):
        kept[0] + 1


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: autosched.jit(blur, effort="much"), "there is no effort 'much'"),
        (lambda: autosched.jit(blur, static="y"), "no parameter 'y'"),
        (lambda: autosched.jit(blur, tune="long"), "seconds, True or False"),
        (lambda: autosched.jit(3), "a function"),
        (lambda: autosched.jit(lambda x: 1)(array(2)), "no traced value"),
        (lambda: autosched.jit(lambda x, y: x)(array(2), {1, 2}), "has no hash"),
    ],
)
def test_arguments_that_cannot_be_meant(call, why) -> None:
    with pytest.raises(UsageError, match=why):
        call()


# -- what is kept --------------------------------------------------------------------------------------
PROGRAM = """
import json, sys
import numpy as np
import autosched
from autosched import planning

compiled = []
inner = planning.compile_function
planning.compile_function = lambda *args: compiled.append(str(args[1])) or inner(*args)

@autosched.jit(effort=sys.argv[1])
def doubled(x):
    return x * 2

x = np.arange(6, dtype=np.float32)
assert (doubled(x) == x * 2).all()
print(json.dumps({"compiled": compiled}))
"""


def run(program: str, effort: str, **variables: str) -> dict[str, Any]:
    out = subprocess.run(
        [sys.executable, "-c", program, effort], capture_output=True, text=True, env=os.environ | variables, check=True
    )
    return json.loads(out.stdout)


def test_another_process_does_not_compile_again() -> None:
    assert run(PROGRAM, "none")["compiled"]
    assert not run(PROGRAM, "none")["compiled"]
    assert run(PROGRAM, "quick")["compiled"]  # which may choose another schedule
    assert run(PROGRAM, "none", AUTOSCHED_CACHE="0")["compiled"]


def test_a_damaged_file_of_the_cache_is_compiled_again() -> None:
    run(PROGRAM, "none")
    (file,) = build_cache.kinds()["builds"]
    file.write_bytes(file.read_bytes()[:-5])
    assert run(PROGRAM, "none")["compiled"]
    assert not run(PROGRAM, "none")["compiled"]


def test_searching_when_asked(tmp_path, monkeypatch) -> None:
    asked: list[float] = []

    def few_trials(w, target, *, budget_s, **options):
        asked.append(budget_s)
        return autosched.tune(w, target, budget_s=90.0, **(options | {"trials": 3}))

    monkeypatch.setattr(import_module("autosched.tracing.jit"), "tune", few_trials)
    monkeypatch.setenv("AUTOSCHED_TUNE", "20s")
    f = autosched.jit(blur, records=str(tmp_path / "records"))
    x = array(32, 32)
    np.testing.assert_allclose(f(x), blur(x), rtol=1e-6)
    assert f.compiled(x).module.provenance["kind"] == "record"
    logs = {p: p.stat().st_mtime_ns for p in (tmp_path / "records").iterdir()}
    again = autosched.jit(blur, records=str(tmp_path / "records"))
    again(x)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "records").iterdir()} == logs
    assert asked == [20.0]
    monkeypatch.setenv("AUTOSCHED_TUNE", "soon")
    with pytest.raises(UsageError, match="no number of seconds"):
        autosched.jit(blur)(x)


def test_tune_searches_and_the_next_call_uses_it(tmp_path) -> None:
    f = autosched.jit(blur, records=str(tmp_path))
    x = array(24, 24)
    assert f(x).shape == (24, 24)
    result = f.tune(x, budget_s=None, trials=3)
    assert result.trials
    assert f.compiled(x).module.provenance["kind"] == "record"
    np.testing.assert_allclose(f(x), blur(x), rtol=1e-6)
