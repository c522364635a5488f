"""`tvm.contrib.tedd`: schedules as graphs in the language of Graphviz.

    tedd.viz_dataflow_graph(s, dot_file_path="flow.dot")        who reads what
    tedd.viz_schedule_tree(s, dot_file_path="tree.dot")         loops, and what is computed inside which
    tedd.viz_itervar_relationship_graph(s, output_dot_string=True)      how loops were split and fused

`dot -Tsvg flow.dot` draws one.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from autosched.errors import UsageError, check_path, expect, named_file
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Split, Stage
from autosched.tvm._missing import missing
from autosched.tvm.attributes import loop_type


def viz_dataflow_graph(
    sch: Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """Stages and the tensors that they read and write.

    show_svg:          not here: draw the file with `dot`
    dot_file_path:     the file to write
    output_dot_string: return the text

    Raises UsageError for what is no schedule, FileError where the file cannot be written.
    """
    lines = []
    numbers = _numbered(sch)
    for stage, k in numbers.items():
        lines.append(_node(f"Stage_{k}", [f"{stage.name}", f"Scope: {stage.scope}"], "box"))
        for output, t in enumerate(stage.op.outputs):
            lines.append(_node(f"Tensor_{k}_{output}", [t.name, f"{t.dtype}{list(t.shape)}"], "ellipse"))
            lines.append(f"  Stage_{k} -> Tensor_{k}_{output}")
    for stage, k in numbers.items():
        for t in stage.reads_of_body():
            lines.append(f"  Tensor_{numbers[sch.stage(t)]}_{t.value_index} -> Stage_{k}")
    return _graph("Dataflow Graph", lines, show_svg, dot_file_path, output_dot_string)


def viz_schedule_tree(
    sch: Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """Stages with their loops, outermost first, and the loops that other stages are computed at; options as above."""
    lines = ["  ROOT [label=ROOT]"]
    numbers = _numbered(sch)
    for stage, k in numbers.items():
        rows = [f"{stage.name} (Scope: {stage.scope})", *map(_loop_text, stage.loops), *map(repr, stage.body)]
        lines.append(_node(f"Stage_{k}", rows, "box"))
        at, host = stage.attach.loop, stage.attach.stage
        if stage.attach.kind == "inline":
            lines.append(f'  Stage_{k} -> ROOT [style=dotted label="inline"]')
        elif host is None or at is None:
            lines.append(f"  Stage_{k} -> ROOT")
        else:
            lines.append(f'  Stage_{k} -> Stage_{numbers[host]} [color="#000000" label="at {html.escape(at.name)}"]')
    return _graph("Schedule Tree", lines, show_svg, dot_file_path, output_dot_string)


def viz_itervar_relationship_graph(
    sch: Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """The axes of each stage, and the loops that splits and fusions made of them; options as above."""
    lines = []
    for stage, k in _numbered(sch).items():
        lines.append(f'  subgraph cluster_Stage_{k} {{ label="{html.escape(stage.name)}"')
        loops = [*stage.roots.values(), *(x for r in stage.relations for x in r.made)]
        called = {loop: f"IterVar_{k}_{n}" for n, loop in enumerate(dict.fromkeys(loops))}
        lines += [_node(name, [_loop_text(loop)], "box") for loop, name in called.items()]
        for n, r in enumerate(stage.relations):
            kind = text = "Fuse"
            if isinstance(r, Split):
                kind, text = "Split", f"Split {'factor' if r.factor is not None else 'nparts'}={r.amount!r}"
            lines.append(_node(f"{kind}_Relation_{k}_{n}", [text], "ellipse"))
            lines += [f"  {called[x]} -> {kind}_Relation_{k}_{n}" for x in r.parents]
            lines += [f"  {kind}_Relation_{k}_{n} -> {called[x]}" for x in r.made]
        lines.append("  }")
    return _graph("IterVar Relationship Graph", lines, show_svg, dot_file_path, output_dot_string)


def _numbered(sch: Schedule) -> dict[Stage, int]:
    expect(sch, "a schedule", isinstance(sch, Schedule), "tedd")
    return {stage: k for k, stage in enumerate(sch.stages)}


def _loop_text(loop: Loop) -> str:
    kind = loop_type(loop).name
    domain = "" if loop.dom is None else f" {loop.dom!r}"
    return f"{loop.name} (k{kind}{f' {loop.thread}' if loop.thread else ''}){domain}"


def _node(name: str, rows: Iterable[str], shape: str) -> str:
    return f"  {name} [shape={shape} label=<{'<br/>'.join(map(html.escape, rows))}>]"


def _graph(name: str, lines: list[str], show_svg: bool, path: str, returned: bool) -> str | None:
    if show_svg:
        legal = 'dot_file_path="graph.dot", and: dot -Tsvg graph.dot -o graph.svg'
        raise UsageError("graphs are text here", asked="show_svg=True", legal=legal)
    text = "\n".join((f'digraph "{name}" {{', "  rankdir=BT", *lines, "}", ""))
    if path:
        asked = f"dot_file_path={path!r}"
        with named_file(asked):
            check_path(path, asked).write_text(text, encoding="utf-8")
    return text if returned else None


__getattr__ = missing("contrib.tedd", globals())
