"""Every operator in `search_spaces/` beside the best library for it, in one process.

    python experiments/operators.py [NAME ...]            the table, or the rows whose title has NAME in it
    python experiments/operators.py --tune 40s [NAME ...] tune each row first (its records are kept)

A row is one workload at one size: our kernel built from the best record, and what NumPy, PyTorch,
OpenCV or a numba kernel written by hand take for the same, timed in turn, round by round. Outputs are
checked against the oracle first. Peers that are not installed are skipped with a word; they come with
`pip install autosched[bench]` and, for PyTorch, `pip install torch`. Results go to
`experiments/results/operators.json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from box_blur import numba_separable
from common import interleaved, machine, medians, save

from autosched import build, tune
from autosched.cli.options import duration
from autosched.report.summary import Standing, standing
from autosched.space.loading import find_workload
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target
from autosched.te.work import work_of

ROUNDS = 15
PHOTO = {"height": 1280, "width": 1920}
LARGE_PHOTO = {"height": 2160, "width": 3840}

Call = Callable[[], object]
#: what a peer is called -> a function of (inputs, output) that returns the call to time
Peers = dict[str, Callable[[Sequence[np.ndarray], np.ndarray], Call]]


@dataclass(frozen=True)
class Row:
    """One line of the table. `aim` is the ratio best peer / ours to reach; `off`, how far a peer's
    integer output may be from ours (OpenCV rounds where we cut off)."""

    title: str
    workload: str | WorkloadFunction
    peers: Peers
    aim: float
    args: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    off: int = 1

    def work(self) -> Workload:
        """The workload with its parameters."""
        function = find_workload(self.workload) if isinstance(self.workload, str) else self.workload
        return function(**self.args)


# -- peers ----------------------------------------------------------------------------------------


def numpy_peer(fn: Callable[..., object]) -> Peers:
    """`fn(out, *inputs)`."""
    return {"numpy": lambda given, out: lambda: fn(out, *given)}


def torch_peer(fn: Callable[..., Any], name: str = "torch") -> Peers:
    """`fn(torch, F, *inputs)`; `torch.no_grad` is on."""

    def prepare(given: Sequence[np.ndarray], out: np.ndarray) -> Call:
        import torch

        torch.set_grad_enabled(False)
        tensors = [torch.from_numpy(a) for a in given]
        return fn(torch, torch.nn.functional, *tensors)  # type: ignore[no-any-return]

    return {name: prepare}


def opencv_peer(fn: Callable[..., object]) -> Peers:
    """`fn(cv2, image, out)`."""

    def prepare(given: Sequence[np.ndarray], out: np.ndarray) -> Call:
        import cv2

        return lambda: fn(cv2, given[0], out)

    return {"opencv": prepare}


def numba_blur(given: Sequence[np.ndarray], out: np.ndarray) -> Call:
    blur = numba_separable()
    return lambda: blur(given[0], out)


def both_layouts(fn: Callable[..., Any], channels_last: bool = False) -> Peers:
    """`fn(F, *inputs)` in both of PyTorch's layouts, inputs prepared; whichever is faster counts.

    `channels_last` tells that ours takes NHWC images and HWIO weights.
    """

    def prepare(memory_format: str) -> Callable[..., Call]:
        def call(torch: Any, F: Any, image: Any, *weight: Any) -> Call:
            if channels_last:
                image, weight = image.permute(0, 3, 1, 2), tuple(w.permute(3, 2, 0, 1) for w in weight)
            layout = getattr(torch, memory_format)
            given = [x.contiguous(memory_format=layout) for x in (image, *weight)]
            return lambda: fn(F, *given)

        return call

    return {
        **torch_peer(prepare("contiguous_format"), "torch NCHW"),
        **torch_peer(prepare("channels_last"), "torch channels last"),
    }


def opencv_blur() -> Peers:
    peers = opencv_peer(lambda cv2, a, out: cv2.blur(a, (3, 3), dst=out, borderType=cv2.BORDER_REPLICATE))
    return {"numba by hand": numba_blur, **peers}


def matrix_product() -> Peers:
    return {
        **numpy_peer(lambda out, a, b: np.matmul(a, b, out=out)),
        **torch_peer(lambda t, F, a, b: lambda: a @ b),
    }


def int8_product(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> object:
    return np.matmul(a, b, out=out, dtype=np.int32)


def squares(n: int, dtype: str) -> dict[str, Any]:
    """Parameters of a product of square matrices."""
    return {"m": n, "n": n, "k": n, "dtype": dtype}


def convolution(stride: int, pad: int, F: Any, image: Any, weight: Any) -> Any:
    return F.conv2d(image, weight, stride=stride, padding=pad)


def convolution_rows() -> list[Row]:
    shapes = [
        ("3x3 64x56x56", {"height": 56, "width": 56, "cin": 64, "cout": 64}),
        ("3x3 256x14x14", {"height": 14, "width": 14, "cin": 256, "cout": 256}),
        ("1x1 64x56x56 to 256", {"height": 56, "width": 56, "cin": 64, "cout": 256, "kernel": 1, "pad": 0}),
        ("7x7/2 3x224x224", {"height": 224, "width": 224, "cin": 3, "cout": 64, "kernel": 7, "stride": 2, "pad": 3}),
    ]
    rows = []
    for layout in ("nchw", "nhwc"):
        for title, args in shapes:
            stride, pad = args.get("stride", 1), args.get("pad", 1)
            peers = both_layouts(partial(convolution, stride, pad), layout == "nhwc")
            rows.append(Row(f"conv2d {layout.upper()} {title}", f"conv2d_{layout}", peers, 1.0, args))
    return rows


def reduction_rows() -> list[Row]:
    rows = []
    for n in (1024, 4096):
        square = {"rows": n, "columns": n}
        for axis, name in ((1, "row_sum"), (0, "column_sum")):
            peers = {
                **numpy_peer(lambda out, a, axis=axis: np.sum(a, axis=axis, out=out)),
                **torch_peer(lambda t, F, a, axis=axis: lambda: a.sum(dim=axis)),
            }
            rows.append(Row(f"{name.replace('_', ' ')} {n}²", name, peers, 1.0, square))
        peers = {
            **numpy_peer(lambda out, a, b: np.add(a, b, out=out)),
            **torch_peer(lambda t, F, a, b: partial(t.add, a, b, out=t.empty_like(a))),
        }
        rows.append(Row(f"add {n}²", "add", peers, 1.0, square))
    return rows


TABLE: list[Row] = [
    Row("box blur 1920x1280x3", "box_blur", opencv_blur(), 1.1, sizes=PHOTO),
    Row("box blur 3840x2160x3", "box_blur", opencv_blur(), 1.1, sizes=LARGE_PHOTO),
    Row(
        "Gaussian 5x5 1920x1280x3",
        "gaussian_blur",
        opencv_peer(lambda cv2, a, out: cv2.GaussianBlur(a, (5, 5), 0, dst=out, borderType=cv2.BORDER_REPLICATE)),
        1.5,
        sizes=PHOTO,
    ),
    Row(
        "Sobel 1920x1280",
        "sobel",
        opencv_peer(lambda cv2, a, out: cv2.Sobel(a, cv2.CV_16S, 1, 0, dst=out, borderType=cv2.BORDER_REPLICATE)),
        1.5,
        sizes=PHOTO,
    ),
    *(
        Row(
            f"bilinear resize to {width}x{height}",
            "resize",
            opencv_peer(lambda cv2, a, out: cv2.resize(a, out.shape[1::-1], dst=out, interpolation=cv2.INTER_LINEAR)),
            1.5,
            {**PHOTO, "out_height": height, "out_width": width},
        )
        for height, width in ((640, 960), (853, 1280))
    ),
    *(Row(f"matmul {n}", "matmul", matrix_product(), 1.0, {"m": n, "n": n, "k": n}) for n in (512, 1024, 2048)),
    Row("matmul 1000x33x777", "matmul", matrix_product(), 1.0, {"m": 1000, "n": 777, "k": 33}),
    Row("matmul 1024 float64", "matmul", matrix_product(), 1.0, {"dtype": "float64"}),
    Row("matmul 1024 int8 to int32", "matmul", numpy_peer(int8_product), 20.0, {"dtype": "int8"}),
    *(
        Row(
            f"matmul {n} int8",
            "matmul",
            torch_peer(lambda t, F, a, b: lambda: t._int_mm(a, b)),
            1.0,
            squares(n, "int8"),
        )
        for n in (256, 512, 1024, 2048)
    ),
    Row("batched matmul 12x512x512x64", "batched_matmul", matrix_product(), 1.0),
    Row(
        "gemv 4096",
        "gemv",
        {
            **numpy_peer(lambda out, a, x: np.matmul(a, x, out=out)),
            **torch_peer(lambda t, F, a, x: lambda: t.mv(a, x)),
        },
        1.0,
    ),
    *convolution_rows(),
    Row(
        "depthwise 3x3 128x56x56",
        "depthwise_conv2d",
        both_layouts(lambda F, a, w: F.conv2d(a, w, padding=1, groups=128)),
        3.0,
    ),
    Row(
        "max pool 3x3/2 64x112x112",
        "max_pool",
        both_layouts(lambda F, a: F.max_pool2d(a, 3, 2, 1)),
        2.0,
    ),
    Row("softmax 1024x1024", "softmax", torch_peer(lambda t, F, x: lambda: t.softmax(x, -1)), 1.5),
    Row(
        "layer norm 1024x1024",
        "layer_norm",
        torch_peer(lambda t, F, x, g, b: lambda: F.layer_norm(x, (x.shape[1],), g, b, 1e-5)),
        3.0,
    ),
    *reduction_rows(),
    Row(
        "chain of 5 with exp, 4 M",
        "exp_chain",
        torch_peer(lambda t, F, x: lambda: x / (t.exp(x * -2 - 1) + 1)),
        3.0,
    ),
    Row(
        "chain of 5 with tanh, 4 M",
        "tanh_chain",
        torch_peer(lambda t, F, x: lambda: x * (t.tanh(x * (2 / np.pi) ** 0.5) + 1) * 0.5),
        3.0,
    ),
    Row("cumulative sum 1024², rows", "cumsum", numpy_peer(lambda out, a: np.cumsum(a, axis=1, out=out)), 2.0),
    Row(
        "cumulative sum 1024², columns",
        "cumsum",
        numpy_peer(lambda out, a: np.cumsum(a, axis=0, out=out)),
        2.0,
        {"axis": 0},
    ),
    Row(
        "histogram 1920x1280x3",
        "histogram",
        {
            **numpy_peer(lambda out, a: np.copyto(out, np.bincount(a.reshape(-1), minlength=256))),
            "opencv": lambda given, out: opencv_histogram(given[0]),
        },
        2.0,
    ),
]


def opencv_histogram(image: np.ndarray) -> Call:
    import cv2

    flat = image.reshape(1, -1)
    return lambda: cv2.calcHist([flat], [0], None, [256], [0, 256])


# -- measuring ------------------------------------------------------------------------------------


def agree(got: np.ndarray, wanted: np.ndarray, off: int) -> bool:
    """Whether a peer computes the same: floats within its own rounding, integers within `off`."""
    got = np.asarray(got).reshape(-1)
    if got.size != wanted.size:
        return False
    wanted = wanted.reshape(-1)
    if wanted.dtype.kind != "f":
        return int(np.abs(got.astype(np.int64) - wanted.astype(np.int64)).max(initial=0)) <= off
    largest = float(np.abs(wanted).max(initial=0)) or 1.0
    return float(np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)) <= 1e-4 * largest


def result_of(call: Call, out: np.ndarray, channels_last: bool) -> np.ndarray:
    """What a peer computed: what it returned, or left in `out`."""
    out[...] = 0
    returned = call()
    if returned is None:
        return out
    if hasattr(returned, "permute") and channels_last:
        returned = returned.permute(0, 2, 3, 1)
    return np.ascontiguousarray(returned)


def measure(row: Row, target: Target, records: str | None = None) -> dict[str, Any]:
    """One row: seconds of ours and of each peer that is there, and where ours stands."""
    work = row.work()
    inputs = work.sample_inputs(row.sizes)
    (expected,) = work.reference(inputs)
    sizes = work.sizes_of(inputs)
    module = build(work, target, sizes=sizes, records=records)
    out = np.zeros_like(expected)
    module(*inputs, out)
    if not agree(out, expected, 0):
        raise SystemExit(f"{row.title}: autosched is wrong")
    contenders: dict[str, Call] = {"autosched": lambda: module(*inputs, out)}
    for name, prepare in row.peers.items():
        scratch = np.zeros_like(expected)
        try:
            call = prepare(inputs, scratch)
        except ImportError as error:
            print(f"  {row.title}: {name} is skipped ({error.name} is not installed)")
            continue
        if not agree(result_of(call, scratch, row.workload == "conv2d_nhwc"), expected, row.off):
            raise SystemExit(f"{row.title}: {name} computes something else")
        contenders[name] = call
    times = medians(interleaved(contenders, rounds=ROUNDS))
    ours = times.pop("autosched")
    peer = min(times, key=times.__getitem__, default="")
    stands = standing(work.args, target, sizes, ours)
    load = work_of(work.args, sizes)
    return {
        "title": row.title,
        "workload": repr(work),
        "sizes": sizes,
        "seconds": ours,
        "peers": times,
        "best_peer": peer,
        "ratio": times[peer] / ours if peer else None,
        "aim": row.aim,
        "gflops": load.flops / ours / 1e9 if load and load.flops else None,
        "roofline": stands.to_json() if isinstance(stands, Standing) else None,
        "schedule": module.provenance["kind"],
        "knobs": module.provenance.get("knobs"),
    }


def show(result: dict[str, Any]) -> None:
    ratio, peer = result["ratio"], result["best_peer"]
    beside = f"{result['peers'][peer] * 1e3:9.3f} ms {peer:20s} {ratio:6.2f} (aim {result['aim']:g})" if peer else ""
    rate = f"{result['gflops']:6.0f} GFLOP/s" if result["gflops"] else " " * 14
    stands = result["roofline"]
    place = f"{100 * stands['fraction']:4.0f} % of {stands['limit']}" if stands else ""
    untuned = "" if result["schedule"] == "record" else "  (no record: default schedule)"
    print(f"{result['title']:32s} {result['seconds'] * 1e3:9.3f} ms {rate}  {beside:52s} {place}{untuned}", flush=True)


def tune_row(row: Row, target: Target, budget_s: float) -> None:
    """Search within the budget; what is learnt goes to `records/`."""
    work = row.work()
    found = tune(work, target, trials=None, budget_s=budget_s, sizes=row.sizes or None)
    best = found.best.knobs if found.best is not None else "the default schedule"
    print(f"{row.title:32s} {found.seconds * 1e3:9.3f} ms after {found.trials} trials: {best}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only rows with one of these in their title")
    parser.add_argument("--tune", type=duration("--tune"), metavar="TIME", help="tune each row for this long first")
    parser.add_argument("--target", default="llvm")
    args = parser.parse_args()
    target = Target.parse(args.target)
    chosen = [r for r in TABLE if not args.names or any(name.lower() in r.title.lower() for name in args.names)]
    if not chosen:
        parser.error(f"no row has one of these in its title; rows: {', '.join(r.title for r in TABLE)}")
    if args.tune is not None:
        for row in chosen:
            tune_row(row, target, args.tune)
    results = []
    for row in chosen:
        results.append(measure(row, target))
        show(results[-1])
    if len(chosen) == len(TABLE):
        data = {"machine": machine(), "target": str(target), "threads": target.num_threads, "rows": results}
        print(f"\nresults in {save('operators', data)}")


if __name__ == "__main__":
    main()
