"""The best schedule of a search: its calls, the loops after each of them, the code of the hot loop."""

from __future__ import annotations

from autosched.building import plan
from autosched.codegen.asm import marked
from autosched.errors import AutoschedError
from autosched.html import page
from autosched.html.nests import nest_html
from autosched.html.numbers import Search
from autosched.lowering.pipeline import lower_structure
from autosched.records import Record
from autosched.runtime.device import resolve_target
from autosched.schedule.schedule import perform, replay
from autosched.schedule.trace import FOR_TUNING, Trace
from autosched.space.workload import Workload
from autosched.target import Target

#: calls after which loops are drawn, and the pass that they are drawn after
MOST_CALLS, AFTER = 40, "simplify"


def sections(search: Search, w: Workload | None) -> str:
    """The schedule as Python; its loops before and after each call; the code of its hot loop."""
    best = search.best
    if best is None:
        return ""
    trace = Trace.from_json(best.trace)
    python = page.code(w.as_text(best.trace, best.knobs) if w is not None else trace.as_python(knobs=best.knobs))
    found = page.section("The best schedule", python)
    if w is None:
        why = f"No workload {search.task.workload!r} with these records' key was found, so its loops are not drawn."
        return found + page.paragraph(why, dim=True)
    return found + page.section("Its loops, call by call", _calls(search, best, w)) + _hot(search, w)


def _calls(search: Search, best: Record, w: Workload) -> str:
    """The loop nest before the first call and after each that changes it."""
    target = Target.parse(search.task.target)
    steps = [i.at(best.knobs) for i in Trace.from_json(best.trace) if i.kind not in (*FOR_TUNING, "define_knob")]
    s = replay([], w.args)
    shown, before = [], ""
    for n, step in enumerate([None, *steps[:MOST_CALLS]]):
        try:
            if step is not None:
                perform(s, step)
            nest = nest_html(lower_structure(s, w.args, target, w.name, None).after(AFTER, {}), styled=False)
        except AutoschedError:
            continue  # some calls make sense together with the next ones only
        if nest != before:
            head = (
                "without a schedule" if step is None else f"{n}. {Trace([step]).as_python().strip().splitlines()[-1]}"
            )
            shown.append(page.fold(head, nest))
            before = nest
    return "".join(shown)


def _hot(search: Search, w: Workload) -> str:
    """The hot loop in assembly, or the kernel's source, of what `build` compiles now."""
    try:
        target = resolve_target(search.task.target)
        module = plan(w, target, sizes=dict(search.task.sizes) or None).compile()
        if target.is_gpu_style:
            return page.section("Kernel", page.fold("source", page.code(module.get_source()[:20_000])))
        hot = marked(module.assembly, module.artifact.machine, alone=True)
    except AutoschedError as error:
        return page.paragraph(f"No code is shown: {error.why}", dim=True)
    about = page.paragraph("What `build` compiles on this machine now; the loop in which most time goes.", dim=True)
    return page.section("Hot loop", about, page.code(hot[:8_000])) if hot else ""
