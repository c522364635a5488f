"""The values of tuning decisions, in a fixed order: splits, orders of loops, annotations.

Logs of template tuners refer to values by their positions, so the order is part of the interface.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations, permutations, product
from math import factorial

from autosched.errors import UsageError

_SPLITS = ("factors", "power2", "verbose", "candidate")
_ORDERS = ("identity", "all", "interval_all", "candidate", "interleave", "interleave_cuda")
_MARKS = ("none", "unroll", "vec")
#: more orders than this are a mistake: 8 loops have 40320
MAX_ORDERS = 50_000

#: loops that are bound, from the outermost: for how many of them there are, how the last ones are
_BIND = {
    6: ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x"),
    4: ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"),
    2: ("blockIdx.x", "threadIdx.x"),
}
_BIND_VIRTUAL = {
    9: (*_BIND[6][:3], "vthread", "vthread", "vthread", *_BIND[6][3:]),
    6: ("blockIdx.y", "blockIdx.x", "vthread", "vthread", "threadIdx.y", "threadIdx.x"),
    3: ("blockIdx.x", "vthread", "threadIdx.x"),
}


def divisors(n: int) -> list[int]:
    """The divisors of a positive integer, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    low = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return low + [n // d for d in reversed(low) if d * d != n]


def powers_of_two(n: int) -> list[int]:
    """The powers of two up to n.

    >>> powers_of_two(12)
    [1, 2, 4, 8]
    """
    return [1 << i for i in range(n.bit_length())]


def split_sizes(
    extent: int,
    parts: int,
    policy: str = "factors",
    *,
    max_factor: int = 1 << 31,
    no_tail: bool | None = None,
    candidate: Sequence[Sequence[int]] = (),
) -> list[tuple[int, ...]]:
    """The sizes of `parts` loops that a loop of `extent` iterations is split into, outermost first.

    The outermost is -1: what is left. `policy` says which numbers the others are: `factors` of the extent,
    `power2`, both (`verbose`), or `candidate`, the given lists. `no_tail`, which `factors` implies, wants
    their product to divide the extent; otherwise it only must not exceed it. The sizes of the inner loops
    vary slowest.

    >>> split_sizes(4, 3)
    [(-1, 1, 1), (-1, 2, 1), (-1, 4, 1), (-1, 1, 2), (-1, 2, 2), (-1, 1, 4)]

    Raises UsageError for a policy that there is not, and for candidates of another length.
    """
    if policy not in _SPLITS:
        raise UsageError(f"{policy!r} is no policy", asked="define_split", legal=f"policies: {', '.join(_SPLITS)}")
    if parts < 1:
        raise UsageError(f"a loop is not split into {parts}", asked="define_split", legal="num_outputs=2 or more")
    if policy == "candidate":
        for c in candidate:
            if len(c) != parts:
                asked = f"define_split, num_outputs={parts}"
                raise UsageError(f"{list(c)} has {len(c)} sizes", asked=asked, legal=f"{parts}")
        return [tuple(int(x) for x in c) for c in candidate]
    if extent < 1:
        legal = "a length that is known, of 1 or more"
        raise UsageError(f"the loop has {extent} iterations", asked="define_split", legal=legal)
    numbers = {
        "factors": lambda: divisors(extent),
        "power2": lambda: powers_of_two(extent),
        # in the order of a set, which is what indices in logs count by
        "verbose": lambda: list(set(divisors(extent)) | set(powers_of_two(extent))),
    }[policy]()
    numbers = [x for x in numbers if x <= max_factor]
    exact = policy == "factors" if no_tail is None else no_tail
    found: list[tuple[int, ...]] = []

    def extend(inner: tuple[int, ...], so_far: int) -> None:
        if len(inner) == parts - 1:
            if extent % so_far == 0 or not exact:
                found.append((-1, *inner))
            return
        for x in numbers:
            if so_far * x <= extent:
                extend((x, *inner), so_far * x)

    extend((), 1)
    return found


def orders(
    axes: Sequence[Hashable],
    policy: str,
    *,
    interval: tuple[int, int] = (0, 0),
    candidate: Sequence[Sequence[Hashable]] = (),
    spatial: Sequence[Sequence[Hashable]] = (),
    reduce: Sequence[Sequence[Hashable]] = (),
) -> list[tuple[int, ...]]:
    """Orders of loops, each as positions in `axes`.

    `identity`; `all`; `interval_all`: all of those from interval[0] up to interval[1]; `candidate`: the given
    ones; `interleave`: the chains in `spatial` and `reduce`, their outer loops merged, then the inner ones
    with the reductions; `interleave_cuda`: likewise, with all reductions between the two.

    >>> orders("xyz", "interval_all", interval=(1, 3))
    [(0, 1, 2), (0, 2, 1)]
    >>> orders(["y", "yi", "x", "xi", "k"], "interleave", spatial=[["y", "yi"], ["x", "xi"]], reduce=[["k"]])
    [(0, 2, 1, 3, 4)]

    Raises UsageError for a policy that there is not, a loop that is not in `axes`, and too many orders.
    """
    if policy not in _ORDERS:
        raise UsageError(f"{policy!r} is no policy", asked="define_reorder", legal=f"policies: {', '.join(_ORDERS)}")
    place = {axis: i for i, axis in enumerate(axes)}
    everything = tuple(range(len(axes)))

    def places(of: Sequence[Hashable]) -> tuple[int, ...]:
        strange = next((x for x in of if x not in place), None)
        if strange is not None:
            raise UsageError(f"{strange!r} is not among the loops", asked="define_reorder", legal=f"{list(axes)}")
        return tuple(place[x] for x in of)

    if policy == "identity":
        return [everything]
    if policy == "candidate":
        return [places(c) for c in candidate]
    if policy in ("all", "interval_all"):
        begin, end = (0, len(axes)) if policy == "all" else interval
        inner = everything[begin:end]
        if (count := factorial(len(inner))) > MAX_ORDERS:
            asked, legal = f"define_reorder, policy={policy!r}", "policy='interval_all' or 'candidate', with fewer"
            raise UsageError(f"{len(inner)} loops have {count} orders", asked=asked, legal=legal)
        return [everything[:begin] + p + everything[end:] for p in permutations(inner)]
    chains, sums = [places(c) for c in spatial], [places(c) for c in reduce]
    outer, inner = _interleaved([c[:-1] for c in chains]), tuple(c[-1] for c in chains)
    if policy == "interleave":
        return [outer + _interleaved([(i,) for i in inner] + sums)]
    return [outer + _interleaved(sums) + inner]


def _interleaved(chains: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """One sequence of all: the next one always of the chain that has most left, the first of such."""
    left = [list(c) for c in chains]
    merged: list[int] = []
    while any(left):
        merged.append(max(left, key=len).pop(0))
    return tuple(merged)


def marks(count: int, policy: str, *, num_anchor: int = 0) -> list[tuple[str | int, ...]]:
    """The choices of marks for `count` loops, or of loops where caches go.

    A policy joins `none`, `unroll`, `vec` by underscores (`try` is `none`): every loop gets one of them, and
    at most one is `vec`. `bind_gpu` and `bind_gpu_virtual` fuse outer loops until the rest can be bound, to
    work-groups, work-items and virtual threads. `locate_cache` chooses `num_anchor` of the loops.

    >>> marks(2, "try_vec")
    [('none', 'none'), ('none', 'vec'), ('vec', 'none')]
    >>> marks(3, "bind_gpu")
    [('fuse', 'blockIdx.x', 'threadIdx.x')]

    Raises UsageError for a policy that there is not, and too few loops to bind.
    """
    if policy == "locate_cache":
        return list(combinations(range(count), num_anchor))
    if policy in ("bind_gpu", "bind_gpu_virtual"):
        ways = _BIND if policy == "bind_gpu" else _BIND_VIRTUAL
        best = next((n for n in ways if n <= count), None)
        if best is None:
            asked, legal = f"define_annotate, policy={policy!r}", f"{min(ways)} loops or more"
            raise UsageError(f"{count} loops are too few", asked=asked, legal=legal)
        return [("fuse",) * (count - best) + ways[best]]
    words = policy.replace("try", "none").split("_")
    if not set(words) <= set(_MARKS):
        raise UsageError(
            f"{policy!r} is no policy",
            asked="define_annotate",
            legal="none, unroll, vec, try_unroll, try_vec, try_unroll_vec, bind_gpu, bind_gpu_virtual, locate_cache",
        )
    return [c for c in product(words, repeat=count) if c.count("vec") <= 1]
