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
from autosched.graph.verifying import Compared, verify
from autosched.target import Target
from autosched.tuning import tune_tasks
from autosched.tuning.tasks import TasksResult

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class TunedModel:
    """The result of tuning a model. `cut` has its kernels, in the order of `tasks.results`."""

    cut: Cut
    tasks: TasksResult | None
    #: tensors of the untuned model beside the reference, where that was compared
    compared: Sequence[Compared] = ()


def tune_model(
    graph: Graph,
    target: Target,
    proto: onnx.ModelProto | None = None,
    inputs: Mapping[str, Any] | None = None,
    **options: Any,
) -> TunedModel:
    """Tune the distinct kernels of a graph, each as important as it is often called.

    proto, inputs: with both, the untuned model is built first and compared with the reference
    options:       of `tune_tasks`: budget_s, trials, records, strategy, seed, measure, progress

    Raises VerificationError, before anything is measured, where the untuned model is wrong.
    """
    compared: Sequence[Compared] = ()
    if proto is not None and inputs is not None:
        compared = verify(CompiledModel(graph, target, "none", options.get("records")), proto, inputs)
        check(compared, graph.name)
    cut = Cutter(prepared(graph)).cut_up()
    chosen = [k for k in cut.kernels if k.is_tunable]
    if not chosen:
        return TunedModel(cut, None, compared)
    weights = [float(k.count) for k in chosen]
    return TunedModel(cut, tune_tasks([k.workload for k in chosen], target, weights=weights, **options), compared)


def check(compared: Sequence[Compared], name: str) -> None:
    """Raise VerificationError for the first tensor that is wrong."""
    for row in compared:
        if row.is_wrong:
            raise VerificationError(
                f"{row.tensor!r} differs by {row.error:.2g} of its largest value; {row.allowed:.2g} is allowed",
                asked=f"{row.kind} node {row.node!r} of {name}",
                legal="the nodes before it are right; report this with the model",
            )
