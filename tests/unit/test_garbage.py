"""Few collections: from the first block that asks for it to the end of the last one."""

from __future__ import annotations

import gc

import pytest

from autosched.garbage import THRESHOLDS, few_collections


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    yield
    gc.set_threshold(*before)


def test_blocks_may_overlap():
    one, two = few_collections(), few_collections()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)  # as where another thread ends first
    assert gc.get_threshold() == THRESHOLDS
    two.__exit__(None, None, None)
    assert gc.get_threshold() == (701, 11, 12)


def test_an_error_ends_it_as_well():
    with pytest.raises(ValueError, match="no"), few_collections():
        raise ValueError("no")
    assert gc.get_threshold() == (701, 11, 12)


def test_searches_ask_for_it(monkeypatch):
    """Making a space is one of the places."""
    from autosched import search_space, te, workload

    seen = []

    @workload
    def doubled(n=64):
        a = te.placeholder((n,), name="a")
        return a, te.compute((n,), lambda i: a[i] * 2, name="b")

    import autosched.space.rules as rules

    made = rules.space_of
    monkeypatch.setattr(rules, "space_of", lambda *args: seen.append(gc.get_threshold()) or made(*args))
    search_space(doubled(), "llvm", space="auto")
    assert seen == [THRESHOLDS] and gc.get_threshold() == (701, 11, 12)
