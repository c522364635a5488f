"""Wrong arguments of operators: each is told by an error of ours that names the argument, and what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from autosched import te, topi
from autosched.errors import UsageError, UsageTypeError
from autosched.topi.arguments import _KINDS

A = te.placeholder((4, 6), name="A")
V = te.placeholder((6,), name="V")
IMAGE = te.placeholder((1, 4, 8, 8), name="IMAGE")
WEIGHTS = te.placeholder((4, 4, 3, 3), name="WEIGHTS")

RIGHT = {
    "Tensor": A,
    "Tensor | None": A,
    "Sequence[Tensor]": [A],
    "str": "x",
    "Sequence[int]": [1],
    "Sequence[Dim]": [1],
}
OPERATORS = [
    (module, name)
    for module in (topi, topi.nn, topi.image, topi.vision, topi.sparse)
    for name, f in vars(module).items()
    if hasattr(f, "__wrapped__")
]


def arguments() -> list[tuple[str, Callable[..., object], str, str]]:
    found = []
    for module, name in OPERATORS:
        operator = getattr(module, name)
        for p in inspect.signature(operator).parameters.values():
            if str(p.annotation).removesuffix(" | None") in _KINDS:
                found.append((f"{module.__name__.partition('.')[2]}.{name}", operator, p.name, str(p.annotation)))
    return found


@pytest.mark.parametrize(
    ("called", "operator", "name", "kind"), arguments(), ids=lambda x: x if isinstance(x, str) else ""
)
def test_an_argument_of_another_type_is_named(called, operator, name, kind) -> None:
    for wrong in (object(), {}, [object()], b"x", None):
        if wrong is None and kind.endswith("| None"):
            continue
        given = {
            p.name: RIGHT.get(str(p.annotation), 1)
            for p in inspect.signature(operator).parameters.values()
            if p.default is p.empty and p.name != name and p.kind is not p.VAR_POSITIONAL
        }
        with pytest.raises(UsageTypeError) as caught:
            operator(*given.values(), wrong) if name == "operand" else operator(**given, **{name: wrong})
        assert caught.value.asked == f"{called}({name}=..)"
        assert caught.value.legal


def test_every_operator_is_looked_at() -> None:
    unseen = {name for _, name in OPERATORS} - {called.rpartition(".")[2] for called, *_ in arguments()}
    assert unseen == set(topi.BINARY)  # whose operands are tensors or numbers


@pytest.mark.parametrize("wrong", [None, "x", [A], {}, object()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("name", topi.BINARY)
def test_operands_are_tensors_or_numbers(name, wrong) -> None:
    for operands in ((A, wrong), (wrong, A)):
        with pytest.raises(UsageError):
            getattr(topi, name)(*operands)


def test_a_forgotten_argument_is_told_with_what_the_operator_takes() -> None:
    with pytest.raises(UsageTypeError, match=r"topi.exp: missing a required argument: 'x'\n  topi.exp\(x\)"):
        topi.exp()
    with pytest.raises(UsageTypeError, match=r"topi.nn.relu: too many positional arguments"):
        topi.nn.relu(A, A)


@pytest.mark.parametrize(
    "call",
    [
        lambda: topi.nn.conv2d(IMAGE, WEIGHTS, 0, 1, 1),
        lambda: topi.nn.conv2d(IMAGE, WEIGHTS, 1, 1, -1),
        lambda: topi.nn.pool2d(IMAGE, 0, 1, 1, 0, "max"),
        lambda: topi.nn.adaptive_pool(IMAGE, 0, "max"),
        lambda: topi.nn.conv2d_transpose_nchw(IMAGE, A, 1, 1),
        lambda: topi.nn.group_norm(IMAGE, V, V, 0, 1, [2, 3]),
        lambda: topi.nn.bias_add(A, V, 7),
        lambda: topi.nn.mirror_pad(A, (1,)),
        lambda: topi.nn.get_pad_tuple(1, (3,)),
        lambda: topi.nn.lstm(A, A, A),
        lambda: topi.expand_dims(A, 0, 2**70),
        lambda: topi.arange(float("nan")),
        lambda: topi.arange(0, float("inf")),
        lambda: topi.arange(0, 5, 0),
        lambda: topi.tensordot(A, A, "ij"),
        lambda: topi.tensordot(A, A, 5),
        lambda: topi.tensordot(A, A, ([0, 1], [0])),
        lambda: topi.split(A, te.var("n")),
    ],
)
def test_a_value_that_cannot_be_is_an_error_of_ours(call) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.why and caught.value.asked and caught.value.legal


def test_numbers_of_numpy_are_numbers() -> None:
    assert topi.tile(A, np.array([2, 1])).shape == topi.tile(A, (np.int64(2), 1)).shape
    assert topi.sum(A, axis=1, keepdims=np.bool_(True)).ndim == 2
    assert topi.nn.softmax(A, np.int64(1)).shape == A.shape
    assert topi.split(A, np.int32(2), np.int64(1))[0].shape[1].value == 3
