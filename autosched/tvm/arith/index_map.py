"""`IndexMap`: a function of indices as data, to be applied, inverted and compared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr, compare, const, logical_or, var
from autosched.ir.iter_map import Inversion, NoIterMap
from autosched.ir.visit import substitute
from autosched.runtime.ndarray import NDArray, array
from autosched.te.functions import AXIS_SEPARATOR, AxisSeparator
from autosched.tvm.arith.analyzer import Analyzer
from autosched.tvm.arith.sets import IntervalSet, Range


@dataclass(frozen=True, eq=False)
class IndexMap:
    """Formulas (`final_indices`) over variables (`initial_indices`).

    >>> m = IndexMap.from_func(lambda i, j: [j // 8, i, j % 8])
    >>> m.map_indices([3, 13])
    (1, 3, 5)
    >>> m.inverse([4, 32]).map_indices([1, 3, 5])
    (3, 13)
    """

    AXIS_SEPARATOR: ClassVar[AxisSeparator] = AXIS_SEPARATOR

    initial_indices: tuple[Expr, ...]
    final_indices: tuple[Expr, ...]

    @staticmethod
    def from_func(mapping: Callable[..., Any], ndim: int | None = None, index_dtype: str = "int32") -> IndexMap:
        """Return the map of a function of indices. Only a function with `*args` needs `ndim`; parameters that
        are named only, behind `*args`, are the last indices.

        Raises UsageError for a function that cannot be called so or returns no list.
        """
        parameters = inspect.signature(mapping).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        last = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
        if any(p.kind == p.VAR_POSITIONAL for p in parameters):
            if ndim is None:
                raise UsageError("how many indices?", asked="IndexMap.from_func", legal="pass ndim for *args")
            names += [f"i{k}" for k in range(len(names), ndim - len(last))]
        given = len(names)
        names += last
        if ndim is not None and len(names) != ndim:
            raise UsageError(f"the function takes {len(names)} indices, not {ndim}", asked="IndexMap.from_func")
        variables = tuple(var(name, index_dtype, "axis") for name in names)
        made = mapping(*variables[:given], **dict(zip(last, variables[given:], strict=True)))
        if not isinstance(made, (list, tuple)):
            raise UsageError(f"the function returns {made!r}", asked="IndexMap.from_func", legal="a list of formulas")
        return IndexMap(variables, tuple(as_expr(e) for e in made))

    def map_indices(self, indices: Sequence[object]) -> tuple[Expr, ...]:
        """Return the final indices of these initial ones, of the widest type that these have."""
        an, given = Analyzer(), self._fitting(indices)
        return tuple(self._typed(an.simplify(e), given) for e in self._at(given))

    def _fitting(self, indices: Sequence[object]) -> list[Expr]:
        if len(indices) != len(self.initial_indices):
            why = f"{len(indices)} indices for a map of {len(self.initial_indices)}"
            raise UsageError(why, asked=f"{self!r}", legal="one for each")
        return [as_expr(i) for i in indices]

    def _typed(self, e: Expr, given: Sequence[Expr]) -> Expr:
        """An index of the type of those that are given, where it is wider than the map's."""
        widest = max((x.dtype for x in given), key=lambda d: d.bits, default=e.dtype)
        return e if e.dtype.bits >= widest.bits else e.astype(widest)

    def _at(self, indices: Sequence[Expr]) -> list[Expr]:
        mapping = dict(zip(self.initial_indices, indices, strict=True))
        return [substitute(e, mapping) for e in self.final_indices]

    def map_ranges(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        """Return the ranges of the final indices while the initial ones run through theirs."""
        an = Analyzer()
        domains = dict(zip(self.initial_indices, ranges, strict=True))
        found = [an.int_set(e, domains) for e in self.final_indices]
        return tuple(Range.from_min_extent(s.min_value, an.simplify(s.max_value - s.min_value + 1)) for s in found)

    def map_shape(self, shape: Sequence[object]) -> tuple[Expr, ...]:
        """Return the shape for the final indices, given that for the initial ones."""
        an = Analyzer()
        given = self._fitting(shape)
        domains = {v: IntervalSet(0, n - 1) for v, n in zip(self.initial_indices, given, strict=True)}
        found = [an.int_set(e, domains) for e in self.final_indices]
        for e, s in zip(self.final_indices, found, strict=True):
            if s.ends[1] is None:
                raise UsageError(f"{e!r} is not bounded", asked=f"map_shape({list(shape)!r})")
        return tuple(self._typed(an.simplify(s.max_value + 1), given) for s in found)

    def map_ndarray(self, arr_src: NDArray) -> NDArray:
        """Return an array in the map's layout; what no element goes to is 0. Raises UsageError for another rank.

        >>> import numpy as np
        >>> from autosched import nd
        >>> IndexMap.from_func(lambda i: [i // 4, i % 4]).map_ndarray(nd.array(np.arange(6))).numpy().tolist()
        [[0, 1, 2, 3], [4, 5, 0, 0]]
        """
        values = arr_src.numpy()
        shape = [int(n.value) for n in self.map_shape(values.shape)]
        made = np.zeros(shape, values.dtype)
        if values.size:
            places = [te.compute(values.shape, lambda *i, k=k: self._at(i)[k], name=f"i{k}") for k in range(len(shape))]
            made[tuple(te.reference(places, []))] = values
        return array(made, arr_src.device)

    def inverse(self, shape: Sequence[object]) -> IndexMap:
        """Return the map back to the indices below `shape`. Raises UsageError if there is none."""
        found, padded = self._inverse(shape)
        if padded is not None:
            raise UsageError(
                "some indices are reached from nowhere",
                asked=f"inverse({list(shape)!r}) of {self!r}",
                legal="splits that divide, or non_surjective_inverse",
            )
        return found

    def non_surjective_inverse(self, shape: Sequence[object]) -> tuple[IndexMap, Expr]:
        """Return the map back, and the condition on the final indices under which it leads outside `shape`, so that
        they are padding."""
        found, padded = self._inverse(shape)
        return found, const(False) if padded is None else padded

    def _inverse(self, shape: Sequence[object]) -> tuple[IndexMap, Expr | None]:
        an, why = Analyzer(), ""
        extents = [as_expr(n) for n in shape]
        for spelled in (an.simplify, lambda e: e):  # one may be digits where the other is not
            try:
                return self._inverted(extents, [spelled(e) for e in self.final_indices])
            except NoIterMap as error:
                why = why or str(error)
        legal = "each index once, permuted, split as i // f with i % f, or fused as i*extent + j"
        raise UsageError(why, asked=f"inverse({list(shape)!r}) of {self!r}", legal=legal)

    def _inverted(self, extents: list[Expr], indices: list[Expr]) -> tuple[IndexMap, Expr | None]:
        """Raises NoIterMap."""
        an = Analyzer()
        inversion = Inversion(dict(zip(self.initial_indices, extents, strict=True)))
        outputs = tuple(var(f"axis{k}", e.dtype, "axis") for k, e in enumerate(indices))
        for e, output in zip(indices, outputs, strict=True):
            placed, _ = inversion.ordered([(c, inversion.digit(x)) for c, x in inversion.terms(e)], e)
            inversion.record(placed, output)
        inversion.record_sums()
        found = [inversion.total(v) for v in self.initial_indices]
        values = tuple(an.simplify(total) for total, _ in found)
        outside = [
            compare("ge", value, n) for value, n, (_, exact) in zip(values, extents, found, strict=True) if not exact
        ]
        return IndexMap(outputs, values), logical_or(*outside) if outside else None

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Return whether both are proven to map all indices alike."""
        rank, rank_of_other = ((len(m.initial_indices), len(m.final_indices)) for m in (self, other))
        if rank != rank_of_other:
            return False
        an = Analyzer()
        theirs = other._at(self.initial_indices)
        return all(an.can_prove_equal(a, b) for a, b in zip(self.final_indices, theirs, strict=True))

    def __repr__(self) -> str:
        names = ", ".join(v.name for v in self.initial_indices)
        return f"index_map({names} -> {', '.join(map(repr, self.final_indices))})"
