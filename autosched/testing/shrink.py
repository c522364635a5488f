"""`shrink`: smaller cases that fail in the same way, with fewer instructions, operations, outputs, elements.

The search is greedy: it takes the first smaller case that still fails, and starts again. A case that cannot be
scheduled or run at all fails in another way, and `fails` rejects it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from autosched.errors import AutoschedError
from autosched.ir.expr import variables
from autosched.schedule.schedule import create_schedule, perform
from autosched.schedule.trace import Trace
from autosched.te.graph_json import graph_from_json, graph_to_json
from autosched.te.tensor import Graph, PlaceholderOp
from autosched.testing.case import Case
from autosched.testing.schedules import with_numbers


def shrink(case: Case, fails: Callable[[Case], bool], attempts: int = 300) -> Case:
    """The smallest case found for which `fails` holds, after `attempts` at most.

    >>> small = shrink(Case.draw(7, "interpreter"), lambda case: True)
    >>> small.trace
    []
    """
    progress = True
    while progress and attempts:
        progress = False
        for candidate in smaller(case):
            if not attempts:
                break
            attempts -= 1
            if fails(candidate):
                case, progress = candidate, True
                break
    return case


def smaller(case: Case) -> Iterator[Case]:
    """Cases that are a step smaller, the boldest steps first."""
    yield from _without_instructions(case)
    yield from _without_operations(case)
    for name in case.layouts:
        yield replace(case, layouts={k: v for k, v in case.layouts.items() if k != name})
    for name in case.passed:
        yield replace(case, passed=[x for x in case.passed if x != name])
    if case.knobs:
        yield replace(case, trace=with_numbers(case.trace, case.knobs), knobs={})
    yield from _with_smaller_sizes(case)
    yield from _with_smaller_factors(case)


def _without_instructions(case: Case) -> Iterator[Case]:
    """Half of the trace left out, then a quarter, and so on down to single instructions."""
    count = len(case.trace)
    width = count
    while width:
        for start in range(0, count, width):
            yield _repaired(replace(case, trace=case.trace[:start] + case.trace[start + width :]))
        width //= 2


def _repaired(case: Case) -> Case:
    """The case without the instructions that do not apply any more, and without their knobs."""
    s = create_schedule([t for t in case.program.args if not isinstance(t.op, PlaceholderOp)])
    for instruction in Trace.from_json(case.trace):
        try:
            perform(s, instruction)
        except AutoschedError:
            continue
    return replace(case, trace=s.trace.to_json(), knobs={k: v for k, v in case.knobs.items() if k in s.knobs})


def _without_operations(case: Case) -> Iterator[Case]:
    """An output left out, an intermediate as the only output, an intermediate as an input."""
    args = graph_from_json(case.graph)
    outputs = [at for at, t in zip(case.graph["args"], args, strict=True) if not isinstance(t.op, PlaceholderOp)]
    if len(outputs) > 1:
        for at in outputs:
            yield from _cut(case, [x for x in outputs if x != at], ())
    computed = [k for k, entry in enumerate(case.graph["ops"]) if {"body", "scan", "extern"} & entry.keys()]
    for k in computed:
        if [k] != outputs:
            yield from _cut(case, [k], ())
    for k in computed:
        if k not in outputs:
            yield from _cut(case, outputs, (k,))


def _cut(case: Case, outputs: list[Any], inputs: tuple[int, ...]) -> Iterator[Case]:
    """The case for `outputs` alone, with the operations at `inputs` turned into placeholders."""
    graph = copy.deepcopy(case.graph)
    for k in inputs:
        graph["ops"][k] = {key: graph["ops"][k][key] for key in ("name", "dtype", "shape")}
    states = {
        t if isinstance(t, int) else t[0] for entry in graph["ops"] for t in entry.get("scan", {}).get("state", ())
    }
    leaves = [
        k for k, entry in enumerate(graph["ops"]) if not {"body", "scan", "extern"} & entry.keys() and k not in states
    ]
    graph["args"] = [*leaves, *outputs]
    try:
        args = graph_from_json(graph)
        wanted = args[len(leaves) :]
        needed = set(Graph.of(wanted).ops)
    except (AutoschedError, KeyError, IndexError):
        return
    kept = [t for t in args[: len(leaves)] if t.op in needed]
    sizes = {v.name for t in (*kept, *wanted) for d in t.shape for v in variables(d)}
    cut = case.with_graph(graph_to_json([*kept, *wanted]), {k: v for k, v in case.sizes.items() if k in sizes})
    yield _repaired(cut)


def _with_smaller_sizes(case: Case) -> Iterator[Case]:
    for name, size in case.sizes.items():
        for less in sorted({1, 2, size // 2, size - 1}):
            if 0 < less < size:
                yield replace(case, sizes={**case.sizes, name: less})


def _with_smaller_factors(case: Case) -> Iterator[Case]:
    """Numbers in the trace made smaller, one at a time."""
    for at, (kind, *rest) in enumerate(case.trace):
        for less in _smaller_numbers(rest):
            yield _repaired(replace(case, trace=[*case.trace[:at], [kind, *less], *case.trace[at + 1 :]]))


def _smaller_numbers(data: Any) -> Iterator[Any]:
    if isinstance(data, int) and not isinstance(data, bool) and data > 2:
        yield from (2, data // 2) if data > 5 else (2,)
    elif isinstance(data, list):
        for k, x in enumerate(data):
            yield from ([*data[:k], less, *data[k + 1 :]] for less in _smaller_numbers(x))
    elif isinstance(data, dict):
        for k, x in data.items():
            yield from ({**data, k: less} for less in _smaller_numbers(x))
