"""How to search: Ansor's policies, as options of the one tuning loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar

from autosched.errors import UsageError
from autosched.records import Record
from autosched.runtime.device import resolve_target, with_machine
from autosched.space.rules import Rule
from autosched.space.space import DEFAULT
from autosched.tvm.auto_scheduler.cost_model import RandomModel, XGBModel
from autosched.tvm.auto_scheduler.loop_state import Base, State, StateObject, TraceState
from autosched.tvm.auto_scheduler.measure_record import RecordReader
from autosched.tvm.auto_scheduler.sketch_rule import APPLY, APPLY_AND_SKIP_REST, PASS, rules_of

__all__ = [
    "EmptyPolicy",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "SearchCallback",
    "SearchPolicy",
    "SketchPolicy",
]

_logger = logging.getLogger("auto_scheduler")


class SearchCallback:
    """Base of what is done before a search begins."""


class PreloadMeasuredStates(SearchCallback):
    """Go on from the records of a log: they are not measured again, and the model learns from them.

    Those are records of this package. Lines of Ansor's have another space; `SearchTask.apply_best` reads them.
    """

    def __init__(self, filename: str | PathLike[str] = "auto_scheduler_tuning.json") -> None:
        self.filename = str(filename)

    def records(self, key: str) -> list[Record]:
        """The records of a computation. Raises RecordError for a file that cannot be read."""
        states = [inp.state for inp, _ in RecordReader(self.filename)]
        ours = [state.record for state in states if isinstance(state, TraceState)]
        if len(ours) < len(states):
            _logger.warning(
                "%s: %d lines are Ansor's, and no points of this space", self.filename, len(states) - len(ours)
            )
        return [r for r in ours if r.key == key]


class PreloadCustomSketchRule(SearchCallback):
    """A rule that is asked before those of the generator: see `sketch_rule`."""

    PASS, APPLY, APPLY_AND_SKIP_REST = PASS, APPLY, APPLY_AND_SKIP_REST

    def __init__(
        self,
        meet_condition_func: Callable[..., Any],
        apply_func: Callable[..., Any],
        rule_name: str = "CustomSketchRule",
    ) -> None:
        if not callable(meet_condition_func) or not callable(apply_func):
            raise UsageError(
                "its condition and what it applies are no functions",
                asked=f"PreloadCustomSketchRule(rule_name={rule_name!r})",
                legal="functions of (policy, state, stage_id)",
            )
        self.meet_condition_func, self.apply_func, self.rule_name = meet_condition_func, apply_func, rule_name


class SearchPolicy:
    """Base of the policies. `model` is that of `autosched.tune`; `measured` says whether candidates are tried."""

    model = "xgb"
    measured = True
    seed = 0
    verbose = 1

    def __init__(self, task: Any, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        self.task = task
        self.preloaded: list[PreloadMeasuredStates] = []
        self.custom: list[PreloadCustomSketchRule] = []
        for callback in init_search_callbacks or ():
            if isinstance(callback, PreloadMeasuredStates):
                self.preloaded.append(callback)
            elif isinstance(callback, PreloadCustomSketchRule):
                self.custom.append(callback)
            else:
                raise UsageError(
                    f"{callback!r:.60} is none",
                    asked=f"{type(self).__name__}(init_search_callbacks=..)",
                    legal="PreloadMeasuredStates(log), PreloadCustomSketchRule(meet_condition_func, apply_func)",
                )

    @property
    def search_task(self) -> Any:
        """The task, as rules ask for it."""
        return self.task

    def rules(self) -> list[Rule]:
        """What is asked before the rules of the generator."""
        return [r for c in self.custom for r in rules_of(c.rule_name, c.meet_condition_func, c.apply_func, self)]

    def set_verbose(self, verbose: int) -> None:
        """0: print nothing."""
        self.verbose = verbose


class EmptyPolicy(SearchPolicy):
    """No search: what is there without one."""

    measured = False


class SketchPolicy(SearchPolicy):
    """The generated space, searched with a model: the default.

    `params` are Ansor's; see `DEFAULT_PARAMS` for those that there are. What they tune is done otherwise here,
    so that they change nothing, which is told. Raises UsageError for a parameter that does not exist.
    """

    DEFAULT_PARAMS: ClassVar[dict[str, Any]] = {
        "eps_greedy": 0.05,
        "retry_search_one_round_on_empty": 1,
        "sample_init_min_population": 50,
        "sample_init_use_measured_ratio": 0.2,
        "evolutionary_search_population": 2048,
        "evolutionary_search_num_iters": 4,
        "evolutionary_search_mutation_prob": 0.85,
        "cpu_multi_level_tiling_structure": "SSRSRS",
        "gpu_multi_level_tiling_structure": "SSSRRSRS",
        "max_innermost_split_factor": 64,
        "max_vectorize_size": 16,
        "disable_change_compute_location": 0,
    }

    def __init__(
        self,
        task: Any,
        program_cost_model: Any = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] | None = None,
    ) -> None:
        super().__init__(task, init_search_callbacks)
        model = RandomModel() if program_cost_model is None else program_cost_model
        if not isinstance(model, (RandomModel, XGBModel)):
            raise UsageError(
                f"{model!r:.60} is no cost model",
                asked="SketchPolicy(program_cost_model=..)",
                legal='XGBModel(), RandomModel(); autosched.tune(.., model="FILE.py:CLASS") takes models of one\'s own',
            )
        self.preloaded += map(PreloadMeasuredStates, model.logs)
        self.model, self.seed, self.verbose = model.name, seed or 0, verbose
        unknown = sorted(set(params or {}) - set(self.DEFAULT_PARAMS))
        if unknown:
            raise UsageError(
                f"there is no parameter {unknown[0]!r}",
                asked="SketchPolicy(params=..)",
                legal=", ".join(self.DEFAULT_PARAMS),
            )
        changed = [name for name, value in (params or {}).items() if value != self.DEFAULT_PARAMS[name]]
        if changed:
            _logger.warning("SketchPolicy: %s change nothing here", ", ".join(changed))

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """The sketches that are searched, but for the default schedule. Lengths that are open are expressions."""
        dag, w = self.task.compute_dag, self.task.workload
        target = with_machine(resolve_target(self.task.target))
        space = w.search_space(target, w.sizes_at(), "auto", self.rules())
        made = [s.schedule() for s in space.sketches if s.name != DEFAULT] or [space.sketches[0].schedule()]
        states = [State(StateObject(base=Base.of(s, dag)), dag) for s in made]
        if print_for_debug:
            print("\n\n".join(map(str, states)))
        return states
