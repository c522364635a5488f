"""`autosched run`: an image file in, an image file out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from autosched.building import build
from autosched.cli import images, options
from autosched.cli.show import provenance_line
from autosched.cli.workloads import check_image, choose_workload
from autosched.errors import UsageError, VerificationError, new_file
from autosched.measure.verify import allowed_error, compare
from autosched.report.text import seconds
from autosched.runtime.module import Module
from autosched.space.workload import Workload


def run(args: argparse.Namespace) -> int:
    source = Path(args.image) if args.image is not None else images.photograph_path()
    image = images.read_image(source)
    workload = choose_workload(args, image)
    image = check_image(workload, image, source)
    _check_result(workload)
    output = Path(args.output) if args.output is not None else _default_output(source, workload, image)
    images.check_output(output)
    new_file(output.expanduser(), f"run -o {output}", args.force)
    module = build(
        workload,
        args.target,
        records=options.records_folder(args),
        sizes=workload.sizes_of([image]),
        bounds_check=args.bounds_check,
    )
    result = module(image)
    verified = _verify(workload, module, image, result) if args.verify else "no"
    images.write_image(output, result)
    _tell(args, workload, module, image, {"input": str(source), "output": str(output), "verified": verified})
    return 0


def _check_result(workload: Workload) -> None:
    if len(workload.outputs) != 1 or len(workload.outputs[0].shape) not in (2, 3):
        listing = ", ".join(f"{t.name}: {t.dtype}[{', '.join(map(repr, t.shape))}]" for t in workload.outputs)
        raise UsageError(
            "its result is not one image",
            asked=f"run {workload.name}",
            legal=f"it gives {listing}; call autosched.build from Python",
        )


def _default_output(source: Path, workload: Workload, image: np.ndarray[Any, Any]) -> Path:
    """A file in the working folder; .npy where a PNG could not hold what came in."""
    channels = image.shape[-1] if len(workload.outputs[0].shape) == 3 and image.ndim == 3 else 1
    suffix = ".png" if images.fits_png(channels, str(workload.outputs[0].dtype)) else ".npy"
    return Path(f"{source.stem}.{workload.name}{suffix}")


def _verify(workload: Workload, module: Module, image: np.ndarray[Any, Any], result: np.ndarray[Any, Any]) -> str:
    """`full` when the result is right. Raises VerificationError."""
    (expected,) = workload.reference([image])
    (rounding,) = workload.roundings(module.target, [image], [expected])
    wrong = compare(result, expected, *allowed_error(expected, None, None, rounding), rounding=rounding)
    if wrong:
        raise VerificationError(
            f"the result is wrong: {wrong}",
            asked=f"run {workload!r} --verify",
            legal="please report it with the record that `show` names; nothing was written",
        )
    return "full"


def _tell(
    args: argparse.Namespace, workload: Workload, module: Module, image: np.ndarray[Any, Any], done: dict[str, str]
) -> None:
    (took,) = module.time(image, repeat=1)
    if args.json:
        data = {"workload": repr(workload), "target": str(module.target), "shape": list(image.shape)}
        options.emit(data | {"provenance": module.provenance, "seconds": took} | done)
        return
    height, width, channels = image.shape if image.ndim == 3 else (*image.shape, 1)
    print(provenance_line(repr(workload), str(module.target), module.provenance))
    print(f"{done['input']}: {height} x {width}, {channels} channel{'' if channels == 1 else 's'} of {image.dtype}")
    right = ", verified against the reference" if done["verified"] == "full" else ""
    print(f"{done['output']}: written; a call takes {seconds(took)}{right}")
