"""The official ONNX test suite, `onnx.backend.test`: what passes, and why the rest does not.

    python experiments/onnxscore.py                      # all node cases, compiled for llvm: minutes
    python experiments/onnxscore.py conv pool            # cases whose name has one of these
    python experiments/onnxscore.py --reference relu     # by the oracle instead of compiled code: is the reading right?
    python experiments/onnxscore.py --kind real          # or simple, pytorch-converted, pytorch-operator

The stored outputs are the truth, with the tolerances of the suite.
"""

from __future__ import annotations

import argparse
import os
import re
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import onnx
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor

from autosched.errors import ModelError
from autosched.graph.loaded import load


@cache
def cases(kind: str) -> dict[str, Any]:
    return {case.name: case for case in load_model_tests(kind=kind)}


def outcome(name: str, kind: str, by_reference: bool, verbose: bool) -> tuple[str, str, str]:
    """(name, pass / refused / wrong / error, why)."""
    case = cases(kind)[name]
    try:
        model = case.model if case.model is not None else onnx.load(path_of(case))
        loaded = load(model)
        for inputs, expected in case.data_sets or stored(case, model):
            given = {k: given_value(v) for k, v in zip(loaded.input_names, inputs, strict=False)}
            found = loaded.reference(given) if by_reference else loaded.run(given)
            Runner.assert_similar_outputs(
                [_normalize_tensor(x) for x in expected], list(found.values()), case.rtol, case.atol
            )
    except ModelError as error:
        return name, "refused", str(error).splitlines()[0]
    except AssertionError as error:
        return name, "wrong", " | ".join(str(error).split("\n"))[:300]
    except Exception as error:
        if verbose:
            traceback.print_exc()
        at = traceback.extract_tb(error.__traceback__)[-1]
        return (
            name,
            "error",
            f"{type(error).__name__}: {str(error)[:200]} ({os.path.basename(at.filename)}:{at.lineno})",
        )
    return name, "pass", ""


def given_value(value: Any) -> Any:
    return (
        [given_value(v) for v in value]
        if isinstance(value, list)
        else None
        if value is None
        else _normalize_tensor(value)
    )


def path_of(case: Any) -> str:
    """The file of a case's model; those of real topologies lie in the package."""
    if case.model_dir is not None:
        return os.path.join(case.model_dir, "model.onnx")
    return os.path.join(os.path.dirname(os.path.dirname(onnx.__file__)), case.url)


def stored(case: Any, model: Any) -> list[tuple[list[Any], list[Any]]]:
    """The data sets of a case that lies in files; of a real topology, numbers from 0 to 1 and the stored output."""
    import glob

    if case.model_dir is None:
        constants = {t.name for t in model.graph.initializer}
        inputs = [Runner.generate_dummy_data(x) for x in model.graph.input if x.name not in constants]
        expected: list[Any] = []
        for i, info in enumerate(model.graph.output):
            stem = path_of(case).removesuffix(".onnx")
            Runner._load_proto(None, f"{stem}_output_{i}.pb", expected, info.type)  # type: ignore[arg-type]
        return [(inputs, expected)]
    found = []
    for folder in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set*"))):
        sides = []
        for side, infos in (("input", model.graph.input), ("output", model.graph.output)):
            arrays: list[Any] = []
            for i in range(len(glob.glob(os.path.join(folder, f"{side}_*.pb")))):
                Runner._load_proto(None, os.path.join(folder, f"{side}_{i}.pb"), arrays, infos[i].type)  # type: ignore[arg-type]
            sides.append(arrays)
        found.append((sides[0], sides[1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only cases with one of these regular expressions in their name")
    parser.add_argument("--kind", default="node")
    parser.add_argument("--reference", action="store_true", help="by the oracle instead of compiled code")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="tracebacks; one process")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [n for n in cases(args.kind) if not args.names or any(re.search(p, n) for p in args.names)]
    begun = time.perf_counter()
    jobs = [(n, args.kind, args.reference, args.verbose) for n in chosen]
    if args.jobs == 1 or args.verbose or len(chosen) < 8:
        results = [outcome(*job) for job in jobs]
    else:
        with ProcessPoolExecutor(args.jobs) as pool:
            results = list(pool.map(outcome, *zip(*jobs, strict=True), chunksize=4))
    for name, what, why in results:
        if what != "pass":
            print(f"{what:8} {name}: {why}")
    counts = Counter(what for _, what, _ in results)
    said = ", ".join(f"{n} {what}" for what, n in counts.most_common())
    print(f"{len(results)} cases in {time.perf_counter() - begun:.0f} s: {said}")


if __name__ == "__main__":
    main()
