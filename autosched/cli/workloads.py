"""Workloads by command-line words, and commands to paste by workloads."""

from __future__ import annotations

import argparse
import ast
import shlex
from collections.abc import Iterable
from typing import Any

import numpy as np

from autosched.cli.images import grey
from autosched.cli.options import program
from autosched.errors import UsageError, did_you_mean
from autosched.raw.kernel import RawKernel
from autosched.space.loading import find_workload
from autosched.space.workload import Workload, WorkloadFunction


def choose_workload(args: argparse.Namespace, image: np.ndarray[Any, Any] | None = None) -> Workload:
    """The workload of the command line, with `--param`s; `image` decides on those not given.

    Raises WorkloadError for an unknown workload, UsageError for a parameter it does not have, and for a raw kernel.
    """
    found = choose_tunable(args, image)
    if not isinstance(found, Workload):
        raise UsageError(
            "it is a kernel that somebody wrote, which has no schedule",
            asked=f"{found.name}",
            legal="for kernels there are: tune, build, records",
        )
    return found


def choose_tunable(args: argparse.Namespace, image: np.ndarray[Any, Any] | None = None) -> Workload | RawKernel:
    """The workload or raw kernel of the command line. A kernel runs on the target of its language, unless the command
    line names another."""
    function = find_workload(args.workload)
    given = {name: _convert(function, name, text) for name, text in args.param}
    implied = image_parameters(function, image) if image is not None else {}
    found: Workload | RawKernel = function(**{**implied, **given})
    if isinstance(found, RawKernel) and not any(w.split("=")[0] == "--target" for w in args.words):
        args.target = found.kind
    return found


def image_parameters(function: WorkloadFunction[...], image: np.ndarray[Any, Any]) -> dict[str, Any]:
    """`channels` and `dtype` of a (height, width, channels) array, as far as the workload asks for them."""
    found = {"channels": image.shape[-1], "dtype": image.dtype.name}
    return {name: value for name, value in found.items() if name in function.parameters}


def _convert(function: WorkloadFunction[...], name: str, text: str) -> Any:
    """The text as the type of the parameter's default."""
    parameters = function.parameters
    asked = f"--param {name}={text}"
    if name not in parameters:
        listing = ", ".join(f"{k}={v}" for k, v in parameters.items()) or "it has none"
        raise UsageError(
            f"{function.name} has no parameter {name!r}",
            asked=asked,
            legal=f"{did_you_mean(name, parameters)}parameters and defaults: {listing}",
        )
    default = parameters[name]
    try:
        match default:
            case bool():
                return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
            case int():
                return int(text)
            case float():
                return float(text)
            case str():
                return text
    except (KeyError, ValueError):
        kind = "true or false" if isinstance(default, bool) else type(default).__name__
        raise UsageError(f"its value is not {kind}", asked=asked, legal=f"the default is {name}={default}") from None
    try:  # the default tells nothing
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def sizes_of(args: argparse.Namespace, workload: Workload | RawKernel) -> dict[str, int]:
    """The `--size`s. Raises UsageError for a size that the workload does not have, or no positive number."""
    return parse_sizes("--size", args.size, workload)


def parse_sizes(option: str, given: Iterable[tuple[str, str]], workload: Workload | RawKernel) -> dict[str, int]:
    """The sizes that an option gives as names and texts. Raises UsageError, as `sizes_of`."""
    known = workload.size_names()
    sizes: dict[str, int] = {}
    for name, text in given:
        asked = f"{option} {name}={text}"
        if name not in known:
            listing = ", ".join(known) or "none, its shapes are fixed"
            raise UsageError(
                f"{workload.name} has no size {name!r}",
                asked=asked,
                legal=f"{did_you_mean(name, known)}sizes: {listing}",
            )
        if not text.isdecimal() or int(text) < 1:
            raise UsageError("a size is a whole number >= 1", asked=asked, legal=f"for example {option} {name}=1280")
        sizes[name] = int(text)
    return sizes


def check_image(workload: Workload, image: np.ndarray[Any, Any], file: object) -> np.ndarray[Any, Any]:
    """The image as the workload takes it: grey, where that is of two dimensions.

    Raises UsageError unless the workload takes one array, and this image can be it.
    """
    described = ", ".join(f"{t.name}: {t.dtype}[{', '.join(map(repr, t.shape))}]" for t in workload.inputs)
    takes = f"{workload!r} takes {described}"
    asked = f"image {file}"
    if len(workload.inputs) != 1 or len(workload.inputs[0].shape) not in (2, 3):
        raise UsageError(
            "the workload does not take one image",
            asked=asked,
            legal=f"{takes}; an image is one array, (height, width) or (height, width, channels)",
        )
    tensor = workload.inputs[0]
    if len(tensor.shape) == 2:
        image = grey(image)
    fixed = [(d.value, n) for d, n in zip(tensor.shape, image.shape, strict=True) if d.op == "const"]
    if str(tensor.dtype) != image.dtype.name or any(wanted != got for wanted, got in fixed):
        shape = " x ".join(map(str, image.shape))
        raise UsageError(f"the image is {shape} of {image.dtype}", asked=asked, legal=takes)
    return image


def command(verb: str, args: argparse.Namespace) -> str:
    """Another command on the same workload, parameters, target and records."""
    words = [verb, args.workload]
    for option in ("param", "size"):
        for name, value in getattr(args, option, []):
            words += [f"--{option}", f"{name}={value}"]
    options = {"--target": None if args.target == "llvm" else args.target, "--records": args.records}
    for option, value in options.items():
        words += [option, str(value)] if value is not None else []
    return f"{program()} {shlex.join(words)}"
