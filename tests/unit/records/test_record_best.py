"""Which record is chosen: usable ones only, this device and these sizes first, play-offs over luck."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.records import RecordLog, best, latest, ranked, trials
from autosched.target import Target

KEY = "9f2c44d1"
HERE = "AMD EPYC 7R13"


def at(record, minute: int, second: int = 0):
    return replace(record, at=f"2026-11-21T10:{minute:02}:{second:02}+00:00")


def order(choices) -> list[int]:
    return [choice.record.trial for choice in choices]


def test_fastest_usable_record(make_record):
    records = [
        make_record(0, samples=(3e-3,)),
        make_record(1, samples=(1e-3, 9.0, 1e-3)),
        make_record(2, samples=(2e-3,), verified="sampled"),
        make_record(3, samples=(1e-6,), verified="no"),
        make_record(4, samples=(1e-6,), verified="maybe"),
        make_record(5, status="correctness", samples=(1e-6,)),
        make_record(6, samples=(1e-6,), key="other"),
        make_record(7, samples=(1e-6,), target="opencl"),
    ]
    assert order(ranked(records, key=KEY, target="llvm")) == [1, 2, 0]
    choice = best(records, key=KEY, target=Target.parse("llvm -mcpu=skylake"), device=HERE)
    assert choice is not None
    assert (choice.record, choice.exact, choice.note) == (records[1], True, "")
    assert best(records, key="unknown", target="llvm") is None
    assert best([], key=KEY, target="llvm") is None


def test_this_device_first_others_flagged(make_record):
    elsewhere = make_record(0, samples=(1e-6,), device={"name": "Fast GPU"})
    unnamed = make_record(1, samples=(1e-6,), device={})
    here = make_record(2, samples=(1e-3,))
    choices = ranked([elsewhere, unnamed, here], key=KEY, target="llvm", device=HERE)
    assert [(c.record, c.exact) for c in choices] == [(here, True), (unnamed, False), (elsewhere, False)]
    assert choices[1].note == f"measured on an unnamed device, not on {HERE}"
    assert choices[2].note == f"measured on Fast GPU, not on {HERE}"


def test_without_a_device_times_of_several_are_not_mixed(make_record):
    """The device with more records goes first; a faster time elsewhere is no reason."""
    records = [make_record(n, samples=(1e-3 * (3 - n),)) for n in range(2)]
    records.append(make_record(9, samples=(1e-9,), device={"name": "A fast GPU"}))
    choices = ranked(records, key=KEY, target="llvm")
    assert order(choices) == [1, 0, 9]
    assert all(choice.exact for choice in choices)


def test_nearest_sizes_by_ratio(make_record):
    heights = [64, 1000, 4000, 2001]
    records = [make_record(n, samples=(1e-9 * h,), sizes={"height": h}) for n, h in enumerate(heights)]
    choices = ranked(records, key=KEY, target="llvm", sizes={"height": 2000})
    # 1000 and 4000 are equally far; the tie is broken by the sizes.
    assert [c.record.sizes["height"] for c in choices] == [2001, 1000, 4000, 64]
    assert choices[0].note == "measured at height=2001, not at height=2000"
    assert not choices[0].exact
    found = best(records, key=KEY, target="llvm", sizes={"height": 4000})
    assert found is not None and found.exact and found.record is records[2]


def test_sizes_the_record_does_not_know_come_last(make_record):
    fixed = make_record(0, sizes={})
    far = make_record(1, sizes={"height": 1})
    zero = make_record(2, sizes={"height": 0})
    choices = ranked([fixed, far, zero], key=KEY, target="llvm", sizes={"height": 10**9})
    assert order(choices) == [2, 1, 0]  # 0 and 1 are alike to a logarithm
    assert choices[2].note == "measured at no sizes, not at height=1000000000"
    assert best([fixed], key=KEY, target="llvm", sizes={}).exact


def test_device_goes_before_sizes(make_record):
    here = make_record(0, sizes={"height": 10})
    elsewhere = make_record(1, sizes={"height": 1280}, device={"name": "Fast GPU"})
    choices = ranked([elsewhere, here], key=KEY, target="llvm", device=HERE, sizes={"height": 1280})
    assert order(choices) == [0, 1]


def test_playoff_winner_beats_a_lucky_time(make_record):
    lucky, steady, other = (make_record(n, samples=(t,)) for n, t in enumerate([1.0e-3, 1.1e-3, 1.2e-3]))
    lines = [
        lucky,
        steady,
        other,
        at(steady.with_playoff((1.10e-3, 1.12e-3, 1.11e-3), run="run-1", winner=True, speedup=2.5), 0),
        at(other.with_playoff((1.09e-3,), run="run-1", winner=False), 1),
    ]
    choices = ranked(lines, key=KEY, target="llvm")
    # `other` had its chance in the play-off, and `lucky` was known when it was held.
    assert order(choices) == [1, 0, 2]
    assert choices[0].record.seconds == 1.11e-3
    assert [c.note for c in choices] == ["won its play-off, 2.50x over the default", "", "lost its play-off"]
    assert all(choice.exact for choice in choices)


def test_what_lost_to_the_default_schedule_comes_after_it(make_record):
    """However lucky one of its times was: nothing says of the default's record that it won."""
    default = at(make_record(0, samples=(1.0e-3,), sketch="default"), 0)
    lucky, other, unplayed = (at(make_record(n, samples=(t,)), 0) for n, t in ((1, 2e-3), (2, 0.8e-3), (3, 0.7e-3)))
    lost = [
        at(r.with_playoff((t, 1.5e-3), run="run-1", winner=False, speedup=0.7), 1)
        for r, t in ((lucky, 0.6e-3), (other, 1.4e-3))
    ]
    lines = [default, lucky, other, unplayed, *lost]
    assert order(ranked(lines, key=KEY, target="llvm"))[0] == 0
    later = at(make_record(4, samples=(0.9e-3,), run="run-2"), 5)
    assert order(ranked([*lines, later], key=KEY, target="llvm"))[:2] == [4, 0]


def test_later_and_faster_goes_before_an_old_winner(make_record):
    winner = at(make_record(0).with_playoff((1e-3,), run="run-1", winner=True), 0)
    slower, faster = (at(make_record(n, samples=(t,), run="run-2"), 5) for n, t in ((1, 1.1e-3), (2, 0.5e-3)))
    assert order(ranked([winner, slower, faster], key=KEY, target="llvm")) == [2, 0, 1]


def test_the_latest_playoff_counts(make_record):
    old = at(make_record(0).with_playoff((1.0e-3,), run="run-1", winner=True), 0)
    new = at(make_record(1).with_playoff((1.5e-3,), run="run-2", winner=True), 5)
    assert order(ranked([new, old], key=KEY, target="llvm")) == [1, 0]
    # The old winner lost the rematch by a hair, in a time that is better than its rival's.
    lost = at(old.with_playoff((1.4e-3,), run="run-2", winner=False), 5, second=1)
    assert order(ranked([old, new, lost], key=KEY, target="llvm")) == [1, 0]


def test_a_playoff_elsewhere_says_nothing_here(make_record):
    elsewhere = make_record(0, device={"name": "Fast GPU"}).with_playoff((1e-9,), run="run-1", winner=True)
    choices = ranked([elsewhere, make_record(1)], key=KEY, target="llvm", device=HERE)
    assert order(choices) == [1, 0]
    assert choices[1].note == f"measured on Fast GPU, not on {HERE}; won its play-off"


@pytest.mark.parametrize("found", [{"winner": "yes"}, {"winner": 1}, {"speedup": "2"}, [], "won"])
def test_nonsense_for_a_playoff_is_no_win(make_record, found):
    records = [make_record(0), make_record(1, samples=(1.0,), extra={"playoff": found})]
    assert order(ranked(records, key=KEY, target="llvm")) == [0, 1]


def test_withdrawn_record_is_not_chosen(make_record):
    good, bad = make_record(0, samples=(2e-3,)), make_record(1, samples=(1e-3,))
    withdrawn = bad.as_failed("compile", "no longer compiles")
    assert order(ranked([good, bad, withdrawn], key=KEY, target="llvm")) == [0]


def test_schedule_that_was_once_wrong_is_not_chosen(make_record):
    """A race is right at times: the same schedule failed verification in another trial."""
    right = at(make_record(1, samples=(1e-3,)), 1)
    wrong = at(make_record(2, status="correctness", knobs=right.knobs), 2)
    other = make_record(3, samples=(2e-3,))
    assert order(ranked([right, wrong, other], key=KEY, target="llvm")) == [3]
    # Right again since, perhaps with a repaired compiler; and elsewhere it was never wrong.
    again = at(make_record(4, samples=(1e-3,), knobs=right.knobs), 3)
    assert order(ranked([right, wrong, again, other], key=KEY, target="llvm")) == [4, 3]
    elsewhere = replace(right, device={"name": "Fast GPU"})
    assert order(ranked([elsewhere, wrong, other], key=KEY, target="llvm", device=HERE)) == [3, 1]


def test_lines_of_one_id(make_record, log_path):
    record = make_record(0)
    confirmed = record.with_playoff((5e-3,), run="run-1", winner=True)
    log = RecordLog(log_path)
    for line in (record, make_record(1), confirmed):
        log.append(line)
    lines = log.read().records
    assert latest(lines) == [confirmed, make_record(1)]
    assert trials(lines) == [record, make_record(1)]
    assert latest(lines * 2) == latest(lines)  # merged with itself
    assert trials([*lines][::-1]) == [record, make_record(1)]


def test_ties_are_broken_by_what_the_schedule_is(make_record):
    slow = [
        make_record(0, sketch="tiles", id="a"),
        make_record(1, sketch="rows", id="b", knobs={"ty": 8, "tx": 2}),
        make_record(2, sketch="rows", id="d", knobs={"tx": 1, "ty": 9}),
        make_record(3, sketch="rows", id="c", knobs={"ty": 9, "tx": 1}),
    ]
    assert order(ranked(slow, key=KEY, target="llvm")) == [3, 2, 1, 0]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 999))
def test_order_of_records_does_not_matter(make_record, data, seed):
    records = []
    for n in range(data.draw(st.integers(1, 8))):
        record = make_record(
            n,
            samples=(data.draw(st.sampled_from([1e-3, 2e-3])),),
            status=data.draw(st.sampled_from(["ok", "ok", "correctness"])),
            verified="full",
            knobs={"ty": data.draw(st.sampled_from([1, 2]))},
            device={"name": data.draw(st.sampled_from([HERE, "B"]))},
            sizes={"height": data.draw(st.sampled_from([1, 5]))},
        )
        records.append(at(record, data.draw(st.integers(0, 2))))
        if record.ok and data.draw(st.booleans()):
            line = record.with_playoff((1.5e-3,), run=f"run-{n % 2}", winner=data.draw(st.booleans()))
            records.append(at(line, data.draw(st.integers(2, 4))))
    shuffled = records.copy()
    random.Random(seed).shuffle(shuffled)
    for device in (HERE, None):
        for sizes in ({"height": 2}, None):
            asked = {"key": KEY, "target": "llvm", "device": device, "sizes": sizes}
            choices = ranked(records, **asked)
            assert ranked(shuffled, **asked) == choices
            assert best(shuffled, **asked) == (choices[0] if choices else None)
            assert len({c.record.id for c in choices}) == len(choices)
            assert all(c.record.ok for c in choices)
