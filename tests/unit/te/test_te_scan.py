"""Scans: what they mean, what may be one, and how they are kept."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scan_programs import (
    behind_the_best,
    lstm,
    lstm_by_hand,
    of_two_shapes,
    running_sum,
    states_at_once,
    two_states,
    two_states_by_hand,
)

from autosched import te
from autosched.errors import BuildError, RecordError, UsageError
from autosched.te import Tensor

SIZES = [(0, 3), (1, 1), (1, 4), (2, 3), (7, 5)]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(np.int32)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_a_running_sum(n: int, m: int) -> None:
    x = numbers(n, m)
    assert np.array_equal(te.reference(running_sum("int32"), [x])[0], np.cumsum(x, axis=0))


@pytest.mark.parametrize("program", [two_states, states_at_once])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_two_states_that_read_each_other(program: Callable[[], list[Tensor]], n: int, m: int) -> None:
    x = numbers(n, m)
    for found, wanted in zip(te.reference(program(), [x]), two_states_by_hand(x), strict=True):
        assert np.array_equal(found, wanted)


def test_a_step_that_reduces_pairs() -> None:
    x = numbers(7, 5)
    rows = [x[0]]
    for t in range(1, 7):
        rows.append(x[t] - rows[-1].max() + rows[-1].argmax())
    assert np.array_equal(te.reference(behind_the_best(), [x])[0], rows)


def test_states_of_two_shapes() -> None:
    x = numbers(4, 3)
    rows, total = te.reference(of_two_shapes(), [x])
    assert np.array_equal(rows[0], x[0])
    assert total[0] == 0
    for t in range(1, 4):
        assert np.array_equal(rows[t], rows[t - 1] + x[t] + total[t - 1])
        assert total[t] == rows[t - 1].sum()


def test_an_lstm_cell() -> None:
    draw = np.random.default_rng(1)
    x, w = draw.normal(size=(5, 3, 4, 4)).astype("float32"), draw.normal(size=(4, 4, 4)).astype("float32")
    for found, wanted in zip(te.reference(lstm(), [x, w]), lstm_by_hand(x, w), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 3), st.lists(st.integers(-3, 3), min_size=3, max_size=9), st.data())
def test_linear_recurrences(back: int, values: list[int], data: st.DataObject) -> None:
    """s[t] = sum of weights times earlier elements + x[t], against the loop."""
    weights = [data.draw(st.integers(-2, 2)) for _ in range(back)]
    n = te.var("n")
    x, state = te.placeholder((n,), "int32"), te.placeholder((n,), "int32")
    init = te.compute((back,), lambda t: x[t] * 2)
    update = te.compute((n,), lambda t: sum((w * state[t - 1 - k] for k, w in enumerate(weights)), x[t]))
    found = te.reference([x, te.scan(init, update, state)], [np.array(values, np.int32)])[0]
    wanted = [v * 2 for v in values[:back]]
    for t in range(back, len(values)):
        wanted.append(values[t] + sum(w * wanted[t - 1 - k] for k, w in enumerate(weights)))
    assert found.tolist() == np.array(wanted).astype(np.int32).tolist()


def test_axes_have_the_names_and_domains_of_tvm() -> None:
    _, total = running_sum()
    op = total.op
    assert isinstance(op, te.ScanOp)
    assert repr(op.scan_axis) == "S.idx[1, +n - 1]"
    assert [repr(a) for a in op.spatial_axis_] == ["S.i1[0, +m]"]
    assert op.num_outputs == 1
    assert op.input_tensors == (*op.init, *op.state_placeholder, *op.update)
    p, q = two_states()[1:]
    assert (p.op, p.value_index, q.op, q.value_index) == (p.op, 0, p.op, 1)
    assert [t.name for t in (p, q)] == ["PQ.v0", "PQ.v1"]
    assert p.op.output(1) is q
    with pytest.raises(UsageError, match="PQ has 2 outputs, not 3"):
        p.op.output(2)


@pytest.mark.parametrize(
    ("program", "independent"),
    [
        (running_sum, (True,)),
        (two_states, (True,)),
        (states_at_once, (True,)),
        (behind_the_best, (False,)),
        (lstm, (True, False)),
        (of_two_shapes, ()),
    ],
)
def test_which_axes_are_recurrences_of_their_own(
    program: Callable[[], list[Tensor]], independent: tuple[bool, ...]
) -> None:
    assert program()[-1].op.independent == independent


@pytest.mark.parametrize("program", [running_sum, two_states, states_at_once, of_two_shapes, lstm])
def test_kept_as_data(program: Callable[[], list[Tensor]]) -> None:
    args = program()
    data = json.loads(json.dumps(te.graph_to_json(args)))
    again = te.graph_from_json(data)
    assert te.graph_to_json(again) == data
    assert te.workload_key(again) == te.workload_key(args)
    assert te.workload_key(args) == te.workload_key(program())
    draw = np.random.default_rng(0)
    sizes = {"n": 4, "m": 3}
    given = [
        draw.integers(-3, 3, [sizes.get(repr(d)) or int(d.value) for d in t.shape]).astype(t.dtype.numpy)
        for t in args
        if isinstance(t.op, te.PlaceholderOp)
    ]
    for a, b in zip(te.reference(args, given), te.reference(again, given), strict=True):
        assert np.array_equal(a, b)


def test_one_output_of_two_is_another_workload() -> None:
    x, p, q = two_states()
    keys = {te.workload_key(args) for args in ([x, p], [x, q], [x, p, q], [x, q, p])}
    assert len(keys) == 4


def test_an_init_that_is_an_input_is_copied() -> None:
    n = te.var("n")
    first, state = te.placeholder((1,), "int32"), te.placeholder((n,), "int32")
    x = te.placeholder((n,), "int32")
    total = te.scan(first, te.compute((n,), lambda t: state[t - 1] + x[t]), state)
    found = te.reference([first, x, total], [np.array([5], np.int32), np.arange(4, dtype=np.int32)])
    assert found[0].tolist() == [5, 6, 8, 11]


# -- what is no scan -----------------------------------------------------------------------------------


N, M = te.var("n"), te.var("m")
X = te.placeholder((N, M), name="X")


def parts(
    step: Callable[..., object] | None = None, first: object = 1, dtype: str = "float32", update_shape: object = (N, M)
) -> tuple[Tensor, Tensor, Tensor]:
    state = te.placeholder((N, M), dtype, name="state")
    step = step or (lambda s, t, i: s[t - 1, i])
    return (
        te.compute((first, M), lambda _, i: te.const(0.0), name="init"),
        te.compute(update_shape, lambda t, i: step(state, t, i), name="update"),
        state,
    )


def swapped() -> object:
    init, update, state = parts()
    return te.scan(init, state, update)


def a_number_for_init() -> object:
    return te.scan(0, *parts()[1:])  # type: ignore[arg-type]


def two_updates_for_one_state() -> object:
    init, update, state = parts()
    return te.scan([init], [update, update], [state])


def one_of_two_that_are_computed_together() -> object:
    init, _, state = parts()
    both = te.compute((N, M), lambda t, i: (state[t - 1, i], X[t, i]), name="both")
    return te.scan(init, both[0], state)


def one_state_twice() -> object:
    (a, b, state), (c, d, _) = parts(), parts()
    return te.scan([a, c], [b, d], [state, state])


def another_type() -> object:
    return te.scan(*parts(dtype="int32"))


def another_shape() -> object:
    return te.scan(*parts(update_shape=(N, M + 1)))


def another_width_of_init() -> object:
    _, update, state = parts()
    return te.scan(te.compute((1, M + 1), lambda _, i: te.const(0.0), name="init"), update, state)


def no_first_time() -> object:
    return te.scan(*parts(first=0))


def the_present() -> object:
    return te.scan(*parts(lambda s, t, i: s[t, i]))


def the_future() -> object:
    return te.scan(*parts(lambda s, t, i: s[t - 1, i] + s[t + 1, i]))


def any_time() -> object:
    return te.scan(*parts(lambda s, t, i: s[i, i]))


def the_future_through_another_tensor() -> object:
    state = te.placeholder((N, M), name="state")
    middle = te.compute((N, M), lambda t, i: state[t - 1, i], name="middle")
    update = te.compute((N, M), lambda t, i: middle[t, i] + middle[te.min(t + 1, N - 1), i], name="update")
    return te.scan(te.compute((1, M), lambda _, i: te.const(0.0), name="init"), update, state)


def an_update_of_another_time() -> object:
    (a, b, p), (c, _, q) = parts(), parts()
    other = te.compute((N, M), lambda t, i: b[t - 1, i] + q[t - 1, i], name="other")
    return te.scan([a, c], [b, other], [p, q])


def an_init_from_the_state() -> object:
    _, update, state = parts()
    return te.scan(te.compute((1, M), lambda _, i: state[0, i], name="init"), update, state)


def a_scan_inside_a_step() -> object:
    outer = te.placeholder((N, M), name="outer")
    init, update, state = parts(lambda s, t, i: s[t - 1, i] + outer[0, i])
    inner = te.scan(init, update, state, name="inner")
    return te.scan(
        te.compute((1, M), lambda _, i: te.const(0.0), name="init"),
        te.compute((N, M), lambda t, i: inner[t, i], name="update"),
        outer,
    )


def a_reader_of_the_state() -> object:
    init, update, state = parts()
    total = te.scan(init, update, state)
    late = te.compute((N, M), lambda t, i: state[t, i] + total[t, i], name="late")
    return te.Graph.of([late])


def a_reader_of_the_update() -> object:
    init, update, state = parts()
    total = te.scan(init, update, state)
    return te.Graph.of([te.compute((N, M), lambda t, i: update[t, i] + total[t, i], name="late")])


def a_reader_of_the_init() -> object:
    init, update, state = parts()
    total = te.scan(init, update, state)
    return te.Graph.of([te.compute((N, M), lambda t, i: init[0, i] + total[t, i], name="late")])


NO_SCANS = (
    swapped, a_number_for_init, two_updates_for_one_state, one_of_two_that_are_computed_together, one_state_twice, another_type, another_shape,
    another_width_of_init, no_first_time, the_present, the_future, any_time, the_future_through_another_tensor,
    an_update_of_another_time, an_init_from_the_state, a_scan_inside_a_step, a_reader_of_the_state,
    a_reader_of_the_update, a_reader_of_the_init,
)  # fmt: skip


def test_what_is_no_scan(golden: Callable[..., None]) -> None:
    texts = []
    for case in NO_SCANS:
        with pytest.raises(UsageError) as raised:
            case()
        error = raised.value
        assert error.asked
        assert error.legal
        texts.append(f"-- {case.__name__.replace('_', ' ')}\n{error}\n")
    golden("\n".join(texts))


def test_the_oracle_sees_reads_before_the_first_time() -> None:
    n = te.var("n")
    state = te.placeholder((n,), "int32", name="state")
    init = te.compute((1,), lambda t: te.const(1, "int32"))
    total = te.scan(init, te.compute((n,), lambda t: state[t - 2]), state)
    with pytest.raises(BuildError, match="read of state: index -1"):
        te.reference([total], [], {"n": 3})


def test_a_damaged_scan_is_no_graph() -> None:
    data = te.graph_to_json(running_sum())
    for part in ("init", "update", "state", "inputs"):
        damaged = json.loads(json.dumps(data))
        damaged["ops"][-1]["scan"][part] = [99]
        with pytest.raises(RecordError):
            te.graph_from_json(damaged)
