"""A campaign of random ONNX graphs, compiled and compared with the official reference evaluator.

    python -m autosched.testing.graphs --seeds 0:1000 --backend llvm
    python -m autosched.testing.graphs --case failure.onnx        # run one again

Each is run in a process that may crash or hang without harm. A failure is made smaller, printed, and written to
`--failures` as a model with its inputs. The exit status is 1 when something failed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.graph import load
from autosched.graph.verifying import difference
from autosched.testing import fuzz
from autosched.testing.fuzz import Kind
from autosched.testing.graph_kinds import KINDS
from autosched.testing.graph_maker import OPSET, Draw, Known

if TYPE_CHECKING:
    import onnx

BACKENDS = ("llvm", "c")
#: nodes of a graph
FEWEST, MOST = 3, 14
#: what rounding may leave of numbers around 1 that cancel, as in the logarithm of a sum of shares
NOTHING = 1e-5


@dataclass(frozen=True)
class GraphCase:
    """A random graph. Its inputs are quarters from -2 to 2, some of its outputs are read by other nodes, and what one
    seed gives is the same until the generator is changed.

    >>> GraphCase.draw(7, "llvm").check()
    """

    seed: int
    backend: str
    proto: onnx.ModelProto

    @staticmethod
    def draw(seed: int, backend: str) -> GraphCase:
        """The case of a seed."""
        from onnx import helper

        rng = np.random.default_rng(seed)
        d = Draw(rng)
        inputs = _inputs(d)
        for _ in range(int(rng.integers(FEWEST, MOST + 1))):
            d.grow(KINDS)
        read = {name for node in d.nodes for name in node.input}
        wanted = [t for t in d.known if t.name not in read or (t.name not in inputs and rng.random() < 0.15)]
        if rng.random() < 0.05:
            wanted.append(d.known[0])  # an input that is an output, too
        outputs = {t.name: t for t in wanted}
        graph = helper.make_graph(
            d.nodes,
            f"g{seed}",
            [helper.make_tensor_value_info(n, 1, _declared(rng, x)) for n, x in inputs.items()],
            [_info(t.name, t.value) for t in outputs.values()],
            [_initializer(n, x) for n, x in d.constants.items()],
            value_info=[_info(t.name, t.value) for t in d.known if t.name not in inputs],
        )
        return GraphCase(
            seed, backend, helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        )

    @staticmethod
    def from_json(data: dict[str, Any]) -> GraphCase:
        import onnx

        return GraphCase(data["seed"], data["backend"], onnx.load_model_from_string(base64.b64decode(data["proto"])))

    def to_json(self) -> dict[str, Any]:
        proto = base64.b64encode(self.proto.SerializeToString()).decode()
        return {"seed": self.seed, "backend": self.backend, "proto": proto}

    @property
    def fingerprint(self) -> str:
        """What it is made of."""
        return " ".join(f"{n.op_type}({','.join(n.input)})" for n in self.proto.graph.node)

    def inputs(self) -> dict[str, Any]:
        """The arrays that the seed gives."""
        inputs = _inputs(Draw(np.random.default_rng(self.seed)))
        return {x.name: inputs[x.name] for x in self.proto.graph.input}

    def check(self) -> None:
        """Raise AssertionError where an output differs from the reference, or what compiling raises."""
        from onnx.reference import ReferenceEvaluator

        inputs = self.inputs()
        names = [o.name for o in self.proto.graph.output]
        with np.errstate(all="ignore"):
            expected = dict(zip(names, ReferenceEvaluator(self.proto).run(None, inputs), strict=True))
        model = load(self.proto)
        given = {n: x for n, x in inputs.items() if n in model.input_names}
        found = model.run(given, self.backend)
        assert list(found) == names, (list(found), names)
        for name, x in found.items():
            reference = np.asarray(expected[name])
            assert x.dtype == reference.dtype, f"{name} is {x.dtype}, not {reference.dtype}"
            error, allowed = difference(x, reference)
            is_close = allowed > 0 and np.allclose(x, reference, rtol=0, atol=NOTHING, equal_nan=True)
            assert error <= allowed or is_close, f"{name}{list(x.shape)} differs by {error:.3g} of its largest"

    def __str__(self) -> str:
        from onnx import printer

        text: str = printer.to_text(self.proto)
        return text


def _inputs(d: Draw) -> dict[str, Any]:
    """Draw the inputs: images, rows, vectors, numbers."""
    for k in range(d.between(1, 3)):
        sizes = [d.between(1, 9) for _ in range(4)]
        shape = d.one([[d.between(1, 2), d.one([1, 3, 4, 8]), *sizes[:2]], sizes[:2], sizes[:3], sizes[:1], [], sizes])
        d.inputs[f"x{k}"] = d.numbers(*shape)
        d.known.append(Known(f"x{k}", d.inputs[f"x{k}"]))
    return d.inputs


def _declared(rng: np.random.Generator, x: Any) -> list[int | str]:
    """The shape that the model tells of an input: now and then a size has a name."""
    return [f"d{n}" if rng.random() < 0.05 else n for n in x.shape]


def _info(name: str, value: Any) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim)


def _initializer(name: str, value: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(value, name)


# -- smaller ones -----------------------------------------------------------------------------------


def shrunk(case: GraphCase, fails: Callable[[GraphCase], bool]) -> GraphCase:
    """A case with fewer nodes that fails, too: one output, then every node left out whose readers can read what it
    reads."""
    best = case
    for smaller in _with_one_output(case):
        if _size(smaller) < _size(best) and fails(smaller):
            best = smaller
    progress = True
    while progress:
        progress = False
        for smaller in _without_one_node(best):
            if fails(smaller):
                best, progress = smaller, True
                break
    return best


def _size(case: GraphCase) -> int:
    return len(case.proto.graph.node)


def _with_one_output(case: GraphCase) -> Iterator[GraphCase]:
    """The graph up to each tensor."""
    graph = case.proto.graph
    infos = {x.name: x for x in graph.value_info}
    for node in graph.node:
        for name in node.output:
            if name in infos:
                yield _rebuilt(case, [*graph.node], [infos[name]])


def _without_one_node(case: GraphCase) -> Iterator[GraphCase]:
    """The graph without each node: its readers read its first input."""
    import onnx

    graph = case.proto.graph
    outputs = {o.name for o in graph.output}
    for gone in graph.node:
        if not gone.input or outputs & {*gone.output}:
            continue
        nodes = []
        for node in graph.node:
            if node is not gone:
                copy = onnx.NodeProto()
                copy.CopyFrom(node)
                for k, name in enumerate(copy.input):
                    if name in gone.output:
                        copy.input[k] = gone.input[0]
                nodes.append(copy)
        yield _rebuilt(case, nodes, [*graph.output])


def _rebuilt(case: GraphCase, nodes: list[Any], outputs: list[Any]) -> GraphCase:
    """These nodes, as far as the outputs need them."""
    from onnx import helper

    needed = {o.name for o in outputs}
    kept: list[Any] = []
    for node in reversed(nodes):
        if needed & {*node.output}:
            needed |= {*node.input}
            kept.insert(0, node)
    graph = case.proto.graph
    made = helper.make_graph(
        kept,
        graph.name,
        [x for x in graph.input if x.name in needed],
        outputs,
        [x for x in graph.initializer if x.name in needed],
    )
    return replace(case, proto=helper.make_model(made, opset_imports=[*case.proto.opset_import], ir_version=10))


GRAPHS = Kind(
    "autosched.testing.graphs", BACKENDS, lambda seed, backend, generated: GraphCase.draw(seed, backend),
    GraphCase.from_json, shrunk,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run a campaign, or one case; returns the exit status."""
    return fuzz.main(argv, GRAPHS, __doc__)


if __name__ == "__main__":
    fuzz.run(GRAPHS, __doc__)
