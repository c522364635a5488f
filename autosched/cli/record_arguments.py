"""The options of the verbs about records: `records`, its own verbs such as `records merge`, and `compare`.

A word right after `records` that is one of `RECORD_VERBS` is that verb; any other is a workload or a file to list.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from autosched.cli import options

#: what `records export` writes
FORMATS = ("csv", "parquet", "t4", "optuna")
#: what `records split` makes files or folders of
PARTS = ("workload", "target", "device")
#: Rounds of a play-off.
_ROUNDS = 15


def records(parser: argparse.ArgumentParser) -> None:
    """Summarise what tuning recorded: the best schedules first, how trials ended, and damaged lines.

    One of these words right after `records` does something else; `records VERB --help` says what it takes.

    {verbs}

    examples:
      %(prog)s box_blur
      %(prog)s records/*.jsonl --check
      %(prog)s box_blur --export csv > box_blur.csv
    """
    _add_sources(parser)
    options.add_count(parser, "--top", "show the N best; default %(default)s, 0 for all", default=10, least=0)
    options.add_flag(parser, "--check", "exit with status 4 if any line is damaged")
    parser.add_argument("--export", choices=("csv",), help="print every line as a table instead")
    _add_folder(parser)
    options.add_json(parser)


def list_records(parser: argparse.ArgumentParser) -> None:
    """Summarise what tuning recorded, as `records` does; a workload may have the name of a verb here.

    examples:
      %(prog)s box_blur --top 3
    """
    _add_sources(parser)
    options.add_count(parser, "--top", "show the N best; default %(default)s, 0 for all", default=10, least=0)
    _add_folder(parser)
    options.add_json(parser)
    parser.set_defaults(check=False, export=None)


def best(parser: argparse.ArgumentParser) -> None:
    """Print the best record of each task: a workload at some sizes, for a target, on a device.

    examples:
      %(prog)s
      %(prog)s records/ --json
    """
    _add_sources(parser)
    _add_folder(parser)
    options.add_json(parser)


def check(parser: argparse.ArgumentParser) -> None:
    """Read every line, and name those that are damaged: exit status 4 if there is any.

    examples:
      %(prog)s records/
    """
    _add_sources(parser)
    _add_folder(parser)
    options.add_json(parser)


def repair(parser: argparse.ArgumentParser) -> None:
    """Take damaged lines out of files: they go to NAME.damaged beside NAME.jsonl. Whole records inside of them stay.

    examples:
      %(prog)s records/ --dry-run
      %(prog)s box_blur
    """
    _add_sources(parser, nargs="+")
    _add_dry_run(parser)
    _add_folder(parser)
    options.add_json(parser)


def merge(parser: argparse.ArgumentParser) -> None:
    """Bring the lines of several files and folders together, each once.

    What the output holds already stays. Lines that cannot be read go to NAME.damaged there.

    examples:
      %(prog)s laptop/ server/ -o records/
      %(prog)s old.jsonl records/box_blur.llvm.jsonl -o all.jsonl
    """
    _add_sources(parser, nargs="+")
    parser.add_argument(
        "-o", "--output", metavar="DIR|FILE.jsonl", required=True, help="a folder, which has a file for each workload "
        "and kind of target, or one file"
    )  # fmt: skip
    _add_dry_run(parser)
    _add_folder(parser)
    options.add_json(parser)


def prune(parser: argparse.ArgumentParser) -> None:
    """Drop trials that nobody will ask for. A file is replaced whole; `tune` may write to it meanwhile.

    With --keep, `build` chooses what it chose before. `tune` no longer knows what was tried, and may try it again.

    examples:
      %(prog)s records/ --keep 10 --dry-run
      %(prog)s box_blur --keep 3 --older 90d
      %(prog)s records/*.jsonl --failures
    """
    _add_sources(parser, nargs="+")
    about = "drop what is not among the N best of a workload, target, device and set of sizes"
    options.add_count(parser, "--keep", about)
    parser.add_argument(
        "--older", metavar="TIME", type=options.duration("--older"),
        help="drop what is older, such as 90d; with --keep, the best stay however old",
    )  # fmt: skip
    options.add_flag(parser, "--failures", "drop trials that failed; wrong results stay, and keep their schedules out")
    _add_dry_run(parser)
    _add_folder(parser)
    options.add_json(parser)


def split(parser: argparse.ArgumentParser) -> None:
    """Copy lines to files of their workloads, in folders for targets or devices. The sources stay as they are.

    examples:
      %(prog)s all.jsonl -o records/
      %(prog)s records/ -o by-device/ --by device --by target
    """
    _add_sources(parser, nargs="+")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to write to")
    parser.add_argument(
        "--by", choices=PARTS, action="append", default=[],
        help="workload (the default): a file for each, and for each kind of target; target, device: a folder for each. "
        "May be repeated, the outermost folder first",
    )  # fmt: skip
    _add_dry_run(parser)
    _add_folder(parser)
    options.add_json(parser)


def diff(parser: argparse.ArgumentParser) -> None:
    """Compare the best records of two folders or files: which tasks are new or gone, which are faster or slower.

    Significance is that of the recorded samples, which were taken at two times: `autosched compare` measures both in
    turns.

    examples:
      %(prog)s before/ records/
    """
    parser.add_argument("before", metavar="A", help="a folder or a .jsonl file")
    parser.add_argument("after", metavar="B", help="a folder or a .jsonl file")
    options.add_json(parser)


def verify(parser: argparse.ArgumentParser) -> None:
    """Build the best record of each task of this machine again, check its result, and time it in turns with the default
    schedule.

    Exit status 5 if a result is wrong, 7 if one is slower than recorded by more than --regress, 4 if one cannot be
    applied any more, 3 if there is nothing to verify. What was recorded is the speed-up over the default schedule,
    which a play-off or the log has; else the time.

    examples:
      %(prog)s --regress 5%%
      %(prog)s records/matmul.llvm.jsonl --regress 10%% --json
    """
    _add_sources(parser)
    parser.add_argument(
        "--regress", metavar="PERCENT", type=options.percent("--regress"),
        help="fail where a record is slower than it was by more than this; by default only results are judged",
    )  # fmt: skip
    options.add_count(
        parser, "--rounds", "rounds of each play-off, at least 6; default %(default)s", default=_ROUNDS, least=6
    )
    _add_folder(parser)
    options.add_json(parser)


def export(parser: argparse.ArgumentParser) -> None:
    """Write records for other programs: a table, Kernel Tuner's T4 results, or Optuna studies.

    Of several tasks, t4 makes a folder with a file for each, and optuna a study for each in one storage, which
    optuna-dashboard opens. A database takes about 10 ms for each trial, a journal less.

    examples:
      %(prog)s box_blur > box_blur.csv
      %(prog)s records/ -o all.parquet
      %(prog)s box_blur --format t4 -o box_blur.json
      %(prog)s box_blur --format optuna -o box_blur.db
    """
    _add_sources(parser)
    parser.add_argument(
        "--format", choices=FORMATS, default=None,
        help="default: what the end of the output's name says (.csv, .parquet, .json for t4, .db and sqlite:// for "
        "optuna), else csv",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FILE", default=None,
        help="default standard output, for csv and for t4 of one task",
    )  # fmt: skip
    options.add_force(parser, "a file, or a study of the same name, that is there")
    _add_folder(parser)
    options.add_json(parser)


def import_logs(parser: argparse.ArgumentParser) -> None:
    """Make records of logs of AutoTVM, auto_scheduler (Ansor) and TenSet.

    A log says how programs were scheduled, but not what they compute: --define names Python files that register their
    templates and workloads through `autosched.tvm`. Times of a log are another compiler's on another device, so `build`
    does not use them: --measure builds the fastest of each task here, verifies and times them, and records that.

    examples:
      %(prog)s tuned.log --define templates.py -o records/
      %(prog)s tenset/*.json --define networks.py -o records/ --measure 3
    """
    parser.add_argument("files", metavar="LOG", nargs="+", help="a file of lines")
    options.add_list(parser, "--define", "FILE.py", "a Python file that registers what logs are about; may be repeated")
    parser.add_argument("-o", "--output", metavar="DIR", default=None, help="the folder of records; or --dry-run")
    options.add_count(parser, "--measure", "also measure the N fastest of each task on this machine")
    _add_dry_run(parser)
    options.add_json(parser)


def compare(parser: argparse.ArgumentParser) -> None:
    """Say whether two schedules really differ: time both in turns, in one process, and judge the ratio.

    A and B are each: the id of a record or the beginning of it; FILE.jsonl:LINE; FILE.jsonl or a folder, for the best
    in it; a workload, for its best record; FILE.py with `def schedule(s)`, as `show` prints it; or `default`.

    examples:
      %(prog)s 47068b8e 5be1c0ff
      %(prog)s before/ records/ --workload matmul
      %(prog)s box_blur default
      %(prog)s mine.py default --workload box_blur
    """
    parser.add_argument("a", metavar="A", help="a record, schedule.py, or default")
    parser.add_argument("b", metavar="B", help="the other one")
    parser.add_argument(
        "--workload", metavar="WORKLOAD", default=None, help="what they compute; default: what a record says"
    )
    about = "a parameter of the workload, such as channels=4; may be repeated"
    options.add_list(parser, "--param", "NAME=VALUE", about, options.assignment("--param"))
    about = "a size that the workload leaves open, such as height=1280; may be repeated"
    options.add_list(parser, "--size", "NAME=N", about, options.assignment("--size"))
    parser.add_argument(
        "--target", metavar="TARGET", default=None, help="what to run on; default: what a record is for, or llvm"
    )
    about = "rounds of the play-off, at least 6; default %(default)s, and three times as many where they do not decide"
    options.add_count(parser, "--rounds", about, default=_ROUNDS, least=6)
    _add_folder(parser)
    options.add_json(parser)


def _add_sources(parser: argparse.ArgumentParser, nargs: str = "*") -> None:
    about = "workloads, .jsonl files or folders" + ("; default all there are" if nargs == "*" else "")
    parser.add_argument("sources", metavar="WORKLOAD|FILE", nargs=nargs, help=about)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    options.add_records(parser, help="look for workloads in this folder only")


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    options.add_flag(parser, "--dry-run", "say what would be done, and do nothing")


#: verb after `records` -> its options, and what it does, in the order of the help text
RECORD_VERBS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "list": (list_records, "summarise records"),
    "best": (best, "the best record of each task"),
    "check": (check, "name damaged lines"),
    "repair": (repair, "take damaged lines out of files"),
    "merge": (merge, "bring files and folders together"),
    "prune": (prune, "drop trials that nobody will ask for"),
    "split": (split, "files or folders for workloads, targets, devices"),
    "diff": (diff, "what is new, gone, faster or slower"),
    "verify": (verify, "build the best records again, check and time them"),
    "export": (export, "csv, parquet, Kernel Tuner's T4, Optuna"),
    "import": (import_logs, "logs of AutoTVM, Ansor and TenSet"),
}


def verb_table() -> str:
    """The verbs after `records`, a line each."""
    return "\n".join(f"  {name:8}  {what}" for name, (_, what) in RECORD_VERBS.items())
