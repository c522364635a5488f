"""Parts of traced arrays by NumPy's rules: integers, slices, `...`, `None`, and arrays of places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched import te
from autosched.ir import expr as ir
from autosched.ir.attached import attach
from autosched.ir.expr import Expr, as_expr
from autosched.te.tensor import IterVar, Tensor
from autosched.tracing.traced import Traced, computed, element, lifted, refuse, value


@dataclass(frozen=True)
class Along:
    """What a key takes of one dimension: `count` places from `start` on, `step` apart; of an integer, one that leaves
    no dimension; of an array, its elements. A new dimension has no `source`."""

    source: int | None
    start: int = 0
    step: int = 1
    count: int = 1
    is_kept: bool = True
    places: Traced | None = None


def part(x: Traced, key: Any) -> Any:
    """`x[key]`: a view of a part, a copy where arrays choose; an element's expression for te's axes."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(k, (Expr, IterVar)) for k in keys):
        return x.__te_tensor__()[keys if len(keys) > 1 else keys[0]]
    along = read_key(x.shape, keys)
    t = x.__te_tensor__()
    if any(a.places is not None for a in along):
        return _gathered(x, along)
    kept = [a for a in along if a.is_kept]

    def body(*index: Expr) -> Expr:
        places = dict(zip(map(id, kept), index, strict=True))
        at = {a.source: a.start + a.step * places[id(a)] if a.is_kept else as_expr(a.start) for a in along}
        return t(*(at[d] for d in range(t.ndim)))

    made = computed([a.count for a in kept], body, "part", whole=x)
    made.key = key if not x.is_view else None
    return made


def with_part(x: Traced, key: Any, given: Any) -> Tensor:
    """The tensor that `x[key] = given` leaves."""
    along = read_key(x.shape, key if isinstance(key, tuple) else (key,))
    if any(a.places is not None for a in along):
        refuse("an assignment to places that an array chooses", "their order would matter", "np.where(mask, new, old)")
    t, new = x.__te_tensor__(), lifted(given, "an assignment to a part")
    kept = [a for a in along if a.is_kept]
    shape = tuple(a.count for a in kept)
    if isinstance(new, Traced):
        try:
            fits = np.broadcast_shapes(new.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            refuse("an assignment to a part", f"{list(new.shape)} does not stretch to {list(shape)}")
        new.__te_tensor__()
    of = str(x.dtype)

    def body(*index: Expr) -> Expr:
        inside, at = [], []
        for a in along:
            if a.source is None:
                at.append(as_expr(0))
                continue
            i = index[a.source]
            distance = i - a.start if a.step > 0 else a.start - i
            if a.start or a.step < 0 or not a.is_kept:
                inside.append(ir.compare("ge", distance, as_expr(0)))
            if a.start + abs(a.step) * a.count < x.shape[a.source] or a.step < 0 or not a.is_kept or abs(a.step) > 1:
                inside.append(distance < abs(a.step) * (a.count - 1) + 1)
            if abs(a.step) > 1:
                inside.append(ir.compare("eq", te.floormod(distance, abs(a.step)), as_expr(0)))
            if a.is_kept:
                at.append(te.floordiv(distance, abs(a.step)) if abs(a.step) > 1 else distance)
        found = element(new, at, shape, of)
        return found if not inside else te.if_then_else(te.all(*inside), found, t(*index))

    if 0 in shape:
        return t
    return computed(x.shape, body, "assigned").__te_tensor__()


def read_key(shape: Sequence[int], keys: Sequence[Any]) -> list[Along]:
    """What each part of a key takes, in order; missing ones take all."""
    plain = [k for k in keys if k is not None and k is not Ellipsis]
    if sum(k is Ellipsis for k in keys) > 1:
        refuse("an index", "it has more than one ...")
    taken = sum(_dims_of(k) for k in plain)
    if taken > len(shape):
        refuse("an index", f"{taken} indices for {len(shape)} dimensions")
    whole: list[Any] = [slice(None)] * (len(shape) - taken)
    at = next((n for n, k in enumerate(keys) if k is Ellipsis), len(keys))
    found: list[Along] = []
    d = 0
    for k in [*keys[:at], *whole, *keys[at + 1 :]]:
        if k is None:
            found.append(Along(None))
            continue
        found.append(_along(d, shape[d], k))
        d += 1
    return found


def _dims_of(k: Any) -> int:
    is_mask = (
        isinstance(k, (bool, np.bool_)) or (hasattr(k, "dtype") and k.dtype == bool) or _is_list_of_bool(k)
    )  # fmt: skip
    if is_mask:
        refuse("an index that is a mask", "how many elements it leaves is not known", "np.where(mask, x, 0)")
    return 1


def _is_list_of_bool(k: Any) -> bool:
    return isinstance(k, list) and bool(k) and isinstance(k[0], bool)


def _along(d: int, extent: int, k: Any) -> Along:
    if isinstance(k, slice):
        start, stop, step = k.indices(extent)
        return Along(d, start, step, len(range(start, stop, step)))
    if isinstance(k, (int, np.integer)):
        if not -extent <= k < extent:
            raise IndexError(f"index {k} is out of bounds for axis {d} with size {extent}")
        return Along(d, int(k) % extent, is_kept=False)
    places = value(k, "an index")
    if places.dtype.kind not in "iu":
        refuse("an index", f"places are integers, not {places.dtype}")
    return Along(d, count=extent, places=places)


def _gathered(x: Traced, along: Sequence[Along]) -> Traced:
    """`x` at places that arrays choose: these stretch to one shape, which stands where the first of them does, or in
    front where other dimensions lie between them. A place outside is the nearest inside."""
    arrays = [a for a in along if a.places is not None or (not a.is_kept and a.source is not None)]
    try:
        shape = np.broadcast_shapes(*(a.places.shape for a in arrays if a.places is not None))
    except ValueError as error:
        refuse("indices", str(error))
    numbers = [k for k, a in enumerate(along) if any(a is b for b in arrays)]
    together = numbers == [*range(numbers[0], numbers[-1] + 1)]
    front = numbers[0] if together else 0
    rest = [a for a in along if not any(a is b for b in arrays)]
    before = [a for a in along[:front] if a in rest] if together else []
    after = [a for a in rest if not any(a is b for b in before)]
    t = x.__te_tensor__()

    def body(*index: Expr) -> Expr:
        chosen = index[len(before) : len(before) + len(shape)]
        free = [*index[: len(before)], *index[len(before) + len(shape) :]]
        at: dict[int | None, Expr] = {
            a.source: a.start + a.step * i for a, i in zip([*before, *after], free, strict=True)
        }
        for a in arrays:
            at[a.source] = as_expr(a.start)
            if a.places is not None:
                place = element(a.places, chosen, shape, "int64" if a.places.dtype.itemsize == 8 else "int32")
                extent = te.const(a.count, place.dtype)
                place = te.select(place < te.const(0, place.dtype), place + extent, place)
                at[a.source] = te.max(te.min(place, extent - 1), te.const(0, place.dtype))
        return t(*(at[d] for d in range(t.ndim)))

    return computed([*(a.count for a in before), *shape, *(a.count for a in after)], body, "gathered")


attach(Traced, __getitem__=part, with_part=with_part)
