"""Frames on a pipe: 4 bytes of length (big-endian) and one JSON object.

They are JSON and not pickle, because a candidate may have overwritten the memory of the other end: a damaged frame
costs a FrameError and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
from collections.abc import Callable
from typing import Any

from autosched.errors import Form, Malformed, parse_json

#: Longest payload, in bytes. Real frames are a few kilobytes.
MAX_FRAME = 1 << 20

_HEADER = struct.Struct(">I")


class FrameError(ValueError):
    """Bytes on the pipe that are not a frame."""


def encode(message: dict[str, Any]) -> bytes:
    """One frame. Raises FrameError for a message that JSON or the size limit does not allow."""
    try:
        payload = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from None
    if len(payload) > MAX_FRAME:
        raise FrameError(f"a frame of {len(payload):,} bytes; the limit is {MAX_FRAME:,}")
    return _HEADER.pack(len(payload)) + payload


def _decode(payload: bytes) -> dict[str, Any]:
    try:
        message: dict[str, Any] = Form.object().check(parse_json(payload), "the message")
    except Malformed as error:
        raise FrameError(str(error)) from None
    return message


def _length(header: bytes) -> int:
    (length,) = _HEADER.unpack(header)
    if length > MAX_FRAME:
        raise FrameError(f"a frame of {length:,} bytes announced; the limit is {MAX_FRAME:,}")
    return int(length)


class FrameBuffer:
    """Puts frames together from the pieces that non-blocking reads return."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __len__(self) -> int:
        """Bytes received and not yet part of a frame that was taken out."""
        return len(self._bytes)

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def pop(self) -> dict[str, Any] | None:
        """The next complete message, or None. Raises FrameError; after that the stream is lost."""
        if len(self._bytes) < _HEADER.size:
            return None
        end = _HEADER.size + _length(bytes(self._bytes[: _HEADER.size]))
        if len(self._bytes) < end:
            return None
        payload = bytes(self._bytes[_HEADER.size : end])
        del self._bytes[:end]
        return _decode(payload)


def _read_exactly(fd: int, count: int) -> bytes:
    """`count` bytes, or fewer at the end of the stream."""
    pieces = bytearray()
    while len(pieces) < count:
        piece = os.read(fd, count - len(pieces))
        if not piece:
            break
        pieces += piece
    return bytes(pieces)


def read_frame(fd: int) -> dict[str, Any] | None:
    """Blocking read of one message; None when the other end closed the pipe. Raises FrameError."""
    header = _read_exactly(fd, _HEADER.size)
    if len(header) < _HEADER.size:
        return None
    length = _length(header)
    payload = _read_exactly(fd, length)
    return _decode(payload) if len(payload) == length else None


def write_frame(fd: int, message: dict[str, Any]) -> None:
    """Blocking write of one message. Raises FrameError, or OSError when the other end is gone."""
    data = memoryview(encode(message))
    while data:
        data = data[os.write(fd, data) :]


def answer_frames(read: int, write: int, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer each message of a `WorkerProcess`, until it closes the pipe."""
    while (message := read_frame(read)) is not None:
        write_frame(write, {"seq": message["seq"], **answer(message)})


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Be the program of a `WorkerProcess`: answer its messages until it closes the pipe."""
    parser = argparse.ArgumentParser()
    for name in ("--read-fd", "--write-fd", "--parent"):
        parser.add_argument(name, type=int, required=True)
    args, _ = parser.parse_known_args()
    answer_frames(args.read_fd, args.write_fd, answer)
