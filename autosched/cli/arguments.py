"""The options of each verb: one function a verb, whose docstring is the text of `autosched VERB --help`.

The verb itself is `run` in the module of its name, which is loaded once the words are understood, so that `--help`
answers at once.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable

from autosched.cli import options
from autosched.cli.model_arguments import OF_MODELS, TASK_TRIALS, compile_model
from autosched.cli.record_arguments import RECORD_VERBS, compare, records, verb_table
from autosched.space import SPACES

#: Trials of `tune` when neither --trials nor --budget says how long.
TUNE_TRIALS = 200

_SHOWN = ("schedule", "loops", "source", "llvm", "asm", "hot", "passes", "space", "why", "records")
#: shells that `complete` writes scripts for
SHELLS = ("bash", "zsh", "fish", "tcsh")
#: The pass after which `show` prints loops unless told otherwise: knobs bound, borders not yet cut off.
LOOPS_AFTER = "simplify"
LISTINGS = ("workloads", "strategies", "models", "rules", "targets", "passes")


def tune(parser: argparse.ArgumentParser) -> None:
    """Find the fastest schedule of a workload on this machine.

    Candidates are built, compared with the NumPy reference, timed and recorded, until the trials or the
    time are used up. The same command continues where an earlier one stopped. Ctrl-C ends the search and
    keeps the best schedule so far.

    With --at, given several times, one schedule serves several sizes, or a few schedules share them.
    With an ONNX model in place of the workload, its kernels are tuned: see `tune model.onnx --help`.

    examples:
      %(prog)s box_blur --budget 60s
      %(prog)s box_blur --target opencl --trials 500 --input holiday.jpg
      %(prog)s box_blur --param channels=1 --size height=1280 --size width=1920
      %(prog)s box_blur --at height=240,width=320 --at height=1280,width=1920 --budget 3m
    """
    options.add_workload(parser)
    options.add_target(parser)
    options.add_list(
        parser,
        "--at",
        "NAME=N,..",
        "representative sizes, such as height=480,width=640. Repeat it to find one kernel, or a few, that run "
        "nearly as fast as possible at all of them",
    )
    options.add_count(parser, "--kernels", "with --at: use at most N kernels; default 4")
    parser.add_argument(
        "--tolerance",
        metavar="PERCENT",
        type=options.positive("--tolerance", "percent"),
        help="with --at: add a kernel while some size runs more than this slower than its best, in percent; default 5",
    )
    options.add_count(
        parser,
        "--trials",
        f"stop at N trials, earlier runs included; 0 takes the choice of a model without a search; default "
        f"{TUNE_TRIALS}, or no limit with --budget; with --at, for all sizes together, by default 100 for each",
        least=0,
    )
    options.add_budget(parser, "stop after this time, such as 60s or 5m")
    parser.add_argument(
        "--input", metavar="IMAGE", help="tune on this image; it sets channels and dtype unless --param does"
    )
    options.add_search(parser, "folder to resume from and record to; default ./records if there is one, else your own")


def tasks(parser: argparse.ArgumentParser) -> None:
    """Tune several workloads under one budget, the next round always for the one that it helps most.

    A task is a workload, with parameters and a weight where it has any: `softmax`, `matmul(m=512, n=512)`,
    `conv2d_nchw(cin=128)*4`. What is minimised is the time of all of them, each taken as often as its
    weight says.

    examples:
      %(prog)s matmul softmax layer_norm --budget 3m
      %(prog)s "matmul(m=512, n=512, k=512)*8" "softmax(rows=512)*8" --space auto --trials 500
    """
    parser.add_argument("task", metavar="TASK", nargs="+", help="a workload, as in `matmul(m=512)*4`")
    options.add_target(parser)
    options.add_count(parser, "--trials", f"trials for all tasks together; default {TASK_TRIALS} for each")
    options.add_budget(parser, "time for all tasks, such as 5m")
    parser.add_argument(
        "--policy",
        choices=("gradient", "round-robin"),
        default="gradient",
        help="which task comes next: the one that promises most for each second, or each in turn; default %(default)s",
    )
    options.add_count(parser, "--round", "trials in a round; default %(default)s", default=32)
    options.add_search(parser, "folder to resume from and record to; default ./records")


def build(parser: argparse.ArgumentParser) -> None:
    """Compile a workload with the best schedule known, and time one call.

    Without a record of this workload the default schedule is compiled, and the output says so.

    examples:
      %(prog)s box_blur
      %(prog)s box_blur --target opencl -o box_blur.artifact
      then, in Python: Module.load("box_blur.artifact")(image)
    """
    options.add_workload(parser)
    options.add_target(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="save the compiled module, for Module.load(FILE)")
    options.add_force(parser)
    options.add_effort(parser)
    options.add_source(parser)


def export(parser: argparse.ArgumentParser) -> None:
    """Write a kernel for builds that have neither autosched nor, unless they want it, Python.

    The folder has a C header, an example, a Makefile, a Python package, and a README with the commands; for llvm a
    shared library and objects, with -mtriple objects for another machine; for c, C99 sources; for opencl, kernels and
    a launcher. The schedule is that of `build`. See docs/deployment.md; `compile` does this for models.

    examples:
      %(prog)s box_blur -o blur/
      %(prog)s box_blur -o blur/ --target c --size height=1280 --size width=1920
      %(prog)s box_blur -o blur/ --target "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
    """
    options.add_workload(parser)
    options.add_target(parser)
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to write")
    parser.add_argument("--name", metavar="NAME", help="the name of the function in C; default the workload's")
    options.add_force(parser, "files that are there")
    options.add_effort(parser)
    options.add_source(parser)


def run(parser: argparse.ArgumentParser) -> None:
    """Run a workload on an image: an image file in, an image file out.

    The workload's channels and element type follow the image. Without an image it runs on a photograph
    that comes with scikit-learn. An ONNX model runs on arrays: see `run model.onnx --help`.

    examples:
      %(prog)s box_blur
      %(prog)s box_blur holiday.jpg -o blurred.png --target opencl
      %(prog)s box_blur scan.png --verify
    """
    options.add_workload(parser, sizes=False)
    parser.add_argument(
        "image", metavar="IN_IMAGE", nargs="?", help="default: a photograph that comes with scikit-learn"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT_IMAGE", help="its extension chooses the format; default IN_IMAGE.WORKLOAD.png"
    )
    options.add_force(parser)
    options.add_target(parser)
    options.add_records(parser, help=options.FROM)
    options.add_flag(parser, "--bounds-check", "stop with an error where a read leaves its tensor (llvm and c)")
    options.add_flag(parser, "--verify", "compare with the NumPy reference; exit status 5 if they differ")
    options.add_json(parser)


def show(parser: argparse.ArgumentParser) -> None:
    """Print how a workload is computed: its schedule, the loops after any pass, source, LLVM IR or assembly.

    It is what `build` would compile: the best record for this target and device, else the default
    schedule. What is printed goes to standard output, where it came from to standard error.

    examples:
      %(prog)s box_blur
      %(prog)s box_blur --after vectorize
      %(prog)s box_blur --target opencl --source
      %(prog)s box_blur --asm | less
      %(prog)s box_blur --hot
      %(prog)s matmul --space
    """
    options.add_workload(parser)
    options.add_target(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--what", choices=_SHOWN, help="what to print; default schedule")
    group.add_argument(
        "--after", metavar="PASS", help=f"the loops after this pass (see `list passes`); default {LOOPS_AFTER}"
    )
    for name in _SHOWN[:-1]:  # --records is a folder
        group.add_argument(f"--{name}", dest="what", action="store_const", const=name, help=f"same as --what {name}")
    options.add_source(parser)


def sketch(parser: argparse.ArgumentParser) -> None:
    """Print the sketches of a workload: what tuning searches, as templates to read, copy and change.

    Each sketch is a Python function with its knobs. Pasted into a file of search spaces, next to the
    workload, it is a template with the same points. Before them is said which rule settled each stage, and why.

    examples:
      %(prog)s matmul
      %(prog)s matmul --target opencl --space auto
      %(prog)s box_blur --only 3
    """
    options.add_workload(parser)
    options.add_target(parser)
    parser.add_argument(
        "--space", choices=SPACES, default="auto", help="which sketches: as for `tune`; default %(default)s"
    )
    options.add_list(parser, "--rule", "NAME", "a sketch rule, as for `tune`; may be repeated")
    options.add_count(parser, "--only", "the sketch of this number alone")
    options.add_flag(parser, "--names", "only how many there are, and their names")
    options.add_json(parser)


def choose(parser: argparse.ArgumentParser) -> None:
    """Make a schedule by hand: a sketch, then a value for each knob, with the time that a model of this machine
    predicts for each, the best on record, and what it changes in the loop nest.

    Questions go to standard error; the schedule is printed as Python, as `show` prints it. What --sketch and --set
    answer is not asked, nor is anything with --yes, which takes what is predicted best.

    examples:
      %(prog)s matmul
      %(prog)s box_blur --sketch 1 --set lanes=32
      %(prog)s matmul --space auto --yes --measure
    """
    options.add_workload(parser)
    options.add_target(parser)
    parser.add_argument("--space", choices=SPACES, default="", help="which sketches: as for `tune`")
    options.add_list(parser, "--rule", "NAME", "a sketch rule, as for `tune`; may be repeated")
    options.add_count(parser, "--sketch", "the sketch of this number, as `sketch` counts them")
    about = "the value of a knob; may be repeated"
    options.add_list(parser, "--set", "KNOB=VALUE", about, options.assignment("--set", "rows=4"))
    options.add_flag(parser, "--yes", "ask nothing: take what is predicted best for the rest")
    options.add_flag(parser, "--measure", "build it, verify it, time it beside the default schedule, and record it")
    parser.add_argument("-o", "--output", metavar="FILE.py", help="write the schedule to a file")
    options.add_force(parser)
    options.add_records(parser, help="folder of the records to show and, with --measure, to add to")
    options.add_json(parser)


def explain(parser: argparse.ArgumentParser) -> None:
    """Say what each call of a schedule is worth: undo it, measure again, interleaved with the schedule as it is.

    RECORD is a workload, for its best record on the target; an id that `records` shows, or the beginning of one; or
    FILE.jsonl:LINE, or FILE.jsonl for the best in it. A call that cannot be undone alone says why. See docs/explain.md.

    examples:
      %(prog)s box_blur
      %(prog)s matmul --param dtype=int8
      %(prog)s 47068b8e
      %(prog)s records/conv2d_nchw.llvm.jsonl:14 --rounds 31
    """
    _add_record(parser)
    options.add_json(parser)


def simplify(parser: argparse.ArgumentParser) -> None:
    """Leave out of a schedule what is worth nothing within 2 %, and print the shortest that is as fast.

    After each call that goes, the rest is measured against the original, interleaved; at the end once more for
    longer. RECORD is named as for `explain`.

    examples:
      %(prog)s box_blur
      %(prog)s matmul --param dtype=int8 --write
    """
    _add_record(parser)
    options.add_flag(parser, "--write", "append what is left as a record of its own")
    options.add_json(parser)


def list_names(parser: argparse.ArgumentParser) -> None:
    """List what can be named on the command line: workloads, strategies, cost models, rules, targets and passes.

    Of a name, what is known: a workload's parameters and templates, a strategy's options, a target's options.

    examples:
      %(prog)s
      %(prog)s strategies
      %(prog)s box_blur
      %(prog)s workloads --json
    """
    about = f"only these ({', '.join(LISTINGS)}), or all about one name; default all, a line each"
    parser.add_argument("what", nargs="?", metavar="WHAT", help=about)
    options.add_json(parser)


def simulate(parser: argparse.ArgumentParser) -> None:
    """Run strategies over search spaces that were measured to the last point: many seeds, no device.

    A table says how many trials each strategy needs to come near the best of a space, and how near it is
    after so many; times are multiples of the best. Curves of the best so far go to a file.

    examples:
      %(prog)s                                               # which spaces there are
      %(prog)s matmul-1024 --strategy random --strategy guided --output curves.svg
      %(prog)s all --strategy experiments/my_strategy.py:HillClimber --strategy random --seeds 100
      %(prog)s matmul-1024 --strategy guided --prime matmul-512 --output curves.json
    """
    parser.add_argument("spaces", metavar="SPACE", nargs="*", help="recorded spaces, or all; none lists them")
    options.add_list(
        parser,
        "--strategy",
        "NAME",
        "a name that `list` shows, or file.py:Class, with options as NAME,option=value; may be repeated; "
        "default: random and the default strategy",
    )
    parser.add_argument("--model", metavar="NAME", default="xgb", help="the cost model; default %(default)s")
    options.add_count(parser, "--seeds", "runs of each; default %(default)s", default=20)
    options.add_count(parser, "--trials", "of a run; default %(default)s", default=200)
    options.add_count(parser, "--batch", "candidates at a time; default 16")
    about = "show the cost model points of this space first, as records of another shape would; may be repeated"
    options.add_list(parser, "--prime", "SPACE", about)
    options.add_count(parser, "--prime-trials", "default %(default)s", default=100)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the curves: .svg, or .json with all figures")
    options.add_force(parser)
    options.add_count(parser, "--processes", "default one per CPU")
    options.add_flag(parser, "--renew", "compute the features of the spaces again, write them, and stop")
    options.add_records(parser, help="folder whose subfolder `simulated` holds the spaces")
    options.add_json(parser)


def roofline(parser: argparse.ArgumentParser) -> None:
    """Measure how fast this machine can be at best: bandwidth of each memory level, peak of multiply-adds.

    It takes some seconds, once: the result is kept in your cache folder, and from then on `tune`, `build` and
    `show` say how near to it a schedule comes. Close other programs first.

    examples:
      %(prog)s
      %(prog)s --refresh
      %(prog)s --json
    """
    options.add_flag(parser, "--refresh", "measure again, even if it is known")
    options.add_target(parser)
    options.add_json(parser)


def report(parser: argparse.ArgumentParser) -> None:
    """Write what searches did as one HTML file, which needs no network: curves, the best candidates and their loops
    call by call, which knobs mattered, failures, and how to reproduce it.

    Of an ONNX model in their place, the network with the time of each kernel: see `report model.onnx --help`.

    examples:
      %(prog)s box_blur
      %(prog)s records/*.jsonl -o all.html
      %(prog)s box_blur --watch
    """
    parser.add_argument(
        "sources", metavar="WORKLOAD|FILE", nargs="*", help="workloads, .jsonl files or folders; default all there are"
    )
    options.add_page(parser)
    parser.add_argument("--target", metavar="TARGET", default=None, help="searches for this kind of target only")
    options.add_flag(parser, "--watch", "write it again whenever there are new records, until Ctrl-C")
    options.add_flag(
        parser, "--compare", "time the best candidates, and the best of each run, in turns: do they differ?"
    )
    options.add_flag(parser, "--explain", "measure what each call of the best schedules is worth, and show it")
    options.add_records(parser, help="look for workloads in this folder only")
    options.add_json(parser)


def cache(parser: argparse.ArgumentParser) -> None:
    """List what autosched keeps in the user's cache folder, or remove it: all of it can be found out again.

    Records are not among it: they are kept in folders of their own (`autosched records`).

    examples:
      %(prog)s
      %(prog)s prune --older 30d
      %(prog)s clear --only builds
    """
    parser.add_argument(
        "action",
        choices=("list", "prune", "clear"),
        nargs="?",
        default="list",
        help="list; prune what was not used for long; clear all; default %(default)s",
    )
    options.add_list(parser, "--only", "KIND", "this kind, such as builds or predictions; may be repeated")
    parser.add_argument(
        "--older", metavar="TIME", type=options.duration("--older"),
        help="prune what was last used so long ago; default 30d",
    )  # fmt: skip
    options.add_json(parser)


def complete(parser: argparse.ArgumentParser) -> None:
    """Print a script with which a shell completes verbs, options and their values. It needs the package `shtab`.

    examples:
      %(prog)s bash > ~/.local/share/bash-completion/completions/autosched
      %(prog)s zsh > ~/.zfunc/_autosched
    """
    parser.add_argument("shell", choices=SHELLS, help="whose script")
    options.add_json(parser)


def doctor(parser: argparse.ArgumentParser) -> None:
    """Say what autosched finds on this machine, and how to get what it does not find.

    Nothing missing is an error: the exit status is 0.

    examples:
      %(prog)s
      %(prog)s --json
    """
    options.add_json(parser)


# -- options of several verbs ---------------------------------------------------------------------
def _add_record(parser: argparse.ArgumentParser) -> None:
    """The record that `explain` and `simplify` take."""
    options.add_workload(
        parser,
        metavar="RECORD",
        help="a workload (its best record), the id of a record, FILE.jsonl:LINE, or FILE.jsonl (the best in it)",
    )
    parser.add_argument(
        "--target", metavar="TARGET", default=None, help="what to run on; default: what the record is for, or llvm"
    )
    options.add_records(parser, help="look for records in this folder only")
    about = "rounds of the play-offs, at least 6; default %(default)s, and more where they do not decide"
    options.add_count(parser, "--rounds", about, default=15, least=6)


#: verb -> its options, and what it does, in the order of the help text
VERBS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "tune": (tune, "find the fastest schedule of a workload on this machine"),
    "tasks": (tasks, "tune several workloads under one budget"),
    "build": (build, "compile a workload with the best schedule known"),
    "compile": (compile_model, "compile an ONNX model to files"),
    "export": (export, "write a kernel for builds without Python"),
    "run": (run, "run a workload on an image"),
    "show": (show, "print a schedule, its loops, source or assembly"),
    "sketch": (sketch, "print what tuning searches, as templates to edit"),
    "choose": (choose, "make a schedule by hand, with what each choice comes to"),
    "explain": (explain, "say what each call of a schedule is worth"),
    "simplify": (simplify, "leave out of a schedule what is worth nothing"),
    "list": (list_names, "list workloads, strategies, models, rules, targets and passes"),
    "records": (records, "summarise, merge, prune, verify or export what tuning recorded"),
    "compare": (compare, "say whether two schedules really differ"),
    "report": (report, "write what searches did as one HTML file"),
    "simulate": (simulate, "run strategies over measured search spaces, without a device"),
    "roofline": (roofline, "measure how fast this machine can be at best"),
    "cache": (cache, "list, prune or clear what is kept for later processes"),
    "complete": (complete, "print a shell's completion script"),
    "doctor": (doctor, "say what autosched finds on this machine"),
}


def add_arguments(parser: argparse.ArgumentParser, verb: str, of_model: bool = False) -> None:
    """Give the parser of a verb its options, description and examples; `records merge` is a verb of two words."""
    first, _, second = verb.partition(" ")
    add = OF_MODELS[verb] if of_model else RECORD_VERBS[second][0] if second else VERBS[first][0]
    about, _, examples = (inspect.getdoc(add) or "").partition("\n\nexamples:\n")
    parser.description, parser.epilog = about.replace("{verbs}", verb_table()), f"examples:\n{examples}"
    add(parser)
