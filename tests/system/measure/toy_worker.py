"""A worker of a few lines, started as a script: does what each question's `do` says."""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time

READ, WRITE = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--read-fd", "--write-fd"))


def read() -> dict:
    header = os.read(READ, 4)
    if len(header) < 4:
        sys.exit(0)
    left, data = struct.unpack(">I", header)[0], b""
    while len(data) < left:
        data += os.read(READ, left - len(data))
    return json.loads(data)


def write(message: dict, cut: int = 0) -> None:
    payload = json.dumps(message).encode()
    data = struct.pack(">I", len(payload)) + payload
    os.write(WRITE, data[: len(data) - cut])


while True:
    question = read()
    seq, do = question["seq"], question["do"]
    if do == "echo":
        write({"seq": seq, "got": question["value"]})
    elif do == "slow":
        time.sleep(question["pause"])
        write({"seq": seq})
    elif do == "compute":
        end = time.process_time() + question["cpu"]
        while time.process_time() < end:
            time.sleep(question["pause"])  # as if others had the CPU
            until = time.process_time() + 0.02
            while time.process_time() < until:
                pass
        write({"seq": seq})
    elif do == "compute in a child":
        os.system(f"{sys.executable} -S -c 'while True: pass'")
    elif do == "print":
        os.write(1, b"out ")
        os.write(2, b"err")
        write({"seq": seq})
    elif do == "flood":
        for _ in range(question["blocks"]):
            os.write(2, b"x" * 65536)
        write({"seq": seq})
    elif do == "phases":
        for phase in question["phases"]:
            write({"seq": seq, "phase": phase})
            time.sleep(question["pause"])
        write({"seq": seq})
    elif do == "twice":
        frame = b'{"seq":%d}' % seq
        os.write(WRITE, 2 * (struct.pack(">I", len(frame)) + frame))
    elif do == "twice late":
        write({"seq": seq})
        time.sleep(question["pause"])
        write({"seq": seq})
    elif do == "half":
        write({"seq": seq}, cut=3)
        time.sleep(600)
    elif do == "answer":
        write({"seq": seq + question["shift"]})
        time.sleep(600)
    elif do == "close pipe":
        os.close(WRITE)
        time.sleep(600)
    elif do == "close output":
        os.close(1)
        os.close(2)
        time.sleep(0.05)
        write({"seq": seq})
    elif do == "answer and exit":
        write({"seq": seq})
        sys.exit(0)
    elif do == "exit":
        os._exit(question["status"])
    elif do == "signal":
        os.kill(os.getpid(), question["number"])
        time.sleep(600)
    elif do == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    elif do == "family":
        child = os.fork()
        if child == 0:
            time.sleep(600)
        write({"seq": seq, "child": child})
    elif do == "state":
        write({"seq": seq, "sid": os.getsid(0), "fds": sorted(os.listdir("/proc/self/fd")), "cwd": os.getcwd()})
