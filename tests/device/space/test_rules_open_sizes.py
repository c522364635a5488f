"""Sizes that calls tell: what rules and the model do where no length is known."""

from __future__ import annotations

import numpy as np
import pytest
from generated_spaces import LLVM, check, planned

from autosched import te
from autosched.ir.stmt import For, If, Store, walk
from autosched.ir.visit import contains, post_order
from autosched.lowering import lower_structure
from autosched.predicting import likely_sizes
from autosched.space.features import FEATURE_NAMES
from autosched.space.workload import Workload

B, C, H, W = (te.var(name) for name in "bchw")


def images(result, *axes: str):
    """x[b, c, h, w] -> what is made of it; sums over some axes."""
    x = te.placeholder((B, C, H, W), name="x")
    along = {name: te.reduce_axis((0, size), name) for name, size in zip("bchw", x.shape, strict=True) if name in axes}
    kept = [name for name in "bchw" if name not in along]

    def element(*at):
        places = along | dict(zip(kept, at, strict=True))
        value = result(x, *(places[name] for name in "bchw"))
        return te.sum(value, axis=list(along.values())) if along else value

    shape = [dict(zip("bchw", x.shape, strict=True))[name] for name in kept]
    return x, te.compute(shape, element, name="y")


def relu(x, *at):
    return te.max(x[at], 0.0)


def itself(x, *at):
    return x[at]


def loops_over(stage) -> list[int]:
    """How many axes each loop before vectors is of."""
    return [len(x.name.split("fused")) for x in stage.loops]


def test_elements_of_images_are_one_row_and_the_model_knows():
    """Short rows of open length, as those of 7 x 7 images, fill no vectors; all elements together do."""
    w = Workload("w", images(relu))
    sized = next(s for s in w.search_space(LLVM, {"b": 8, "c": 64, "h": 7, "w": 7}).sketches if s.name != "default")
    point = np.array([[len(k.values) - 1 for k in sized.knobs]], dtype=np.int64)
    found = dict(zip(FEATURE_NAMES, sized.features(point)[0], strict=True))
    assert found["strided_loads"] == 0 == found["gathered_loads"]
    body = sized.structure.bind(sized.values(point[0])).body
    places = [e for x in walk(body) if isinstance(x, Store) for e in post_order(x.indices)]
    assert places and not any(e.op in ("floordiv", "floormod") for e in places), "taken apart and put together again"


def test_rows_that_follow_each_other_are_one_row():
    plan = planned(*images(lambda x, b, c, h, w: x[b, c, h, w] * c.astype("float32")))
    block = plan.s["y"].loops
    assert plan.done[plan.s["y"]] == "whole_rows" and any(x.name.startswith("at2.at3.fused") for x in block)
    check(images(lambda x, b, c, h, w: x[b, c, h, w] * c.astype("float32")), sizes={"b": 2, "c": 3, "h": 7, "w": 5})


@pytest.mark.parametrize(("axes", "row"), [("hw", "h.w.fused"), ("bhw", "h.w.fused"), ("bch", None), ("w", "w")])
@pytest.mark.parametrize("sizes", [(40, 3, 7, 7), None], ids=["told", "open"])
def test_axes_of_a_reduction_that_are_one_row_are_added_up_as_one(axes, row, sizes):
    """Also where others are not: the sums of a channel over a batch go along h and w as one."""
    args = images(itself, *axes)
    if sizes:
        x = te.placeholder(sizes, name="x")
        along = {n: te.reduce_axis((0, size), n) for n, size in zip("bchw", sizes, strict=True) if n in axes}
        kept = [n for n in "bchw" if n not in axes]
        args = (
            x,
            te.compute(
                [sizes["bchw".index(n)] for n in kept],
                lambda *at: te.sum(
                    x[tuple((along | dict(zip(kept, at, strict=True)))[n] for n in "bchw")], axis=list(along.values())
                ),
                name="y",
            ),
        )
    plan = planned(*args, y_sums="lanes_of_sums")
    partial = [x for x in plan.s.stages if x.name.startswith("y.rf")]
    names = [loop.name for x in partial for loop in x.loops]
    if row is not None:
        assert partial and any(name.startswith(row) for name in names), names
    check(args, **({} if sizes else {"sizes": {"b": 2, "c": 3, "h": 7, "w": 5}}))


def test_columns_of_open_length_may_be_few():
    """First values are set where there are elements: no loop runs over vectors that a short row does not have."""
    args = images(itself, "b")
    plan = planned(*args)
    assert any(x.name.startswith("at0.at1.fused.at2.fused") for x in plan.s["y"].loops), "one row"
    structure = lower_structure(plan.s, list(args), LLVM)
    assert min(next(k for k in structure.knobs if k.name == "y_vectors").values) == 1
    body = structure.bind({k.name: int(max(k.values)) for k in structure.knobs}).body
    first = [x for x in walk(body) if isinstance(x, For) and "init" in x.var.name]
    assert first and all(contains(x.extent, "min") or x.extent.op == "const" for x in first)
    assert not any(
        isinstance(x, If) and "init" in repr(x.condition) and "//16" in repr(x.condition) for x in walk(body)
    )


def test_likely_sizes_make_arrays_that_one_would_have():
    x, y = te.placeholder((B, C, H, W), name="x"), te.placeholder((C,), name="y")
    z = te.compute((B, C, H, W), lambda b, c, h, w: x[b, c, h, w] + y[c], name="z")
    assert likely_sizes(Workload("w", (x, y, z))) == {"b": 32, "c": 32, "h": 32, "w": 32}
    a = te.placeholder((B, C, 3), name="a")
    twice = te.compute((B, C, 3), lambda *at: a[at] * 2, name="twice")
    assert likely_sizes(Workload("w", (a, twice))) == {"b": 1024, "c": 1024}
    assert likely_sizes(Workload("w", (y, te.compute((C,), lambda c: y[c] + 1, name="more")))) == {"c": 1024}


def told(shape, kept):
    """Sums of x[b, c, h, w] of a known shape over all axes but some."""
    x = te.placeholder(shape, name="x")
    along = {n: te.reduce_axis((0, size), n) for n, size in zip("bchw", shape, strict=True) if n not in kept}

    def total(*at):
        places = along | dict(zip(kept, at, strict=True))
        return te.sum(x[tuple(places[n] for n in "bchw")], axis=list(along.values()))

    return x, te.compute([shape["bchw".index(n)] for n in kept], total, name="y")


@pytest.mark.parametrize(("kept", "shape"), [("h", (5, 6, 7, 7)), ("ch", (5, 6, 3, 7)), ("bh", (5, 6, 7, 5))])
def test_short_rows_that_lie_apart_are_columns(kept, shape):
    """A vector over the last axis of one image and the first of the next would gather its lanes."""
    plan = planned(*told(shape, kept))
    columns = next(x for x in plan.s.stages if x.name == "y.rf")
    assert plan.done[columns] == "columns_of_short_rows"
    assert columns.axis[-1].name.startswith("w") and columns.loops[-1].kind == "vectorize"
    check(told(shape, kept))


@pytest.mark.parametrize(("kept", "shape"), [("bc", (5, 6, 7, 7)), ("h", (5, 6, 7, 32)), ("b", (5, 6, 7, 7))])
def test_rows_that_fill_vectors_or_lie_behind_each_other_are_no_columns(kept, shape):
    assert "columns_of_short_rows" not in planned(*told(shape, kept)).done.values()
