"""`tune`: the kernels of a model under one budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.errors import VerificationError
from autosched.graph.compiled import CompiledModel
from autosched.graph.kernels import Cut, Cutter
from autosched.graph.layout import prepared
from autosched.graph.model import Graph
from autosched.graph.timing import medians
from autosched.graph.verifying import Compared, verify
from autosched.target import Target
from autosched.tuning import Note, tune_tasks
from autosched.tuning.arguments import listener
from autosched.tuning.tasks import TasksResult

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class TunedModel:
    """The result of tuning a model.

    compiled:    the model with what was learnt, whose modules say where their schedules come from; None without inputs
    seconds:     of a whole run as it was before, and as `compiled` is now, timed in turns; None without inputs
    tasks:       what was measured of its kernels; None where none has work
    kernels:     the positions in `cut.kernels` of `tasks.results`
    compared:    tensors of the untuned model beside the reference
    """

    cut: Cut
    tasks: TasksResult | None
    kernels: Sequence[int] = ()
    compared: Sequence[Compared] = ()
    compiled: CompiledModel | None = None
    seconds: tuple[float, float] | None = None


def tune_model(
    graph: Graph,
    target: Target,
    proto: onnx.ModelProto | None = None,
    inputs: Mapping[str, Any] | None = None,
    *,
    progress: Any = None,
    **options: Any,
) -> TunedModel:
    """Tune the distinct kernels of a graph, each as important as it is often called.

    inputs:   with these, whole runs of the model are timed, before and after
    proto:    with inputs, the untuned model is compared with the reference
    progress: as for `tune`
    options:  of `tune_tasks`: budget_s, trials, records, strategy, seed, measure

    Raises VerificationError, before anything is measured, where the untuned model is wrong.
    """
    tell = listener(progress)
    compared: Sequence[Compared] = ()
    before = None if inputs is None else CompiledModel(graph, target, "quick", options.get("records"))
    if before is not None and inputs is not None:
        if proto is not None:
            compared = verify(before, proto, inputs)
            check(compared, graph.name)
        (took,) = medians(lambda: before.run(inputs))
        tell(Note(f"untuned, a run of {graph.name} takes {took * 1e3:.4g} ms"))
    cut = Cutter(prepared(graph)).cut_up() if before is None else before.cut
    chosen = [i for i, k in enumerate(cut.kernels) if k.is_tunable]
    if not chosen:
        return TunedModel(cut, None, (), compared, before)
    kernels = [cut.kernels[i] for i in chosen]
    weights = [float(k.count) for k in kernels]
    tasks = tune_tasks([k.workload for k in kernels], target, weights=weights, progress=tell, **options)
    reached = [chosen[i] for i in tasks.positions]
    if before is None or inputs is None:
        return TunedModel(cut, tasks, reached, compared)
    after = CompiledModel(graph, target, "quick", options.get("records"))
    first, last = medians(lambda: before.run(inputs), lambda: after.run(inputs))
    return TunedModel(cut, tasks, reached, compared, after, (first, last))


def check(compared: Sequence[Compared], name: str) -> None:
    """Raise VerificationError for the first tensor that is wrong."""
    for row in compared:
        if row.is_wrong:
            raise VerificationError(
                f"{row.tensor!r} differs by {row.error:.2g} of its largest value; {row.allowed:.2g} is allowed",
                asked=f"{row.kind} node {row.node!r} of {name}",
                legal="the nodes before it are right; report this with the model",
            )
