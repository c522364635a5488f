"""Memory layouts of the tensors of random cases: orders of dimensions, gaps, strides of the caller's.

A layout is plain data; it gives a `te.decl_buffer` for `binds`, and the strides of an array.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from autosched.errors import LowerError, ScheduleError
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import variables
from autosched.ir.stmt import Buffer
from autosched.lowering.pipeline import lower_structure
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Split
from autosched.target import Target
from autosched.te import decl_buffer, size_var
from autosched.te.tensor import Graph, PlaceholderOp, Tensor


@dataclass(frozen=True)
class Layout:
    """The layout of one tensor.

    order:    dimensions, from the innermost one outwards
    gaps:     elements that are left free behind each dimension
    is_open:  the strides are variables, which a call reads off the array
    repeated: dimensions with one element, read again and again by a stride of 0; with `broadcasts`, by an array of
              length 1
    """

    order: tuple[int, ...]
    gaps: tuple[int, ...]
    is_open: bool = False
    repeated: tuple[int, ...] = ()
    broadcasts: bool = False

    def _strides(self, lengths: Sequence[Any]) -> list[Any]:
        strides: list[Any] = [0] * len(lengths)
        step: Any = 1
        for d in self.order:
            strides[d] = step
            step = (lengths[d] + self.gaps[d]) * step
        return strides

    def strides(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The strides of an array of those lengths, in elements."""
        return tuple(0 if d in self.repeated else s for d, s in enumerate(self._strides(lengths)))

    def buffer(self, t: Tensor) -> Buffer:
        """The buffer that `binds` has for the tensor."""
        if self.broadcasts:
            return decl_buffer(t.shape, t.dtype, t.name, buffer_type="auto_broadcast")
        steps: list[Any] = [size_var(f"{t.name}_s{d}") for d in range(t.ndim)]
        return decl_buffer(t.shape, t.dtype, t.name, strides=steps if self.is_open else self._strides(t.shape))

    def given(self, values: np.ndarray) -> np.ndarray:
        """The values of an input with this layout: along repeated dimensions, the first ones."""
        for d in self.repeated:
            values = np.broadcast_to(values.take([0], d), values.shape) if values.shape[d] else values
        return values

    def passed(self, array: np.ndarray) -> np.ndarray:
        """The array to pass to a call."""
        cut = self.broadcasts and array.size
        return array[tuple(slice(1) if cut and d in self.repeated else slice(None) for d in range(array.ndim))]

    def to_json(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Layout:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list | tuple) else v for k, v in data.items()}
        return Layout(**fields)


def _stored(s: Schedule, args: Sequence[Tensor]) -> list[Tensor]:
    """Intermediates that have memory of their own, of the shape that they were defined with."""
    found = []
    for x in s.stages:
        whole = not any(isinstance(r, Split) and r.tail == "round_up" for r in x.relations)
        own = not x.is_placeholder and x.attach.kind != "inline" and not s.scans.part(x) and s.scans.step_of(x) is None
        if own and whole:
            found += [t for t in x.op.outputs if t not in args and t not in s.outputs and t not in s.scans.storage]
    return found


def random_memory(
    s: Schedule, args: Sequence[Tensor], rng: random.Random, to: Target, values: dict[str, int]
) -> tuple[dict[str, Any], list[str]]:
    """Layouts for some tensors, by name and as JSON, and names of intermediates to be arguments besides `args`.

    `values` are those of sizes and of knobs.
    """
    named = Counter(t.name for op in Graph.of(args).ops for t in op.outputs)
    own = {t for op in Graph.of(args).ops for t in op.outputs if named[t.name] == 1}
    between = [t for t in _stored(s, args) if t in own]
    passed = [t for t in between if s[t].attach.kind == "root" or to.is_cpu]
    passed = rng.sample(passed, min(len(passed), rng.choice((0, 1, 1, 2))))
    passed = [t for t in passed if _fits(s, args, t, None, to, values)]
    usable = [t for t in [*args, *between] if t.ndim and t in own and not s[t].alignments]
    if to.is_gpu_style:  # memory inside a kernel has a constant size
        usable = [t for t in usable if t in args or s[t].attach.kind == "root" or not any(map(variables, t.shape))]
    found: dict[str, Any] = {}
    for t in rng.sample(usable, min(len(usable), rng.choice((0, 1, 2, 3)))):
        made = _random_layout(t, args, passed, rng)
        if _fits(s, [*args, *passed], t, made, to, values):
            found[t.name] = made.to_json()
    return found, [t.name for t in passed]


def _random_layout(t: Tensor, args: Sequence[Tensor], passed: Sequence[Tensor], rng: random.Random) -> Layout:
    order, gaps = rng.sample(range(t.ndim), t.ndim), [rng.choice((0, 0, 1, 3)) for _ in t.shape]
    made = Layout(tuple(order), tuple(gaps), is_open=(t in args or t in passed) and rng.random() < 0.5)
    if not isinstance(t.op, PlaceholderOp) or rng.random() < 0.7:
        return made
    others = {d for x in args if isinstance(x.op, PlaceholderOp) and x is not t for d in x.shape}
    seen = [d for d, n in enumerate(t.shape) if n.op == "const" or n in others]
    repeated = tuple(rng.sample(seen, min(len(seen), 1)))
    return replace(made, is_open=True, repeated=repeated, broadcasts=rng.random() < 0.5)


def _fits(
    s: Schedule, args: Sequence[Tensor], t: Tensor, layout: Layout | None, to: Target, values: dict[str, int]
) -> bool:
    """Whether elements of an intermediate's region lie apart in that layout, without one in an argument.

    Only lowering knows the region.
    """
    if t in args or s[t].attach.kind == "root":
        return True
    try:
        if layout is None:
            lower_structure(s, [*args, t], to)
            return True
        constraints = lower_structure(s, args, to, binds={t: layout.buffer(t)}).constraints
    except (LowerError, ScheduleError) as error:
        if any(known in error.why for known in ("overlap", "would all sum it up in the argument")):
            return False
        raise
    apart = [c.condition for c in constraints if "overlap" in c.reason]
    return all(evaluate([c], {v: values[v.name] for v in variables(c)})[0] for c in apart)
