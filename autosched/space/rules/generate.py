"""All rules together: a template for any program."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from autosched.errors import AutoschedError, UsageError
from autosched.plugins import PluginKind, load_class, plugin_names
from autosched.schedule.schedule import Schedule
from autosched.space.rules import (
    alongside,
    both_ways,
    butterflies,
    gpu,
    inline,
    pairs,
    pixels,
    rows,
    scans,
    scatters,
    sums,
    tiles,
    turned,
)
from autosched.space.rules.engine import Plan, Rule, Walk
from autosched.space.running import go_on
from autosched.space.space import SearchSpace, template_space, with_default
from autosched.space.workload import Template, Workload
from autosched.target import Target

#: Sketches that the rules may make of one workload.
MAX_SKETCHES = 1024

#: Rules of plug-ins, and of files.
RULES = PluginKind("rule", "autosched.rules", {}, ("when", "apply"), "rule", "write it under @rule(when=...)")


def load_rule(name: str) -> Rule:
    """The rule of an entry point of the group `autosched.rules`, or `path/to/file.py:name`. Raises UsageError."""
    found = load_class(RULES, name)
    if not isinstance(found, Rule):
        raise UsageError("it is not a rule", asked=f"rule {name!r}", legal=RULES.legal)
    return found


def rule_names() -> dict[str, str]:
    """Rules of installed packages -> where each comes from."""
    return plugin_names(RULES)


def cpu_rules() -> tuple[Rule, ...]:
    """The rules for loops on a CPU, in the order in which they are asked."""
    return (
        scans.scan_in_blocks,
        scans.scan_side_by_side,
        scans.step_in_vectors,
        scans.sums_before_the_state,
        scans.products_in_a_step,
        scans.lanes_in_a_step,
        scans.sums_over_states,
        scans.scan_in_steps,
        scans.steps_in_tiles,
        scans.inline_in_a_step,
        scans.step_in_rows,
        scans.sums_of_a_step,
        alongside.places_along_a_scan,
        alongside.stream_along_a_scan,
        scatters.rows_of_a_scatter,
        scatters.private_copies,
        scatters.copies_of_bands,
        inline.leave_opaque,
        inline.unroll_constant,
        inline.always_inline,
        butterflies.butterflies,
        sums.parts_of_rows,
        tiles.fuse_epilogue,
        pairs.sums_of_pairs,
        tiles.multi_level_tiling,
        inline.output_in_a_reader,
        inline.compute_location,
        both_ways.rows_and_columns,
        sums.columns_of_short_rows,
        sums.pieces_of_rows,
        sums.lanes_that_change,
        sums.rows_in_lanes,
        sums.lanes_of_sums,
        sums.bands_of_rows,
        sums.sums_of_columns,
        sums.reduction_in_place,
        pixels.whole_pixels,
        pixels.planes_of_pixels,
        rows.blocks_of_rows,
        turned.turned_tiles,
        rows.whole_rows,
    )


def gpu_rules() -> tuple[Rule, ...]:
    """The rules for kernels, in the order in which they are asked."""
    return (
        gpu.launched_steps,
        scatters.copies_of_items,
        gpu.opaque_kernels,
        inline.always_inline,
        tiles.fuse_epilogue,
        gpu.shared_tiles,
        gpu.pieces_of_sums,
        gpu.group_reduction,
        gpu.row_groups,
        gpu.inline_or_share,
        gpu.patches,
        gpu.elements,
    )


def generated(target: Target, rules: Sequence[Rule | str] = ()) -> Template:
    """The template that applies rules, given ones before those for the kind of target."""
    own = cpu_rules() if target.is_cpu else gpu_rules()
    asked = (*(load_rule(r) if isinstance(r, str) else r for r in rules), *own)

    def walk(s: Schedule, target: Target) -> Walk:
        if target.is_cpu:
            go_on(s)
        inline.separate_windows(s)
        inline.write_out_stencils(s, for_items=not target.is_cpu)
        if target.is_cpu:
            inline.compute_phases(s)
            inline.store_paddings(s)
        both_ways.read_once(s)
        if target.is_cpu:
            inline.compute_maps_together(s)
        plan = Plan(s, target)
        if target.is_cpu:
            inline.compute_terms(plan)
        return Walk(plan, asked)

    def auto(s: Schedule, target: Target) -> None:
        walk(s, target).finish()

    return Template("auto", str(target.kind), auto, MAX_SKETCHES, walk)


def space_of(
    workload: Workload, target: Target, sizes: dict[str, int], space: str, rules: Sequence[Rule | str]
) -> SearchSpace:
    """The sketches of the workload's templates, of rules, or of both: see `Workload.search_space`."""
    own = workload.templates_for(target)
    made = generated(target, rules)  # which refuses rules that nobody knows
    auto = [made] if space in ("auto", "all") or not (own or space) else []
    if rules and not auto:
        why = f"no rule is asked: the templates of {workload.name} are searched; space='auto' or 'all' asks rules, too"
        warnings.warn(why, RuntimeWarning, stacklevel=3)
    try:
        found = template_space(workload, target, sizes, (own if space != "auto" else []) + auto)
    except AutoschedError as error:
        if rules or not auto or (own and space != "auto"):
            raise
        found = SearchSpace(workload, target, (), {auto[0].name: str(error)})
    return with_default(found, sizes) if auto else found
