"""Traces under other names: stages and loops go by name in a trace, and names are none of a workload's key.

Who renames a tensor keeps what was learnt: a record says how the stages and axes of its program were called, and its
trace is replayed under the names of the one that is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autosched.schedule import formulas
from autosched.schedule import kinds as K
from autosched.schedule.primitive import PRIMITIVES
from autosched.schedule.schedule import create_schedule
from autosched.schedule.trace import Instruction, Trace
from autosched.te.tensor import Graph, Tensor

_STAGES = (K.HOST, K.TENSOR, K.READERS, K.STAGES)
_LOOPS = ("loop", "axis")


def names_of(args: Sequence[Tensor]) -> list[list[str]]:
    """Of each operation that computes `args`: the name of its stage, and those of its axes. Programs of one key have as
    many. An argument that nothing reads has no stage.

    >>> from autosched import te
    >>> A = te.placeholder((4,), name="A")
    >>> names_of([A, te.compute((4,), lambda i: A[i] + 1, name="B")])
    [['A'], ['B', 'i']]
    """
    s = create_schedule(list(args))
    return [[s.stage(op).name, *(a.name for a in _axes(op))] for op in Graph.of(args).ops if op in s.stage_map]


def under_own_names(trace: Any, names: Sequence[Sequence[str]] | None, args: Sequence[Tensor]) -> Any:
    """A recorded trace for the program that computes `args`; `names` are those of the program it was recorded of, None
    where nobody noted them. Raises RecordError for what is no trace."""
    return trace if names is None else renamed(trace, names, names_of(args))


def _axes(op: Any) -> list[Any]:
    scans = [op.scan_axis, *op.spatial_axis_] if hasattr(op, "scan_axis") else []
    return [*scans, *getattr(op, "axis", ()), *getattr(op, "reduce_axis", ())]


def renamed(trace: Any, before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> Any:
    """A trace of a program whose names are `before`, as JSON, for one of the same computation whose names are `after`.

    As it is, where the two are no programs of one key. Raises RecordError for what is no trace.

    >>> trace = [["split", "B", "i", {"factor": 8}], ["vectorize", "B", "i.inner"]]
    >>> renamed(trace, [["A"], ["B", "i"]], [["x"], ["y", "j"]])
    [['split', 'y', 'j', {'factor': 8}], ['vectorize', 'y', 'j.inner']]
    """
    if before == after or [*map(len, before)] != [*map(len, after)]:
        return trace
    stages = {old[0]: new[0] for old, new in zip(before, after, strict=True)}
    axes = {old[0]: dict(zip(old[1:], new[1:], strict=True)) for old, new in zip(before, after, strict=True)}
    anywhere = {old: new for of_one in reversed(axes.values()) for old, new in of_one.items()}
    of_stage = _renaming(stages)

    def instruction(i: Instruction) -> Instruction:
        if i.kind not in PRIMITIVES:
            return i
        host = next((a for a, kind in zip(i.args, i.kinds, strict=True) if kind is K.HOST), i.stage)

        def change(data: Any, kind: K.Kind) -> Any:
            if kind in _STAGES:
                return [of_stage(x) for x in data] if isinstance(data, list) else of_stage(data)
            own = axes.get(_owner(host if kind is K.HOST_LOOP else i.stage, stages), {})
            of_loop = _renaming({**anywhere, **own})  # a copy for a reader has axes of the reader
            if kind.name in _LOOPS:
                return of_loop(data)
            return formulas.replaced(data, "loop", lambda name: ["loop", of_loop(name)]) if kind.formula else data

        return replace(i.mapped(change), stage=of_stage(i.stage))

    return [instruction(i).to_json() for i in Trace.from_json(trace)]


def _owner(stage: str, known: Mapping[str, str]) -> str:
    """The operation that a stage was made from: `c.rf` and `c.vectors` from `c`."""
    found = [name for name in known if stage == name or stage.startswith(f"{name}.")]
    return max(found, key=len, default=stage)


def _renaming(names: Mapping[str, str]) -> Callable[[str], str]:
    """Replaces names that stand in a name whole, or before and after dots: `i` in `i.j.fused` and `i.outer`."""
    if not names:
        return lambda name: name
    listed = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![^.])(?:{listed})(?![^.])")
    return lambda name: pattern.sub(lambda found: names[found[0]], name)
