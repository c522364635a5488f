"""The box blur against OpenCV, a numba kernel written by hand, SciPy, and a plain copy.

    python experiments/box_blur.py [--height 1280 --width 1920] [--no-opencl]

All contenders run interleaved in one process; outputs are checked first. The tuned kernels are
built from `records/`; `python -m autosched tune box_blur` makes those. OpenCV, numba and SciPy come
with `pip install autosched[bench]`; what is missing is skipped with a word. Results go to
`experiments/results/box_blur.json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import interleaved, machine, medians, save

from autosched import build
from autosched.errors import AutoschedError
from autosched.space.loading import find_workload


def numba_separable() -> Callable[[np.ndarray, np.ndarray], None]:
    """Vertical sums of one row in a padded row buffer, then horizontal sums, over flat bytes: the
    fastest of the forms tried by hand (a loop body in functions of its own, so that it vectorizes)."""
    import numba

    @numba.njit(inline="never", boundscheck=False)
    def vertical(above, here, below, row, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            row[i] = np.uint16(above[i]) + np.uint16(here[i]) + np.uint16(below[i])

    @numba.njit(inline="never", boundscheck=False)
    def horizontal(left, middle, right, line, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            line[i] = np.uint8(np.uint16(left[i] + middle[i] + right[i]) // np.uint16(9))

    @numba.njit(parallel=True, boundscheck=False)
    def blur(image, out):  # type: ignore[no-untyped-def]
        height, width, channels = image.shape
        n = width * channels
        flat_in, flat_out = image.reshape(height, n), out.reshape(height, n)
        chunk = 32
        for task in numba.prange((height + chunk - 1) // chunk):
            row = np.empty(n + 2 * channels, np.uint16)
            for y in range(task * chunk, min(task * chunk + chunk, height)):
                above, here, below = flat_in[max(y - 1, 0)], flat_in[y], flat_in[min(y + 1, height - 1)]
                vertical(above, here, below, row[channels : n + channels], n)
                for c in range(channels):
                    row[c] = row[channels + c]
                    row[n + channels + c] = row[n + c]
                horizontal(row[:n], row[channels : n + channels], row[2 * channels :], flat_out[y], n)

    return blur


def peers(image: np.ndarray, out: np.ndarray, expected: np.ndarray, threads: int) -> dict[str, Callable[[], object]]:
    """The contenders that are installed, each checked against the expected image."""
    found: dict[str, Callable[[], object]] = {"copy": lambda: np.copyto(out, image)}
    try:
        import numba

        numba.set_num_threads(threads)
        blur = numba_separable()
        found["numba"] = lambda: blur(image, out)
    except ImportError:
        print("numba is not installed: skipped")
    try:
        import cv2

        cv2.setNumThreads(threads)
        found["opencv"] = lambda: cv2.blur(image, (3, 3), dst=out, borderType=cv2.BORDER_REPLICATE)
    except ImportError:
        print("OpenCV is not installed: skipped")
    try:
        from scipy.ndimage import uniform_filter

        found["scipy"] = lambda: uniform_filter(image, size=(3, 3, 1), output=out, mode="nearest")
    except ImportError:
        print("SciPy is not installed: skipped")
    for name, call in found.items():
        if name == "copy":
            continue
        out[:] = 0
        call()
        off = int(np.abs(out.astype(int) - expected.astype(int)).max())
        limit = 0 if name == "numba" else 1  # OpenCV and SciPy round where we cut off
        if off > limit:
            raise SystemExit(f"{name} differs by {off}")
    return found


def tuned(
    targets: list[str], image: np.ndarray, out: np.ndarray, expected: np.ndarray
) -> dict[str, Callable[[], object]]:
    """Our kernels, built from the best records, checked."""
    workload = find_workload("box_blur")(channels=image.shape[2])
    sizes = {"height": image.shape[0], "width": image.shape[1]}
    found: dict[str, Callable[[], object]] = {}
    for target in targets:
        module = build(workload, target, sizes=sizes)
        kind = module.provenance["kind"]
        if kind != "record":
            print(f"no record for {target}: tune first; its default schedule is measured")
        out[:] = 0
        module(image, out)
        if not np.array_equal(out, expected):
            raise SystemExit(f"autosched on {target} is wrong")
        found[f"autosched {target}"] = lambda module=module: module(image, out)
    return found


def opencl_kernel_time(image: np.ndarray, out: np.ndarray) -> float:
    """Seconds of the tuned OpenCL kernel by device events: without copies to and from the device."""
    workload = find_workload("box_blur")(channels=image.shape[2])
    module = build(workload, "opencl", sizes={"height": image.shape[0], "width": image.shape[1]})
    return float(np.median(module.time(image, out, repeat=9)))


def compare(title: str, contenders: dict[str, Callable[[], object]], ours: str) -> dict[str, float]:
    """One table: median milliseconds and how many times as fast as each peer we are."""
    times = medians(interleaved(contenders))
    print(f"\n{title}")
    for name, seconds in sorted(times.items(), key=lambda item: item[1]):
        print(f"  {name:28s} {seconds * 1e3:9.3f} ms   peer / ours {seconds / times[ours]:7.2f}")
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--height", type=int, default=1280)
    parser.add_argument("--width", type=int, default=1920)
    parser.add_argument("--no-opencl", action="store_true")
    args = parser.parse_args()
    workload = find_workload("box_blur")()
    (image,) = workload.sample_inputs({"height": args.height, "width": args.width})
    (expected,) = workload.reference([image])
    out = np.zeros_like(image)
    shape = f"{args.width}x{args.height}x{image.shape[2]}"
    results: dict[str, object] = {"machine": machine(), "shape": shape}
    for threads in (2, 1):
        target = f"llvm -threads={threads}"
        contenders = {**tuned([target], image, out, expected), **peers(image, out, expected, threads)}
        times = compare(f"box blur {shape} uint8, {threads} threads", contenders, f"autosched {target}")
        results[f"seconds_{threads}_threads"] = times
    if not args.no_opencl:
        try:
            seconds = opencl_kernel_time(image, out)
            opencv = results["seconds_2_threads"].get("opencv")  # type: ignore[attr-defined]
            print(f"\n  autosched opencl, kernel     {seconds * 1e3:9.3f} ms (device events)")
            if opencv:
                print(f"  opencv / opencl kernel       {opencv / seconds:9.2f}")
            results["opencl_kernel_seconds"] = seconds
        except AutoschedError as error:
            print(f"OpenCL skipped: {error}")
    print(f"\nresults in {save(f'box_blur_{shape}', results)}")


if __name__ == "__main__":
    main()
