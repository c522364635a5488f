"""Leave out of a schedule what is worth nothing within 2 %, and print the shortest that is as fast.

After each call that goes, the rest is measured against the original, interleaved; at the end once more for
longer. RECORD is named as for `explain`.
"""

from __future__ import annotations

import argparse
import sys

from autosched.cli import options
from autosched.cli.explain import add_record, chosen

EXAMPLES = """\
examples:
  %(prog)s box_blur
  %(prog)s matmul --param dtype=int8 --write
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_record(parser)
    parser.add_argument("--write", action="store_true", help="append what is left as a record of its own")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from autosched.explaining import simplify

    what, more = chosen(args)
    found = simplify(what, **more, write=args.write)
    if args.json:
        options.emit(found.to_json())
        return 0
    print("\n".join(found.headline()), file=sys.stderr)
    for line in found.removed:
        print(f"  gone: {line}", file=sys.stderr)
    print(found.schedule_python.rstrip("\n"))
    if found.record is not None:
        print(f"record {found.record.id} written to {found.written}", file=sys.stderr)
    elif args.write:
        print("nothing can go: no record is written", file=sys.stderr)
    return 0
