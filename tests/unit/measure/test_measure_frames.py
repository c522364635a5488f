from __future__ import annotations

import contextlib
import os
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.measure.frames import MAX_FRAME, FrameBuffer, FrameError, encode, read_frame, write_frame

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=10)
MESSAGES = st.dictionaries(st.text(max_size=5), VALUES | st.lists(VALUES, max_size=3), max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.lists(MESSAGES, max_size=5), st.integers(0, 2**32))
def test_frames_survive_any_cutting(messages: list[dict], seed: int) -> None:
    rng, data = random.Random(seed), b"".join(encode(m) for m in messages)
    buffer, received = FrameBuffer(), []
    while data:
        cut = rng.randint(1, len(data))
        buffer.feed(data[:cut])
        data = data[cut:]
        while (message := buffer.pop()) is not None:
            received.append(message)
    assert received == messages
    assert len(buffer) == 0


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_rubbish_is_a_frame_error_or_waits_for_more(data: bytes) -> None:
    buffer = FrameBuffer()
    buffer.feed(data)
    with contextlib.suppress(FrameError):
        while buffer.pop() is not None:
            pass


@pytest.mark.parametrize(
    "payload",
    [b"", b"[1]", b"7", b"nul", b"{", b'{"a": NaN}', b'{"a": Infinity}', b"\xff\xfe", b"[" * 100_000, b"9" * 10_000],
)
def test_payloads_that_are_no_message(payload: bytes) -> None:
    buffer = FrameBuffer()
    buffer.feed(struct.pack(">I", len(payload)) + payload)
    with pytest.raises(FrameError):
        buffer.pop()


def test_a_length_beyond_the_limit_is_refused_before_it_arrives() -> None:
    buffer = FrameBuffer()
    buffer.feed(struct.pack(">I", MAX_FRAME + 1))
    with pytest.raises(FrameError, match="1,048,577 bytes announced"):
        buffer.pop()


def test_messages_that_cannot_be_sent() -> None:
    for message in ({"a": float("nan")}, {"a": object()}, {"a": "x" * MAX_FRAME}):
        with pytest.raises(FrameError):
            encode(message)


def test_blocking_ends() -> None:
    read, write = os.pipe()
    try:
        write_frame(write, {"a": 1})
        write_frame(write, {"b": "ü"})
        os.write(write, encode({"c": 3})[:-1])
        os.close(write)
        assert read_frame(read) == {"a": 1}
        assert read_frame(read) == {"b": "ü"}
        assert read_frame(read) is None  # cut short
        assert read_frame(read) is None
    finally:
        os.close(read)
