"""A record as a line: round trips, the checksum, and lines from a hostile stranger."""

from __future__ import annotations

import json
import math
import sys
import time
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.errors import RecordError
from autosched.records import decode, encode
from autosched.records.record import MAX_DEPTH, MAX_ERROR, MAX_LINE

GOLDEN = Path(__file__).parent / "format_v1.jsonl"


def sealed(body: bytes | dict[str, Any]) -> bytes:
    """A line with a right checksum: what a stranger who means harm would send."""
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    return body[:-1] + b',"crc":"%08x"}' % zlib.crc32(body)


def plain(record) -> dict[str, Any]:
    values = json.loads(encode(record))
    del values["crc"]
    return values


def test_round_trip(make_record):
    record = make_record(trial=5, error="größer\nals \u2028 sonst \x85", extra={"load": 0.5})
    line = encode(record)
    assert decode(line) == record
    assert decode(line.encode() + b"\n") == decode(line + "\r\n") == record
    assert hash(decode(line)) == hash(record)
    assert len(line.splitlines()) == 1


def test_line_is_sorted_and_closed_by_its_checksum(make_record):
    line = encode(make_record(extra={"zz": 1, "aa": 2}))
    values = json.loads(line)
    assert list(values)[:-1] == sorted(values.keys() - {"crc"})
    assert list(values["workload"]) == sorted(values["workload"])
    body = line.encode()[: -len(',"crc":"00000000"}')] + b"}"
    assert values["crc"] == f"{zlib.crc32(body):08x}"


def test_golden_line_of_version_1_is_read_for_ever(make_record):
    lines = GOLDEN.read_bytes().splitlines()
    assert [encode(decode(line)).encode() for line in lines] == lines
    assert decode(lines[0]) == make_record(trial=1, extra={"note": "größer"})
    assert decode(lines[1]).status == "timeout"
    assert decode(lines[2]).playoff == {"run": "run-2", "speedup": 3.25, "winner": True}


def test_unknown_fields_survive(make_record):
    values = plain(make_record())
    values["load_average"] = [0.5, {"deep": None}]
    values["extra"] = "a field that happens to have this name"
    values["workload"]["origin"] = "somewhere"
    values["device"]["cores"] = 2
    record = decode(sealed(values))
    assert record.extra == {"load_average": [0.5, {"deep": None}], "extra": values["extra"]}
    again = json.loads(encode(decode(encode(record))))
    assert {name: again[name] for name in values} == values


def test_numpy_numbers_are_taken(make_record):
    record = make_record(knobs={"ty": np.int64(8)}, samples=np.array([0.5, 0.25], np.float32), trial=np.int32(0))
    assert decode(encode(record)).samples == (0.5, 0.25)
    assert type(record.knobs["ty"]) is int


def test_seconds_is_the_median_of_ok_samples_that_nothing_disturbed(make_record):
    assert make_record(samples=(1.1, 1.0, 1.2)).seconds == 1.1
    assert make_record(samples=(1.0, 1.2)).seconds == 1.1
    assert make_record(samples=(7.8, 0.18, 7.9)).seconds == 0.18
    failed = make_record(status="crash")
    assert (failed.ok, failed.seconds) == (False, math.inf)
    # A candidate with a wrong output may well have been timed; its time counts for nothing.
    assert make_record(status="correctness", samples=(1e-9,)).seconds == math.inf


def test_long_error_loses_its_middle(make_record):
    record = decode(encode(make_record(status="compile", error="head " + "x" * 10**6 + " tail")))
    assert len(record.error) <= MAX_ERROR
    assert record.error.startswith("head x") and record.error.endswith("x tail")
    assert "characters left out" in record.error


def test_undecodable_bytes_in_an_error_do_not_lose_the_trial(make_record):
    error = b"bad \xff byte".decode(errors="surrogateescape")
    assert decode(encode(make_record(status="compile", error=error))).error == "bad ? byte"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"samples": (math.nan,)}, "a number is not finite"),
        ({"samples": (0.0,)}, "samples is not an array of positive numbers"),
        ({"samples": ()}, "status is ok, but there are no samples"),
        ({"build_s": -1.0}, "build_s is not a number of seconds"),
        ({"build_s": math.inf}, "a number is not finite"),
        ({"seed": 1 << 63}, "an integer does not fit 64 bits"),
        ({"at": "yesterday"}, "at is not a date and time"),
        ({"at": "2026-11-21T08:00:00"}, "at is not a date and time"),
        ({"target": "  "}, "target is not a target"),
        ({"status": ""}, "status is not a string of 1 to 64"),
        ({"workload": {"name": "a"}}, "workload.key is missing"),
        ({"extra": {"crc": "0"}}, "extra may not hold crc"),
        ({"extra": {"status": "ok"}}, "extra may not hold status"),
        ({"extra": {"fn": print}}, "a value of type builtin_function_or_method is no JSON"),
        ({"extra": {"array": np.zeros(2)}}, "a value of type ndarray is no JSON"),
        ({"extra": {"keys": {1: 2}}}, "a field's name is not a string"),
        ({"trace": ["x" * MAX_LINE]}, f"more than {MAX_LINE}"),
        ({"trace": [0] * (MAX_LINE + 1)}, f"more than {MAX_LINE} values"),
    ],
)
def test_encode_refuses_what_no_line_can_hold(make_record, changes, why):
    with pytest.raises(RecordError) as caught:
        encode(make_record(**changes))
    assert why in caught.value.why


def test_record_refuses_what_is_no_number(make_record):
    with pytest.raises(RecordError, match="integers"):
        make_record(knobs={"ty": 1.5})
    with pytest.raises(RecordError, match="numbers"):
        make_record(samples=("fast",))


def test_encode_ends_on_cyclic_and_shared_structures(make_record):
    cycle: list[Any] = []
    cycle.append(cycle)
    wide: list[Any] = []
    for _ in range(MAX_DEPTH - 3):
        wide = [wide, wide]
    for trace, why in ((cycle, "nested deeper"), (wide, "values")):
        start = time.process_time()
        with pytest.raises(RecordError, match=why):
            encode(make_record(trace=trace))
        assert time.process_time() - start < 1


def test_every_bit_flip_is_refused(make_record):
    line = encode(make_record(error="größer")).encode()
    refused = 0
    for position in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[position] ^= 1 << bit
            with pytest.raises(RecordError):
                decode(bytes(flipped))
            refused += 1
    assert refused == 8 * len(line)


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("not JSON", b"{nonsense}", "not JSON"),
        ("trailing data", b'{"v":1} {}', "not JSON"),
        ("pickle", b"\x80\x04cos\nsystem\n(S'true'\ntR.}", "not UTF-8"),
        ("NaN", b'{"v":NaN}', "NaN is no JSON number"),
        ("infinity", b'{"v":-Infinity}', "-Infinity is no JSON number"),
        ("overflow", b'{"v":1e999}', "not finite"),
        ("deep arrays", b'{"v":' + b"[" * 60_000 + b"}", "nested deeper"),
        ("closed deep arrays", b'{"v":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "nested deeper"),
        ("deep objects", b'{"v":' * 10_000 + b"1" + b"}" * 10_000, "nested deeper"),
        ("a little too deep", b'{"v":' + b"[" * 40 + b"]" * 40 + b"}", "nested deeper"),
        ("huge integer", b'{"v":' + b"9" * 65_000 + b"}", "does not fit 64 bits"),
        ("large integers", b'{"v":[' + b",".join([b"9" * 4000] * 15) + b"]}", "does not fit 64 bits"),
        ("huge fraction", b'{"v":1.' + b"9" * 65_000 + b"e-300}", "v is not a version"),
        ("many values", b'{"v":[' + b"0," * 32_000 + b"0]}", "v is not a version"),
        ("duplicate", b'{"v":1,"v":1}', "twice"),
        ("nested duplicate", b'{"w":{"a":1,"a":2}}', "twice"),
        ("half a character", b'{"v":"\\ud800"}', "half a character"),
        ("no UTF-8", b'{"v":"\xff"}', "not UTF-8"),
        ("million bytes", b'{"v":"' + b"x" * 10**6 + b'"}', "longer than"),
        ("newer", b'{"v":2}', "written by a newer autosched"),
        ("older", b'{"v":0}', "v is not a version"),
        ("bool version", b'{"v":true}', "v is not a version"),
    ],
)
def test_hostile_lines_fail_fast(name, body, why):
    start = time.process_time()
    with pytest.raises(RecordError) as caught:
        decode(sealed(body))
    # a few milliseconds where it was written
    assert time.process_time() - start < 0.25
    assert why in caught.value.why
    assert len(str(caught.value)) < 500


def test_lines_without_a_seal(make_record):
    line = encode(make_record())
    for bad in ("", "\n", "{}", '"crc":"00000000"}', line[:-1], line + " ", line.replace('"crc"', '"CRC"')):
        with pytest.raises(RecordError, match="does not end in a checksum"):
            decode(bad)
    with pytest.raises(RecordError, match="checksum does not match"):
        decode(line.replace("box_blur", "box_blue"))
    with pytest.raises(RecordError, match="not UTF-8"):
        decode(line.replace("box_blur", "box_\ud800"))
    with pytest.raises(RecordError, match="longer than"):
        decode("x" * 10**6)


WRONG = [None, True, -1, 1.5, "", "text", [], [1], ["a"], {}, {"a": "b"}, {"a": {}}]


def test_every_field_of_the_wrong_type_is_named(make_record):
    """Each field is replaced by one value of each type: accepted and kept, or refused by name."""
    good = plain(make_record())
    refused = set()
    for name in good:
        for wrong in WRONG:
            try:
                record = decode(sealed(good | {name: wrong}))
            except RecordError as e:
                assert name in e.why or (name, wrong) == ("samples", [])
                refused.add(name)
            else:
                assert json.loads(encode(record))[name] == wrong
        with pytest.raises(RecordError, match="missing" if name != "v" else "version"):
            decode(sealed({k: v for k, v in good.items() if k != name}))
    assert refused == good.keys()


def test_moments_at_the_ends_of_time(make_record):
    good = plain(make_record())
    for at in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-11-21T08:00:00Z"):
        assert math.isfinite(decode(sealed(good | {"at": at})).moment)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(in_workload=st.booleans(), pick=st.integers(0, 20), new_name=st.text(max_size=4), value=json_values)
def test_mutated_structure_is_refused_or_survives(make_record, in_workload, pick, new_name, value):
    """Any field, old or new, set to any JSON: `decode` raises RecordError alone, or the round trip is exact."""
    values = plain(make_record())
    into = values["workload"] if in_workload else values
    names = [*sorted(into), new_name]
    into[names[pick % len(names)]] = value
    try:
        record = decode(sealed(values))
    except RecordError:
        return
    assert decode(encode(record)) == record


@settings(max_examples=300, deadline=None)
@given(junk=st.binary(max_size=60), at=st.integers(0, 1200), cut=st.integers(0, 40), fix_crc=st.booleans())
def test_mutated_bytes_raise_record_error_alone(make_record, junk, at, cut, fix_crc):
    line = encode(make_record()).encode()
    body = line[: -len(',"crc":"00000000"}')] + b"}"
    mutated = body[:at] + junk + body[at + cut :]
    try:
        record = decode(sealed(mutated) if fix_crc else mutated + line[-18:])
    except RecordError:
        return
    assert fix_crc or mutated == body
    decode(encode(record))


_watching: list[list[str]] = []


def _audit(event: str, args: tuple[object, ...]) -> None:
    if _watching and event.partition(".")[0] in ("exec", "compile", "import", "open", "os", "subprocess", "ctypes"):
        _watching[0].append(f"{event} {args!r:.100}")


def test_decoding_runs_and_opens_nothing(make_record):
    lines = [
        encode(
            make_record(trace=[["__import__('os').system('true')"], {"__class__": "os"}], error="<script>")
        ).encode(),
        sealed(b'{"v":1,"py/object":"os.system"}'),
        sealed(b"!!python/object/apply:os.system [true]}"),
        b"cos\nsystem\n(S'true'\ntR.",
    ]
    sys.addaudithook(_audit)  # can never be removed, so it looks at a switch
    seen: list[str] = []
    _watching.append(seen)
    try:
        for line in lines * 2:
            with suppress(RecordError):
                decode(line)
    finally:
        _watching.clear()
    assert seen == []


def test_with_playoff_and_as_failed_keep_the_identity(make_record):
    record = make_record(extra={"note": 1})
    confirmed = record.with_playoff((3e-3, 3e-3), run="run-2", winner=True, speedup=2.0)
    assert confirmed.playoff == {"run": "run-2", "winner": True, "speedup": 2.0}
    assert (confirmed.id, confirmed.seconds, confirmed.extra["note"]) == (record.id, 3e-3, 1)
    assert confirmed.moment > record.moment
    withdrawn = confirmed.as_failed("correctness", "wrong at [0, 3]")
    assert (withdrawn.ok, withdrawn.playoff, withdrawn.id) == (False, None, record.id)
    for line in (confirmed, withdrawn):
        assert decode(encode(line)) == line
    assert replace(record, extra={"playoff": "nonsense"}).playoff is None
