"""`cache_padding`: what is read across a border, stored with it, gives what the definition says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir.visit import post_order
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

N, K = 13, 4


def convolution(read: Callable[..., te.Expr], size: object = N) -> list[Tensor]:
    """C[g, i] = sum over c and k of read(A, g, c, i, k) * W[c, k], for A[2, 3, size]."""
    a, w = te.placeholder((2, 3, size), name="A"), te.placeholder((3, K), name="W")
    c, k = te.reduce_axis((0, 3), "c"), te.reduce_axis((0, K), "k")
    out = te.compute((2, size), lambda g, i: te.sum(read(a, g, c, i, k) * w[c, k], axis=[c, k]), name="C")
    return [a, w, out]


def outside(value: object) -> Callable[..., te.Expr]:
    return lambda a, g, c, i, k: te.constant_exterior(a, value, axes=(2,))[g, c, i + 2 * k - 3]


READS = {
    "zeros": outside(0.0),
    "ones": outside(1.0),
    "an index that is no sum": lambda a, g, c, i, k: te.constant_exterior(a, 0.0, axes=(2,))[g, (c + g) % 3, i - k * 3],
    "both ends at once": lambda a, g, c, i, k: te.constant_exterior(a, 0.0)[g + 1 - 1, c, 2 * i - k],
    "the value of a size": lambda a, g, c, i, k: te.constant_exterior(a, a.shape[2].astype("float32"), axes=(2,))[
        g, c, i - k
    ],
}


@pytest.mark.parametrize("size", ["13", "n"])
@pytest.mark.parametrize("name", READS)
def test_padding_is_stored(name: str, size: str) -> None:
    args = convolution(READS[name], te.var("n") if size == "n" else N)
    s = create_schedule(args)
    (padded,) = s["C"].cache_padding()
    assert padded.name == "A.padded" and "if_then_else" not in repr(s["C"].body)
    s[padded].compute_at(s["C"], "g")
    assert_roundtrip(s, args)
    given = [np.random.default_rng(0).integers(-4, 5, shape).astype("float32") for shape in ((2, 3, N), (3, K))]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", given, backend)  # type: ignore[arg-type]


def test_digits_of_an_axis_are_places() -> None:
    """A search may number the places that it tries. Of the border, what these reach is stored, and no more."""
    a, b = te.placeholder((16, 24), "uint8", name="a"), te.placeholder((16, 24), "uint8", name="b")
    y, x, edge = te.reduce_axis((0, 8), "y"), te.reduce_axis((0, 8), "x"), te.repeat_edge(b)

    def apart(i, j, q):
        there = edge[i * 8 + y + q // 5 - 2, j * 8 + x + q % 5 - 2]
        return te.sum(te.abs(a[i * 8 + y, j * 8 + x].astype("int32") - there.astype("int32")), axis=[y, x])

    args = [a, b, te.compute((2, 3, 25), apart, name="sad")]
    s = create_schedule(args)
    (padded,) = s["sad"].cache_padding()
    assert [int(n.value) for n in padded.shape] == [20, 28]
    assert not {"min", "max"} & {e.op for e in post_order(s["sad"].body)}
    given = [np.random.default_rng(k).integers(0, 256, (16, 24)).astype("uint8") for k in (0, 1)]
    check_against_reference(args, s, "llvm", given, "native")


BENT = {"edge": te.repeat_edge, "copies": te.repeat_image, "mirrored": te.mirror_image, "inside": te.mirror_interior}


@pytest.mark.parametrize("name", BENT)
def test_places_beyond_a_border_are_stored_once_for_several_readers(name: str) -> None:
    """The copy for D has all places of E; what reads farther has a copy of its own."""
    a = te.placeholder((7, 9, 2), name="A")
    bent = BENT[name](a, axes=(0, 1))
    k = te.reduce_axis((0, 3), "k")
    d = te.compute(
        (7, 9, 2), lambda i, j, c: te.sum(bent[i + k - 2, j, c] - bent[i, j + 2 * k - 4, c], axis=k), name="D"
    )
    e = te.compute((7, 9), lambda i, j: d[i, j, 0] + bent[i - 1, j - 1, 1], name="E")
    f = te.compute((7, 9), lambda i, j: e[i, j] + bent[i, j + 4, 0] + a[0, j, 0], name="F")
    s = create_schedule(f)
    (first,), (again,), (other,) = (s[x].cache_padding() for x in (d, e, f))
    assert first is again and other is not first
    assert [int(n.value) for n in first.shape] == [9, 13, 2] and [int(n.value) for n in other.shape] == [7, 9, 2]
    assert_roundtrip(s, [a, f])
    given = np.random.default_rng(0).integers(-9, 9, (7, 9, 2)).astype("float32")
    for backend in ("native", "interpreter"):
        check_against_reference([a, f], s, "llvm", [given], backend)  # type: ignore[arg-type]


def test_what_is_read_round_and_round_has_no_border() -> None:
    a, n = te.placeholder((7,), name="A"), te.var("n")
    b = te.placeholder((n,), name="B")
    for read in (
        lambda i: a[i % 7],
        lambda i: te.repeat_edge(a)[i - 8],
        lambda i: te.repeat_edge(b)[i - 1],
        lambda i: a[te.min(i, 6) // 2],
        lambda i: a[te.max(te.min(i, 6) - te.max(i, 0), 0)],
    ):
        out = te.compute((9,), lambda i, read=read: read(i) * 2.0, name="C")
        with pytest.raises(ScheduleError, match="reads nothing across a border"):
            create_schedule(out)["C"].cache_padding()


def test_conditions_that_ask_for_more_stay() -> None:
    """Whether a place counts must not depend on the point of the sum that reads it."""
    args = convolution(lambda a, g, c, i, k: te.if_then_else(te.all(i - k >= 0, k != 2), a[g, c, i - k], 0.0))
    s = create_schedule(args)
    with pytest.raises(ScheduleError, match="reads nothing across a border"):
        s["C"].cache_padding()
    assert len(s.stages) == 3 and not s.trace
