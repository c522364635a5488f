"""Loop nests as HTML: each loop a block that folds, coloured by what it is; what it computes inside."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from autosched.ir import stmt as S
from autosched.ir.expr import Expr
from autosched.ir.printer import format_expr
from autosched.ir.stmt import Function, Stmt

#: characters of an expression that are shown; the pointer shows all
LONGEST = 90
#: styles for a page of one's own, such as a notebook's cell
STYLE = """
.nest{font:13px/1.5 ui-monospace,monospace}
.nest details{border-left:4px solid #8888;margin:2px 0 2px 2px;padding-left:10px}
.nest summary{cursor:pointer}
.nest .parallel{border-color:#d97706}.nest .vectorized{border-color:#2563eb}.nest .unrolled{border-color:#7c3aed}
.nest .bound{border-color:#059669}.nest .stage{border-color:#8883;border-left-style:dotted}
.nest b{font-weight:600}.nest small{opacity:.7}
.nest .line{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
"""


def nest_html(f: Function, *, styled: bool = True) -> str:
    """The loops of a function; with `styled` with the styles that they need."""
    style = f"<style>{STYLE}</style>" if styled else ""
    head = ", ".join(f"{b.name}: {b.dtype}[{', '.join(map(_text, b.shape))}]" for b in f.params)
    first = f'<div class="line"><b>{escape(f.name)}</b> <small>{escape(head)}</small></div>'
    return f'{style}<div class="nest">{first}{"".join(_parts(f.body))}</div>'


def _text(e: Expr) -> str:
    return format_expr(e)


def _block(kind: str, head: str, body: Stmt) -> Iterator[str]:
    yield f'<details open class="{kind}"><summary>{head}</summary>'
    yield from _parts(body)
    yield "</details>"


def _line(text: str) -> str:
    shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return f'<div class="line" title="{escape(text)}">{escape(shown)}</div>'


def _parts(s: Stmt) -> Iterator[str]:
    match s:
        case S.For():
            kind = "bound" if s.thread else s.kind
            what = s.thread or ("" if s.kind == "serial" else s.kind)
            start = "" if _text(s.start) == "0" else f" from {_text(s.start)}"
            yield from _block(
                escape(kind),
                f"<b>{escape(_text(s.var))}</b> {escape(_text(s.extent))}{escape(start)} <small>{escape(what)}</small>",
                s.body,
            )
        case S.Produce():
            yield from _block("stage", f"<small>produce</small> {escape(s.name)}", s.body)
        case S.Launch():
            grid, block = (", ".join(map(_text, d)) for d in (s.grid, s.block))
            yield from _block(
                "bound", f"<b>{escape(s.name)}</b> <small>grid {escape(grid)}, group {escape(block)}</small>", s.body
            )
        case S.If():
            yield from _block("stage", f"<small>if</small> {escape(_short(_text(s.condition)))}", s.then)
            if s.otherwise is not None:
                yield from _block("stage", "<small>else</small>", s.otherwise)
        case S.While():
            yield from _block("stage", f"<small>while</small> {escape(_short(_text(s.condition)))}", s.body)
        case S.Seq():
            for part in s.stmts:
                yield from _parts(part)
        case S.Allocate():
            shape = ", ".join(map(_text, s.buffer.shape))
            yield _line(f"allocate {s.buffer.name}: {s.buffer.dtype}[{shape}] {s.buffer.scope}")
            yield from _parts(s.body)
        case S.Let():
            yield _line(f"let {_text(s.var)} = {_text(s.value)}")
            yield from _parts(s.body)
        case S.Store():
            yield _line(f"{s.buffer.name}[{', '.join(map(_text, s.indices))}] = {_text(s.value)}")
        case S.Evaluate():
            yield _line(_text(s.value))
        case S.Barrier():
            yield _line(f"barrier({s.scope})")
        case S.Prefetch():
            yield _line(f"prefetch {s.buffer.name}")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
