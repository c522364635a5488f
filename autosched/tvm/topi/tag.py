"""`tvm.topi.tag`: kinds of operations, which are texts."""

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether each element is made of elements at the same place, or stretched."""
    return tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Whether each element is made of one element of each input."""
    return tag.startswith((ELEMWISE, BROADCAST, INJECTIVE))
