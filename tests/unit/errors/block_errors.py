"""What `tir.Schedule` refuses in words of its own. Other messages are those of the primitive underneath."""

from __future__ import annotations

from error_cases import Cases

from autosched import te, tir


def blocks() -> tir.Schedule:
    """B = A + 1 -> C = B W -> D = 2 C."""
    a, w = te.placeholder((24, 16), name="A"), te.placeholder((16, 12), name="W")
    b = te.compute((24, 16), lambda i, j: a[i, j] + 1, name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((24, 12), lambda i, j: te.sum(b[i, k] * w[k, j], axis=k), name="C")
    return tir.Schedule(tir.create_prim_func([a, w, te.compute((24, 12), lambda y, x: c[y, x] * 2, name="D")]))


def any_length() -> tir.Schedule:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    return tir.Schedule(tir.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1, name="B")]))


CASES: Cases = {
    "blocks": {
        "no such block": lambda s: s.get_block("E"),
        "a block that is inlined": lambda s: (s.compute_inline(s.get_block("B")), s.get_block("B")),
        "no such buffer": lambda s: s.cache_read(s.get_block("C"), 2, "local"),
        "no such buffer to align": lambda s: s.storage_align(s.get_block("B"), 1, 0, 32, 1),
        "no such dimension to align": lambda s: s.storage_align(s.get_block("B"), 0, 2, 32, 1),
        "no loop to reorder": lambda s: s.reorder(),
        "fuse around a block": lambda s: (
            s.compute_at(s.get_block("B"), s.get_loops(s.get_block("C"))[0]),
            s.fuse(*s.get_loops(s.get_block("C"))[:2]),
        ),
        "cache write for some consumers": lambda s: s.cache_write(
            s.get_block("C"), 0, "local", consumer_blocks=[s.get_block("D")]
        ),
        "split what is annotated": lambda s: (
            loop := s.get_loops(s.get_block("D"))[0],
            s.annotate(loop, "software_pipeline_stage", [0, 1]),
            s.split(loop, [None, 4]),
        ),
        "take back an annotation that is not there": lambda s: s.unannotate(s.get_block("D"), "test"),
        "an annotation of a block": lambda s: s.annotate(s.get_block("D"), "pragma_streaming_store", 1),
        "a layout with a value for padding": lambda s: s.transform_layout(
            s.get_block("B"), ("write", 0), lambda i, j: [j, i], pad_value="edge"
        ),
        "a layout of no buffer": lambda s: s.transform_layout(s.get_block("B"), ("written", 0), lambda i, j: [j, i]),
        "split a block": lambda s: s.split(s.get_block("D"), [None, 4]),
        "compute at no loop": lambda s: s.compute_at(s.get_block("B"), "outer"),
        "a copy in its place": lambda s: s.cache_inplace(s.get_block("C"), 0, "local"),
        "blockize twice": lambda s: [s.blockize(x) for x in s.get_loops(s.get_block("C"))],
        "take an annotation back": lambda s: (
            loop := s.get_loops(s.get_block("D"))[1],
            s.annotate(loop, "pragma_streaming_store", 1),
            s.unannotate(loop, "pragma_streaming_store"),
        ),
    },
    "sampling": {
        "a tile of a loop that is gone": lambda s: (
            loop := s.get_loops(s.get_block("D"))[0],
            s.split(loop, factors=[None, 4]),
            s.sample_perfect_tile(loop, n=2),
        ),
        "a tile of a loop of unknown extent": (
            any_length,
            lambda s: s.sample_perfect_tile(s.get_loops(s.get_block("B"))[0], n=2),
        ),
        "a tile of one part": lambda s: s.sample_perfect_tile(s.get_loops(s.get_block("D"))[0], n=1),
        "a decision that is no tiling": lambda s: s.sample_perfect_tile(
            s.get_loops(s.get_block("D"))[0], n=2, decision=[5, 5]
        ),
        "a category of nothing": lambda s: s.sample_categorical([], []),
        "probabilities for others": lambda s: s.sample_categorical([1, 2], [0.5, 0.25, 0.25]),
        "a decision for nobody": lambda s: s.sample_categorical([1, 2], [0.5, 0.5], decision=2),
        "a place for nobody": lambda s: s.sample_compute_location(s.get_block("C"), decision=-2),
    },
}
