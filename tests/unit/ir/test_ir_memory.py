"""Answers that are remembered across scopes: the same as those found anew, and none for other ranges."""

from __future__ import annotations

import random
from threading import Thread

import pytest

from autosched.ir import simplify as simplify_module
from autosched.ir.conclusions import UNLIMITED
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, const, floordiv, floormod, maximum, minimum, select, var
from autosched.ir.poly import Poly
from autosched.ir.prove import Memory
from autosched.ir.simplify import Analyzer, simplify

x, y, n, m = (var(name, role="loop") for name in ("x", "y", "n", "m"))


def bound(memory: Memory, **ranges: tuple[Expr | int, Expr | int]) -> Analyzer:
    an = Analyzer(memory)
    for name, (low, high) in ranges.items():
        an.bind({"x": x, "y": y, "n": n, "m": m}[name], low, high)
    return an


def test_other_ranges_are_another_question():
    memory = Memory()
    assert bound(memory, x=(0, 9)).prove(x >= 0)
    assert not bound(memory, x=(-5, 9)).prove(x >= 0)
    assert bound(memory, x=(0, 3)).simplify(floordiv(x, 4)) is bound(memory, y=(0, 3)).simplify(y * 0)
    assert bound(memory, x=(0, 4)).simplify(floordiv(x, 4)) is floordiv(x, 4)


def test_ranges_of_what_a_range_mentions_count():
    memory = Memory()
    assert bound(memory, n=(1, 5), x=(0, n - 1)).prove(x <= 4)
    assert not bound(memory, n=(1, 6), x=(0, n - 1)).prove(x <= 4)


def deep(levels: int, seed: int) -> Expr:
    """An index of many divisions, about which hardly anything can be proven."""
    e = x + seed
    for k in range(levels):
        e = floordiv(e * 3 + k, 2) - floormod(e, 5)
    return e


def test_questions_together_take_not_many_more_steps_than_there_are():
    used = []
    for steps in (UNLIMITED, 3000):
        memory = Memory(steps)
        an = bound(memory, x=(0, 999), n=(1, 100))
        for seed in range(30):
            an.prove(deep(16, seed) <= n * 3 + seed)
        used.append(steps - memory.left)
        assert an.prove(x + 1 <= 1000), "what is seen at once is proven whatever is left"
    assert 3000 < used[1] < 0.4 * used[0]


def test_what_is_proven_with_few_steps_left_is_true():
    rng, ways = random.Random(3), 0
    for _ in range(200):
        a, b, c = (rng.randint(-6, 6) for _ in range(3))
        question = floordiv(x * a + y + c, rng.choice((2, 3, 4))) <= maximum(y + b, floormod(x, 4) + a)
        scarce = bound(Memory(rng.choice((0, 5, 40))), x=(0, 7), y=(0, 5))
        if scarce.prove(question):
            ways += 1
            assert bound(Memory(UNLIMITED), x=(0, 7), y=(0, 5)).prove(question)
            assert all(evaluate([question], {x: i, y: j})[0] for i in range(8) for j in range(6))
    assert ways > 5


def test_a_range_that_comes_later_counts():
    an = Analyzer()
    an.bind(x, 0, n)
    assert not an.prove(x <= 4)
    an.bind(n, 0, 4)
    an.forget()
    assert an.prove(x <= 4)


def test_facts_hold_only_where_they_are_assumed():
    memory = Memory()
    an = bound(memory, x=(0, 9), y=(0, 9), n=(0, 9))
    with an.assuming(x <= y):
        assert an.prove(x - y <= 0)
        with an.assuming(y <= n):
            assert an.prove(y - n <= 0)
        assert not an.prove(y - n <= 0)
    assert not an.prove(x - y <= 0)
    with bound(memory, x=(0, 9), y=(0, 9), n=(0, 9)).assuming(n >= 3):
        pass
    with an.assuming(x <= y):
        assert an.prove(x - y <= 0)


def test_what_is_not_mentioned_does_not_matter():
    memory = Memory()
    an = bound(memory, x=(0, 9))
    an.prove(x + 5 >= 5)
    known = len(memory.proofs)
    for low in range(3):
        other = bound(memory, y=(low, 9), x=(0, 9))
        with other.assuming(y >= low + 1):
            assert other.prove(x + 5 >= 5)
    assert len(memory.proofs) == known


def _random_expr(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice([x, y, n, m, x * 0 + rng.randint(-3, 9)])
    a, b = _random_expr(rng, depth - 1), _random_expr(rng, depth - 1)
    return rng.choice(
        [a + b, a - b, a * rng.randint(1, 4), minimum(a, b), maximum(a, b)]
        + [floordiv(a, rng.randint(1, 4)), floormod(a, rng.randint(1, 4)), select(a < b, a, b)]
    )


def _scoped(rng: random.Random, an: Analyzer, questions: list[Expr], depth: int, answers: list[Expr]) -> None:
    """Ask all questions in scopes within scopes."""
    answers += [an.simplify(q) for q in questions]
    for _ in range(2 if depth else 0):
        v, low = rng.choice([x, y, n, m]), rng.randint(-2, 2)
        if rng.random() < 0.5:
            with an.tightened({}):
                an.bind(v, low, low + rng.randint(0, 5))
                _scoped(rng, an, questions, depth - 1, answers)
        else:
            with an.assuming(_random_expr(rng, 1) <= v):
                _scoped(rng, an, questions, depth - 1, answers)


@pytest.mark.parametrize("seed", range(40))
def test_remembered_answers_are_those_found_anew(seed: int):
    rng = random.Random(seed)
    questions = [_random_expr(rng, 3) for _ in range(6)]
    ranges = {name: (0, rng.randint(0, 9)) for name in "xyn"}
    memory = Memory()
    remembered: list[Expr] = []
    for _ in range(3):  # the third time from memory alone
        remembered = []
        _scoped(random.Random(seed), bound(memory, **ranges), questions, 3, remembered)

    class Forgetful(Memory):
        def number(self, ranges: object, facts: object) -> int:  # type: ignore[override]
            self.asked = getattr(self, "asked", 0) + 1
            return self.asked

    fresh: list[Expr] = []
    _scoped(random.Random(seed), bound(Forgetful(), **ranges), questions, 3, fresh)
    assert all(a is b for a, b in zip(remembered, fresh, strict=True))


class Watched(Analyzer):
    """Counts what it tries; with `keeps` off it tries everything again that it is asked."""

    keeps, tried = True, 0

    def _tried(self, p: Poly, steps: list[int]) -> bool:
        Watched.tried += 1
        if not self.keeps:
            self._known.tried.clear()
        return super()._tried(p, steps)


class Forgetful(Watched):
    keeps = False


def test_a_proof_tries_once_what_it_comes_to_in_many_ways() -> None:
    """What was tried counts again, so what can be proven in a given number of steps does not depend on it."""

    def ask(kind: type[Analyzer]) -> tuple[bool, int]:
        an = kind()
        for v, high in ((n, 63), (m, 55), (x, 7), (y, 7)):
            an.bind(v, 0, high)
        with an.assuming(floordiv(n * 8 + x, 3) * 2 + y <= m), an.assuming(maximum(x, m) <= n + y):
            Watched.tried = 0
            found = an.prove(floordiv(n * 8 + minimum(x, y), 3) * 2 <= m + maximum(y, x) * floordiv(n, 3))
        return found, Watched.tried

    (found, few), (same, many) = ask(Watched), ask(Forgetful)
    assert found is same and few < many


def test_what_one_thread_is_proving_is_nothing_to_another() -> None:
    """While it answers, an analyzer knows how deep in a proof it is, and proves less there."""
    found: list[Expr] = []
    analyzer = simplify_module._FREE.analyzer
    analyzer._depth = analyzer.PROOF_DEPTH  # as in the middle of a proof
    try:
        other = Thread(target=lambda: found.append(simplify(floordiv(floormod(x, 7) + 9, 16))))
        other.start()
        other.join()
    finally:
        analyzer._depth = 0
    assert found == [const(0)]
