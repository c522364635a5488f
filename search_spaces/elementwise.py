"""Chains of five elementwise operations, one of them an exponential or a hyperbolic tangent.

A library that runs one operation after the other writes and reads each intermediate result; here
the whole chain is one loop, and an element is loaded once and stored once.
"""

import math

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import bind_elements


def normal_numbers(size=1 << 22, dtype="float32"):
    """What activations look like: normally distributed about 0."""
    return [np.random.default_rng(0).normal(size=size).astype(dtype)]


@workload(inputs=normal_numbers)
def exp_chain(size=1 << 22, dtype="float32"):
    """x -> x / (1 + exp(-2x - 1)): scale, shift, exponential, sum, quotient."""
    x = te.placeholder((size,), dtype, name="x")

    def number(value):
        return te.const(value, dtype)

    scaled = te.compute((size,), lambda i: x[i] * number(-2), name="scaled")
    shifted = te.compute((size,), lambda i: scaled[i] - number(1), name="shifted")
    power = te.compute((size,), lambda i: te.exp(shifted[i]), name="power")
    divisor = te.compute((size,), lambda i: power[i] + number(1), name="divisor")
    result = te.compute((size,), lambda i: x[i] / divisor[i], name="result")
    return x, result


@workload(inputs=normal_numbers)
def tanh_chain(size=1 << 22, dtype="float32"):
    """x -> x * (1 + tanh(sqrt(2 / pi) * x)) / 2, a rough GELU: scale, tanh, sum, product, scale."""
    x = te.placeholder((size,), dtype, name="x")

    def number(value):
        return te.const(value, dtype)

    scaled = te.compute((size,), lambda i: x[i] * number(math.sqrt(2 / math.pi)), name="scaled")
    bent = te.compute((size,), lambda i: te.tanh(scaled[i]), name="bent")
    gate = te.compute((size,), lambda i: bent[i] + number(1), name="gate")
    gated = te.compute((size,), lambda i: x[i] * gate[i], name="gated")
    result = te.compute((size,), lambda i: gated[i] * number(0.5), name="result")
    return x, result


@template(exp_chain, target="cpu")
@template(tanh_chain, target="cpu")
def one_loop(s):
    """Everything inlined into one loop of vectors.

    Few long vectors or many short ones: the functions are long chains of dependent instructions, so
    several must be under way at a time. Tasks are long, for what counts is memory.
    """
    result = s["result"]
    for stage in s.stages:
        if stage.loops and stage is not result:
            stage.compute_inline()
    task, rest = result.split(result.op.axis[0], factor=s.define_knob("task", [1 << n for n in range(13, 20)]))
    _, lane = result.split(rest, factor=s.define_knob("lanes", [8, 16, 32, 64]))
    result.parallel(task)
    result.vectorize(lane)


@template(exp_chain, target="gpu")
@template(tanh_chain, target="gpu")
def vectors(s):
    """Everything inlined; one work-item for each vector of the result."""
    for stage in s.stages:
        if stage.loops and stage is not s["result"]:
            stage.compute_inline()
    bind_elements(s, s["result"])
