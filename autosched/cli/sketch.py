"""Print the sketches of a workload: what tuning searches, as templates to read, copy and change.

Each sketch is a Python function with its knobs. Pasted into a file of search spaces, next to the
workload, it is a template with the same points.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from autosched.cli import options
from autosched.cli.workloads import choose_workload, sizes_of
from autosched.errors import UsageError
from autosched.space.kinds import SPACES

if TYPE_CHECKING:
    from autosched.space.space import SearchSpace, Sketch

EXAMPLES = """\
examples:
  %(prog)s matmul
  %(prog)s matmul --target opencl --space auto
  %(prog)s box_blur --only 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_workload(parser)
    options.add_target(parser)
    parser.add_argument(
        "--space", choices=SPACES, default="auto", help="which sketches: as for `tune`; default %(default)s"
    )
    parser.add_argument(
        "--rule", metavar="NAME", action="append", default=[], help="a sketch rule, as for `tune`; may be repeated"
    )
    parser.add_argument("--only", metavar="N", type=options.count("--only"), help="the sketch of this number alone")
    parser.add_argument("--names", action="store_true", help="only how many there are, and their names")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from autosched.building import search_space

    workload = choose_workload(args)
    sizes = sizes_of(args, workload) or None
    space = search_space(workload, args.target, sizes=sizes, space=args.space, rules=args.rule)
    numbers = range(len(space.sketches)) if args.only is None else [_number(space, args.only) - 1]
    if args.json:
        options.emit(
            {"workload": repr(workload), "target": str(space.target), "sketches": [_facts(space, i) for i in numbers]}
        )
    elif args.names:
        print("\n".join(f"{i + 1:4}  {space.sketches[i].name}" for i in numbers))
    else:
        print("\n\n".join(_as_template(space, i) for i in numbers))
    return 0


def _number(space: SearchSpace, number: int) -> int:
    if 1 <= number <= len(space.sketches):
        return number
    raise UsageError(
        f"there is no sketch {number}", asked=f"sketch --only {number}", legal=f"1 to {len(space.sketches)}"
    )


def _points(sketch: Sketch) -> str:
    return sketch.failure or f"{sketch.valid_points.count} points"


def _facts(space: SearchSpace, i: int) -> dict[str, Any]:
    sketch = space.sketches[i]
    return {
        "number": i + 1,
        "name": sketch.name,
        "points": sketch.valid_points.count,
        "failure": sketch.failure,
        "knobs": {k.name: list(k.values) for k in sketch.knobs},
        "python": _source(sketch, f"sketch_{i + 1}"),
        "trace": sketch.trace,
    }


def _source(sketch: Sketch, name: str) -> str:
    from autosched.schedule.trace import Trace

    return Trace.from_json(sketch.trace).as_python(name)


def _as_template(space: SearchSpace, i: int) -> str:
    """`@template` over the function, and in a comment which decisions led to it."""
    sketch = space.sketches[i]
    of = space.workload.function.__name__ if space.workload.function is not None else space.workload.name
    head = f"# sketch {i + 1} of {len(space.sketches)}, {_points(sketch)}: {sketch.name}"
    decorator = f'@template({of}, target="{space.target.kind}")'
    return f"{head}\n{decorator}\n{_source(sketch, f'sketch_{i + 1}')}".rstrip()
