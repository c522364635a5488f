"""Which of TVM's names a program uses, and whether they are here, before it is run:

    python -m autosched.tvm.coverage conv.py tune.py          what does not simply work
    python -m autosched.tvm.coverage conv.py --all --json     every name, for programs

Files are parsed, not run. What is looked up: imports, chains of attributes that begin at one (`tvm.te.compute`, or
`T.x` after `from tvm import te as T`), methods of schedules and their stages, and the keyword arguments of such calls.

Texts that name a target, or the scope of storage, are looked at, too.

works: it is here. differs: it is here, and is not quite the same. replaced: it is not here, and something else does its
work. missing: it is not here. The exit status is 0 if all work, 1 if not, 2 for a file that is no program.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from autosched.errors import AutoschedError, UsageError, check_path, did_you_mean, named_file
from autosched.schedule.loop import SCOPES
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.target import KINDS
from autosched.tvm._missing import missing, replacement
from autosched.tvm.members import MEMBERS

STATUSES = ("works", "differs", "replaced", "missing")

#: name of TVM's, with all below it -> what is not as in TVM: the table of docs/tvm.md, too
DIFFERS = {
    "register_func": "programs call it with NumPy arrays, which have numpy(), copyto() and copyfrom()",
    "te.schedule.InferBound": "a stage at the root computes all of its elements, not those alone that are read",
    "te.schedule.ScheduleOps": "bounds are inferred anew, whatever is given",
    "tir.stmt_functor": "nodes are of this package: stores name buffers, loops carry what AttrStmt says in TVM",
    "tir.transform": "passes of this pipeline by TVM's names, each over lowered functions",
    "tir.vscale": "schedules take numbers of lanes: it can be written, and no target computes it",
    "ir.save_json": "schedules, tensors, expressions and functions of blocks, not lowered loops; not TVM's format",
    "contrib.mkl": "the BLAS that NumPy calls, whichever that is",
    "contrib.dnnl": "the BLAS that NumPy calls, whichever that is",
    **dict.fromkeys(
        (f"contrib.{x}" for x in "cudnn ndk nnpack rocm spirv thrust xcode".split()), "it only says that it is not here"
    ),
    "contrib.pickle_memoize": "files are read and written with save_at_exit=True only, and hold arrays and numbers",
    "contrib.random": "numbers of NumPy's generator; tvm.contrib.random.seed makes them the same again",
    "relay.backend": "executors and runtimes are names: what calls a module is this package's own",
    "autotvm.tophub": "nothing is downloaded: extra_files name logs",
    "auto_scheduler.SketchPolicy": "its parameters change nothing: the search is that of autosched.tune",
}


@dataclass
class Use:
    """A name, without `tvm.`, where it stands, and what is known of it."""

    name: str
    file: str
    lines: list[int] = field(default_factory=list)
    status: str = "works"
    what: str = ""


def names_used(source: str, file: str = "program") -> list[Use]:
    """TVM's names in a program, in order of their first lines, with what is known of each.

    Raises UsageError for text that is no Python.

    >>> for use in names_used("from tvm import te as T\\nA = T.placeholder((8,))\\n@T.hybrid.script\\ndef f(): ..."):
    ...     print(use.name, use.lines, use.status)
    te [1] works
    te.placeholder [2] works
    te.hybrid.script [3] works
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"it does not parse: {error}", asked=file, legal="a program in Python 3") from None
    found: dict[str, Use] = {}
    for name, line, keywords in sorted(_found(tree), key=lambda x: x[1]):
        use = found.setdefault(name, Use(name, file))
        if line not in use.lines:
            use.lines.append(line)
        status, what = _known(name, keywords)
        if STATUSES.index(status) > STATUSES.index(use.status):
            use.status, use.what = status, what
    for name, line, what in _texts(tree):
        use = found.setdefault(name, Use(name, file, status="replaced", what=what))
        use.lines.append(line)
    return list(found.values())


def _texts(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Scopes and targets that are written out and not here: what to call them, line, what to do."""
    for node in ast.walk(tree):
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if called not in ("cache_read", "cache_write", "set_scope", "Target") or not isinstance(node, ast.Call):
            continue
        for a in (*node.args, *(k.value for k in node.keywords)):
            text = a.value if isinstance(a, ast.Constant) and isinstance(a.value, str) else ""
            kind = text.partition(" ")[0]
            if called == "Target" and re.fullmatch("[a-z]+", kind) and kind not in KINDS and kind in _TARGETS:
                yield f'target.Target("{kind}")', a.lineno, f"targets: {', '.join(KINDS)}"
            elif called != "Target" and text.partition(".")[0] in _SCOPES:
                yield f'scope "{text}"', a.lineno, f"scopes: {', '.join(SCOPES)}, warp; tensor cores are not programmed"


#: targets and scopes of TVM's that there is no code for
_TARGETS = "metal vulkan rocm webgpu hexagon hip sdaccel aocl aocl_sw_emu stackvm ext_dev vta adreno nvptx".split()
_SCOPES = "wmma texture metal m16n8k8 local_weight local_acc acc wgt inp".split()


# -- what a program uses --------------------------------------------------------------------------------

#: how names of imported things begin: `tvm`, or this package's
_ROOTS = ("tvm", "autosched.tvm")


def _below(dotted: str) -> str | None:
    """A dotted name without `tvm.`; None for that of something else."""
    for root in _ROOTS:
        if dotted == root or dotted.startswith(f"{root}."):
            return dotted.removeprefix(root).removeprefix(".")
    return None


def _found(tree: ast.AST) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Name, line, keyword arguments."""
    known = dict(_imports(tree))
    schedules = {t.id for t in _targets(tree, known) if isinstance(t, ast.Name)}
    inner: set[ast.AST] = set()
    for name, line in _import_lines(tree):
        yield name, line, ()
    for node in ast.walk(tree):  # outermost first: of a chain of attributes, the whole
        of_call = node.func if isinstance(node, ast.Call) else node
        if of_call in inner or not isinstance(of_call, (ast.Attribute, ast.Name)):
            continue
        used = _dotted(of_call, known, schedules)
        if used and (isinstance(node, ast.Call) or isinstance(of_call, ast.Attribute)):
            inner.update(ast.walk(of_call))
            keywords = [k.arg for k in node.keywords if k.arg] if isinstance(node, ast.Call) else []
            yield used, of_call.lineno, tuple(keywords)


def _import_lines(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [_below(a.name) for a in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found = [
                _below(node.module or "") if a.name == "*" else _below(f"{node.module}.{a.name}") for a in node.names
            ]
        else:
            continue
        yield from ((name, node.lineno) for name in found if name)


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Variable, and the dotted name that it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                below = _below(a.name)
                if below is not None:
                    yield a.asname or a.name.partition(".")[0], a.name if a.asname else a.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for a in node.names:
                if _below(f"{node.module}.{a.name}") is not None:
                    yield a.asname or a.name, f"{node.module}.{a.name}"


def _targets(tree: ast.AST, known: dict[str, str]) -> Iterator[ast.expr]:
    """What schedules are assigned to."""
    for node in ast.walk(tree):
        call = node.value if isinstance(node, ast.Assign) else None
        if isinstance(call, ast.Call) and (_dotted(call.func, known, set()) or "").endswith("create_schedule"):
            yield from node.targets  # type: ignore[attr-defined]


def _dotted(node: ast.expr, known: dict[str, str], schedules: set[str]) -> str | None:
    """The name without `tvm.` of a chain of attributes; None for that of something else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in schedules:
        return f"te.Stage.{parts[0]}" if parts else None
    if not isinstance(node, ast.Name):
        return None
    if node.id in schedules:
        return f"te.Schedule.{parts[0]}" if parts else None
    return _below(".".join((known[node.id], *parts))) if node.id in known else None


# -- what is here -----------------------------------------------------------------------------------------


def _known(name: str, keywords: tuple[str, ...]) -> tuple[str, str]:
    """The status of a name that is called with these keyword arguments, and what to know or to do."""
    try:
        value = _value(name)
    except AutoschedError as error:
        return ("replaced" if replacement(name) else "missing"), error.legal
    except AttributeError:
        owner, _, last = name.rpartition(".")
        if last in MEMBERS.get(owner, {}):
            return "replaced", MEMBERS[owner][last]
        return "missing", f"{did_you_mean(last, _parts(owner))}dir(tvm.{owner}) lists what there is"
    strange = [k for k in keywords if not _takes(value, k)]
    if strange:
        return "missing", f"there is no argument {', '.join(strange)}: help(tvm.{name}) lists those there are"
    parts = name.split(".")
    differs = (DIFFERS.get(".".join(parts[:n])) for n in range(len(parts), 0, -1))
    what = next((d for d in differs if d), "")
    return ("differs", what) if what else ("works", "")


def _value(name: str) -> Any:
    """What stands under a name. Raises AutoschedError or AttributeError for one that does not."""
    for cls in (Stage, Schedule):
        if name.startswith(f"te.{cls.__name__}."):
            return _method(cls, name.rpartition(".")[2])
    value: Any = import_module("autosched.tvm")
    module = "autosched.tvm"
    for part in name.split("."):
        module += f".{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            if not inspect.ismodule(value):
                raise
            try:
                value = import_module(module)
            except ImportError:
                value = getattr(value, part)  # whose error knows more of names
    return value


def _parts(name: str) -> list[str]:
    """The public parts of what a name stands for; none of one that is not here."""
    try:
        return [part for part in dir(_value(name)) if not part.startswith("_")]
    except (AutoschedError, AttributeError):
        return []


def _method(cls: type, name: str) -> Any:
    """A method or attribute of an instance."""
    found = getattr(cls, name, None)
    if found is None and name not in inspect.getsource(cls):
        raise AttributeError(name)
    return found


def _takes(value: Any, keyword: str) -> bool:
    """Whether a call takes a keyword argument, as far as that can be told."""
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return True
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


# -- the command ------------------------------------------------------------------------------------------


def report(uses: list[Use], every: bool = False) -> str:
    """A line for each name that does not simply work, or for every one, and how many there are of each status."""
    shown = [u for u in uses if every or u.status != "works"]
    width = max((len(u.name) for u in shown), default=0)
    lines = []
    for u in shown:
        places = ",".join(map(str, u.lines[:3])) + (",.." if len(u.lines) > 3 else "")
        name = u.name if u.name.startswith("scope ") else f"tvm.{u.name}"
        lines.append(f"{name:<{width + 4}}  {u.status:<8}  {u.file}:{places}")
        if u.what:
            lines.append(f"    {u.what}")
    counts = {status: sum(u.status == status for u in uses) for status in STATUSES}
    counted = f"{len(uses)} {'name' if len(uses) == 1 else 'names'} of TVM's"
    return "\n".join((*lines, f"{counted}: {', '.join(f'{n} {status}' for status, n in counts.items() if n)}"))


def main(argv: list[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    about = (__doc__ or "").strip()
    parser = argparse.ArgumentParser(
        prog="python -m autosched.tvm.coverage", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE.py")
    parser.add_argument("--all", action="store_true", help="list what works, too")
    parser.add_argument("--json", action="store_true", help="write a list of names, for programs")
    options = parser.parse_args(argv)
    uses: list[Use] = []
    try:
        for file in options.files:
            with named_file(file):
                uses += names_used(check_path(file, file).read_text(encoding="utf-8", errors="replace"), file)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([asdict(u) for u in uses if options.all or u.status != "works"], indent=1))
    else:
        print(report(uses, options.all))
    return int(any(u.status != "works" for u in uses))


__getattr__ = missing("coverage", globals())

if __name__ == "__main__":
    sys.exit(main())
