"""Ansor's search policies: options of the one tuning loop, and parts of a search, one by one.

policy = SketchPolicy(task, XGBModel())
task.tune(options, policy)                       # the tuning loop
states = policy.sample_initial_population()      # or by hand: draw, breed, measure
states = policy.evolutionary_search(states, 64)
inputs, results = policy.continue_search_one_round(64, ProgramMeasurer(builder, runner, callbacks))
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from autosched.errors import UsageError
from autosched.records import Record
from autosched.runtime.device import resolve_target, with_machine
from autosched.search import Candidate
from autosched.space.rules import Rule
from autosched.space.space import DEFAULT, SearchSpace
from autosched.tvm.auto_scheduler.cost_model import CostModel, RandomModel, XGBModel
from autosched.tvm.auto_scheduler.evolution import Population
from autosched.tvm.auto_scheduler.loop_state import Base, State, StateObject, TraceState
from autosched.tvm.auto_scheduler.measure import MeasureInput, MeasureResult, ProgramMeasurer
from autosched.tvm.auto_scheduler.measure_record import RecordReader
from autosched.tvm.auto_scheduler.sketch_rules import APPLY, APPLY_AND_SKIP_REST, PASS, rules_of

_logger = logging.getLogger("auto_scheduler")


class SearchCallback:
    """Base of preparations of a search."""


class PreloadMeasuredStates(SearchCallback):
    """Goes on from this package's records in a log: they are not measured again, and the model learns from them.

    Ansor's lines have another space; `SearchTask.apply_best` reads them.
    """

    def __init__(self, filename: str | PathLike[str] = "auto_scheduler_tuning.json") -> None:
        self.filename = str(filename)

    def records(self, key: str) -> list[Record]:
        """Return the records of a computation. Raises RecordError for a file that cannot be read."""
        states = [inp.state for inp, _ in RecordReader(self.filename)]
        ours = [state.record for state in states if isinstance(state, TraceState)]
        if len(ours) < len(states):
            _logger.warning(
                "%s: %d lines are Ansor's, and no points of this space", self.filename, len(states) - len(ours)
            )
        return [r for r in ours if r.key == key]


class PreloadCustomSketchRule(SearchCallback):
    """A rule that is asked before those of the generator."""

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
    """Base of the policies. `model` is that of `autosched.tune`; without `measured`, no candidate is tried."""

    model = "xgb"
    measured = True
    seed = 0
    verbose = 1

    def __init__(self, task: Any, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        self.task = task
        self.preloaded: list[PreloadMeasuredStates] = []
        #: measurements that the model has learnt from
        self.learnt: list[Record] = []
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
    def searches_itself(self) -> bool:
        """Whether `SearchTask.tune` goes by this policy's own rounds."""
        return False

    @property
    def search_task(self) -> Any:
        """The task, as rules ask for it."""
        return self.task

    def rules(self) -> list[Rule]:
        """Return the rules that are asked before those of the generator."""
        return [r for c in self.custom for r in rules_of(c.rule_name, c.meet_condition_func, c.apply_func, self)]

    def set_verbose(self, verbose: int) -> None:
        """0: print nothing."""
        self.verbose = verbose


class EmptyPolicy(SearchPolicy):
    """No search: the default schedule, or the best record."""

    measured = False


class SketchPolicy(SearchPolicy):
    """Searches the generated space with a model: the default policy.

    `params` are those of Ansor's in `DEFAULT_PARAMS`. Populations, generations and chances are those of searching by
    hand; what is about sketches changes nothing, and a warning says so. With a model of a program's own, tuning goes
    by rounds of `continue_search_one_round`: candidates are verified, and there is no play-off. Raises UsageError for a
    parameter that does not exist.
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
        if not isinstance(model, CostModel):
            raise UsageError(
                f"{model!r:.60} is no cost model",
                asked="SketchPolicy(program_cost_model=..)",
                legal="XGBModel(), RandomModel(), or a class of one's own over auto_scheduler.PythonBasedModel",
            )
        self.cost_model = model
        self.preloaded += map(PreloadMeasuredStates, model.logs)
        self.learnt = list(model.records)
        self.model, self.seed, self.verbose = model.name, seed or 0, verbose
        unknown = sorted(set(params or {}) - set(self.DEFAULT_PARAMS))
        if unknown:
            raise UsageError(
                f"there is no parameter {unknown[0]!r}",
                asked="SketchPolicy(params=..)",
                legal=", ".join(self.DEFAULT_PARAMS),
            )
        self.params = {**self.DEFAULT_PARAMS, **(params or {})}
        changed = [name for name, value in self.params.items() if value != self.DEFAULT_PARAMS[name] and name in _FIXED]
        if changed:
            _logger.warning("SketchPolicy: %s change nothing here", ", ".join(changed))
        self._rng = np.random.default_rng(self.seed)
        self._measured: dict[Candidate, float] = {}

    @property
    def searches_itself(self) -> bool:
        """Whether the model is a program's own, which the tuning loop cannot ask."""
        return not isinstance(self.cost_model, (RandomModel, XGBModel))

    @cached_property
    def space(self) -> SearchSpace:
        """The generated space of the task."""
        w = self.task.workload
        target = with_machine(resolve_target(self.task.target))
        return w.search_space(target, w.sizes_at(), "auto", self.rules())  # type: ignore[no-any-return]

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """Return the sketches of the search, less the default schedule. Lengths that are open are expressions."""
        dag, sketches = self.task.compute_dag, self.space.sketches
        made = [s.schedule() for s in sketches if s.name != DEFAULT] or [sketches[0].schedule()]
        states = [State(StateObject(base=Base.of(s, dag)), dag) for s in made]
        if print_for_debug:
            for number, state in enumerate(states):
                print(f"{f' {number} ':=^43}\n{state}")
        return states

    # -- a search by hand -------------------------------------------------------------------------
    @cached_property
    def _population(self) -> Population:
        return Population(self.task, self.space, self._rng)

    def sample_initial_population(self) -> list[State]:
        """Draw states of the space: `sample_init_min_population` of them, or all where there are fewer."""
        return self._population.draw(int(self.params["sample_init_min_population"]))

    def evolutionary_search(self, init_populations: Sequence[Any], out_size: int) -> list[State]:
        """Breed states from these, of this task's space, and return the `out_size` that the model rates best.

        Raises UsageError for a state that is not of the space.
        """
        return self._population.bred(init_populations, out_size, self.cost_model, self.params)

    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Draw, breed, measure, and tell the model. Return what was measured, and the results; nothing when the space
        is exhausted."""
        population = self._population
        best = sorted(self._measured, key=self._measured.__getitem__)[: population.most(self.params) // 5]
        found = population.bred(
            [*self.sample_initial_population(), *map(population.state, best)],
            num_measure,
            self.cost_model,
            self.params,
            known=self._measured,
        )
        inputs = [MeasureInput(self.task, state) for state in found]
        if not inputs:
            return [], []
        results = measurer.measure(self.task, self, inputs)
        self.cost_model.update(inputs, results)  # type: ignore[attr-defined]
        for inp, result in zip(inputs, results, strict=True):
            good = result.costs and not result.error_no
            self._measured[inp.state.point[1]] = sum(result.costs) / len(result.costs) if good else math.inf
        return inputs, results

    def search_by_rounds(self, options: Any) -> None:
        """Measure rounds of candidates until the limits of `TuningOptions` are reached."""
        measurer = ProgramMeasurer(options.builder, options.runner, options.callbacks, options.verbose)
        key = self.task.workload_key
        while measurer.ct < options.num_measure_trials:
            left = options.num_measure_trials - measurer.ct
            if not self.continue_search_one_round(min(options.num_measures_per_round, left), measurer)[0]:
                break
            best = measurer.best_flops.get(key, 0.0)
            if options.verbose and self.verbose:
                _logger.info("%s: %d trials, best %.2f GFLOP/s", key, measurer.ct, best / 1e9)
            since = measurer.ct - measurer.best_ct.get(key, 0)
            if options.early_stopping is not None and since >= options.early_stopping:
                break


#: parameters that change nothing
_FIXED = (
    *("retry_search_one_round_on_empty", "cpu_multi_level_tiling_structure", "gpu_multi_level_tiling_structure"),
    *("max_innermost_split_factor", "max_vectorize_size", "disable_change_compute_location"),
)
