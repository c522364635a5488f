"""A schedule is its trace: whatever made it, its JSON and its Python make it again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from autosched import te
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule, replay
from autosched.target import Target
from autosched.te import Tensor


def assert_roundtrip(s: Schedule, args: Sequence[Tensor], target: Target | str = "llvm") -> None:
    """Trace -> JSON -> replay, and trace -> Python -> exec, give the same trace and the same loops.

    Each is lowered on a graph of its own, read back from JSON as a worker process does, because the
    order of terms in a sum follows the order in which its variables were made.
    """
    trace = s.trace.to_json()
    graphs = [te.graph_from_json(te.graph_to_json(args)) for _ in range(2)]

    replayed = replay(json.loads(json.dumps(trace)), graphs[0])
    assert replayed.trace.to_json() == trace
    assert repr(replayed) == repr(s)

    names: dict[str, object] = {"te": te}
    exec(s.trace.as_python(), names)
    choices = {i.args[0]: i.args[1] for i in s.trace if i.kind == "choose"}
    executed = create_schedule(graphs[1]).with_choices(choices)
    names["schedule"](executed)  # type: ignore[operator]
    assert executed.trace.to_json() == [i for i in trace if i[0] != "choose"]
    assert repr(executed) == repr(s)

    texts = [str(lower_structure(x, graph, target)) for x, graph in zip((replayed, executed), graphs, strict=True)]
    assert texts[0] == texts[1]
