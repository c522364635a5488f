"""Replay: strategies searching a space that was measured once, to its last point.

    recorded.py   a measured space, from its file: what a strategy sees of it, and `measure`
    recording.py  such a file, from ordinary records
    replay.py     one strategy, one space, one seed -> a curve; many of them, in processes
    curves.py     the curves of several strategies as figures, tables and SVG

No device is needed, and no compiler: thousands of trials take a second.
"""
