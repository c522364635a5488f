"""The options of verbs about models in ONNX; see `arguments.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from autosched.cli import options

#: Trials of `tasks`, and of tuning a model, for each task.
TASK_TRIALS = 100

#: ends of files that hold a compiled model with its weights
LIBRARIES = (".so", ".tar")

#: how a pixel from 0 to 255 becomes a number: what is taken off, and what the rest is divided by, for each channel;
#: those of ImageNet are torchvision's
PIXELS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "raw": ((0.0,), (1.0,)),
    "unit": ((0.0,), (255.0,)),
    "centred": ((127.5,), (127.5,)),
    "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}


def compile_model(parser: argparse.ArgumentParser) -> None:
    """Compile a model to files that need nothing of autosched, or to one library that `run` takes.

    In a folder: for llvm a shared library with a header and objects; for c, C99 sources, which `cc` builds alone; for
    opencl, kernels and a launcher. Kernels take the best records there are, else what a model of this machine predicts.

    examples:
      %(prog)s model.onnx -o model/
      %(prog)s model.onnx -o model/ --target c --shape data:1x3x224x224
      %(prog)s model.onnx -o model.so
    """
    _add_model(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        required=True,
        help="the folder to write, or a library with the weights inside, x.so or x.tar",
    )
    options.add_force(parser, "files that are there")
    options.add_effort(parser)
    options.add_flag(parser, "--arrays", "with --target c: weights as C arrays, too, so that nothing has to be loaded")
    options.add_source(parser)


def tune_model(parser: argparse.ArgumentParser) -> None:
    """Tune the kernels of a model under one budget, each as important as it is often called.

    First the untuned model is compared with the reference evaluator of ONNX on random inputs. Records of kernels serve
    every model with the same kernel. Ctrl-C ends the search and keeps what was found.

    examples:
      %(prog)s model.onnx --budget 10m
    """
    _add_model(parser)
    options.add_count(parser, "--trials", f"trials for all kernels together; default {TASK_TRIALS} for each")
    options.add_budget(parser, "time for all kernels, such as 10m")
    options.add_flag(parser, "--unverified", "do not compare with the reference first")
    options.add_search(parser, "folder to resume from and record to; default ./records if there is one, else your own")


def run_model(parser: argparse.ArgumentParser) -> None:
    """Run a model on arrays, and time it.

    Inputs come from a .npz file, by name, or from .npy files or images; those that are not given are random. An image
    is scaled until it covers the input, and cut to its centre. Outputs go to a .npz file, or are summed up in a line
    each. A library that `compile -o model.so` wrote runs as well.

    examples:
      %(prog)s model.onnx --inputs in.npz -o out.npz
      %(prog)s model.onnx --inputs data=cat.jpg --pixels imagenet
      %(prog)s model.onnx --profile --verify
      %(prog)s model.onnx --compare onnxruntime
    """
    _add_model(parser)
    _add_inputs(parser)
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="write the outputs")
    options.add_force(parser)
    options.add_flag(parser, "--profile", "print each kernel: time, share of the roofline, origin of its schedule")
    options.add_flag(parser, "--verify", "compare every intermediate with onnx.reference; exit status 5 if one differs")
    parser.add_argument("--compare", choices=("onnxruntime",), help="time another runtime beside it")
    options.add_effort(parser)
    options.add_source(parser)


def report_model(parser: argparse.ArgumentParser) -> None:
    """Write a model as a page: the network as a picture with the time of each kernel, and a table of them.

    Inputs are as for `run`; those that are not given are random. The page needs no network and no other file.

    examples:
      %(prog)s model.onnx
      %(prog)s model.onnx --inputs data=cat.jpg -o model.html
    """
    _add_model(parser)
    _add_inputs(parser)
    options.add_effort(parser)
    options.add_page(parser)
    options.add_source(parser)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    """The inputs of a model."""
    about = "FILE.npz with arrays by name, NAME=FILE.npy or NAME=IMAGE; may be repeated"
    options.add_list(parser, "--inputs", "FILE", about)
    about = "what pixels of images become: raw 0 to 255, unit 0 to 1, centred -1 to 1, imagenet (mean, deviation)"
    parser.add_argument("--pixels", choices=PIXELS, default="unit", help=f"{about}; default unit")


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL.onnx", help="an ONNX file")
    about = "the shape of an input, data:1x3x224x224, or a symbolic dimension, batch:8; may be repeated"
    options.add_list(parser, "--shape", "NAME:SIZES", about)
    options.add_target(parser)


#: verb -> its options where it is about a model
OF_MODELS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "compile": compile_model,
    "tune": tune_model,
    "run": run_model,
    "report": report_model,
}
