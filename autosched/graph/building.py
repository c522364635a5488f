"""Kernels of a model compiled, several at a time in processes of their own where each takes its time.

python -m autosched.graph.building          answers questions of `build_all`
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched import errors
from autosched.codegen.artifact import Artifact
from autosched.errors import AutoschedError, ModelError
from autosched.measure.frames import serve
from autosched.measure.workers import ask_all
from autosched.planning import AS_ASKED, default_plan, plans_to_try
from autosched.space.workload import Workload
from autosched.target import Target, cpu_count
from autosched.te.graph_json import graph_from_json

#: kernels for which it is worth while to start processes, and seconds that one may take
ENOUGH, LIMIT_S = 4, 600.0
#: seconds of computing for the prediction of a kernel: a model has dozens
PREDICTION_S = 2.0


@dataclass(frozen=True)
class Built:
    """A compiled kernel, and where its schedule came from (`Module.provenance`)."""

    artifact: Artifact
    provenance: dict[str, Any]


def build_all(
    kernels: Sequence[Workload],
    names: Sequence[str],
    target: Target,
    effort: str = "quick",
    records: str | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Built]:
    """The kernels under these names: with default schedules for the effort "none", else each with its best record, or
    what a model predicts.

    Raises BuildError or LowerError for one that has no code.
    """
    processes = min(cpu_count(), len(kernels) // 2)
    if effort == "none" or len(kernels) < ENOUGH or processes < 2:
        found = []
        for k, (w, name) in enumerate(zip(kernels, names, strict=True)):
            found.append(build_one(w, name, target, effort, records))
            progress(k + 1, len(kernels))
        return found
    with tempfile.TemporaryDirectory(prefix="autosched-model-") as folder:
        questions = [
            {
                "graph": w.graph,
                "workload": w.name,
                "name": name,
                "target": str(target),
                "effort": effort,
                "records": records,
                "file": str(Path(folder) / f"{k}.artifact"),
            }
            for k, (w, name) in enumerate(zip(kernels, names, strict=True))
        ]
        built: dict[int, Built] = {}
        for number, reply in ask_all(questions, __name__, processes, LIMIT_S, lambda q: f"kernel {q['name']}"):
            if "error" in reply:
                kind = getattr(errors, reply["error"], ModelError)
                raise kind(reply["why"], asked=f"kernel {names[number]}: {reply['asked']}", legal=reply["legal"])
            built[number] = Built(Artifact.load(str(questions[number]["file"])), reply["provenance"])
            progress(len(built), len(kernels))
    return [built[k] for k in range(len(kernels))]


def build_one(w: Workload, name: str, target: Target, effort: str, records: str | None) -> Built:
    """One kernel."""
    if effort == "none":
        module = default_plan(w, target, name, AS_ASKED).compile()
        return Built(module.artifact, module.provenance)
    last: AutoschedError | None = None
    for plan in plans_to_try(w, target, records, None, name, PREDICTION_S):
        try:
            module = plan.compile()
            plan.check(module, w)
            return Built(module.artifact, module.provenance)
        except AutoschedError as error:
            if plan.provenance["kind"] == "default":
                raise
            last = error
    raise last or ModelError("nothing to build", asked=name, legal="a schedule that applies")


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        w = Workload(question["workload"], tuple(graph_from_json(question["graph"])), is_anonymous=True)
        target = Target.parse(question["target"])
        built = build_one(w, question["name"], target, question["effort"], question["records"])
    except AutoschedError as error:
        return {"error": type(error).__name__, "why": error.why, "asked": error.asked, "legal": error.legal}
    built.artifact.save(question["file"])
    return {"provenance": built.provenance}


if __name__ == "__main__":
    serve(_answer)
