"""What `tir.Schedule` refuses in words of its own. Other messages are those of the primitive underneath."""

from __future__ import annotations

from collections.abc import Callable

from autosched import te, tir


def blocks() -> tir.Schedule:
    """B = A + 1 -> C = B W -> D = 2 C."""
    a, w = te.placeholder((24, 16), name="A"), te.placeholder((16, 12), name="W")
    b = te.compute((24, 16), lambda i, j: a[i, j] + 1, name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((24, 12), lambda i, j: te.sum(b[i, k] * w[k, j], axis=k), name="C")
    return tir.Schedule(tir.create_prim_func([a, w, te.compute((24, 12), lambda y, x: c[y, x] * 2, name="D")]))


def no_such_block() -> None:
    blocks().get_block("E")


def a_block_that_is_inlined() -> None:
    s = blocks()
    s.compute_inline(s.get_block("B"))
    s.get_block("B")


def no_such_buffer() -> None:
    s = blocks()
    s.cache_read(s.get_block("C"), 2, "local")


def no_such_buffer_to_align() -> None:
    s = blocks()
    s.storage_align(s.get_block("B"), 1, 0, 32, 1)


def no_such_dimension_to_align() -> None:
    s = blocks()
    s.storage_align(s.get_block("B"), 0, 2, 32, 1)


def no_loop_to_reorder() -> None:
    blocks().reorder()


def fuse_around_a_block() -> None:
    s = blocks()
    s.compute_at(s.get_block("B"), s.get_loops(s.get_block("C"))[0])
    s.fuse(*s.get_loops(s.get_block("C"))[:2])


def cache_write_for_some_consumers() -> None:
    s = blocks()
    s.cache_write(s.get_block("C"), 0, "local", consumer_blocks=[s.get_block("D")])


# -- sampling ------------------------------------------------------------------------------------------------


def a_tile_of_a_loop_that_is_gone() -> None:
    s = blocks()
    loop = s.get_loops(s.get_block("D"))[0]
    s.split(loop, factors=[None, 4])
    s.sample_perfect_tile(loop, n=2)


def a_tile_of_a_loop_of_unknown_extent() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    s = tir.Schedule(tir.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1, name="B")]))
    s.sample_perfect_tile(s.get_loops(s.get_block("B"))[0], n=2)


def a_tile_of_one_part() -> None:
    s = blocks()
    s.sample_perfect_tile(s.get_loops(s.get_block("D"))[0], n=1)


def a_decision_that_is_no_tiling() -> None:
    s = blocks()
    s.sample_perfect_tile(s.get_loops(s.get_block("D"))[0], n=2, decision=[5, 5])


def a_category_of_nothing() -> None:
    blocks().sample_categorical([], [])


def probabilities_for_others() -> None:
    blocks().sample_categorical([1, 2], [0.5, 0.25, 0.25])


def a_decision_for_nobody() -> None:
    blocks().sample_categorical([1, 2], [0.5, 0.5], decision=2)


def a_place_for_nobody() -> None:
    s = blocks()
    s.sample_compute_location(s.get_block("C"), decision=-2)


# -- annotations, layouts ------------------------------------------------------------------------------------


def an_annotation_that_means_nothing() -> None:
    s = blocks()
    s.annotate(s.get_loops(s.get_block("D"))[0], "software_pipeline_stage", [0, 1])


def an_annotation_of_a_block() -> None:
    s = blocks()
    s.annotate(s.get_block("D"), "pragma_streaming_store", 1)


def a_layout_with_a_value_for_padding() -> None:
    s = blocks()
    s.transform_layout(s.get_block("B"), ("write", 0), lambda i, j: [j, i], pad_value=0)


def a_layout_of_no_buffer() -> None:
    s = blocks()
    s.transform_layout(s.get_block("B"), ("written", 0), lambda i, j: [j, i])


def split_a_block() -> None:
    s = blocks()
    s.split(s.get_block("D"), [None, 4])  # type: ignore[arg-type]


def compute_at_no_loop() -> None:
    s = blocks()
    s.compute_at(s.get_block("B"), "outer")


def merge_loops() -> None:
    s = blocks()
    s.merge(*(s.get_loops(s.get_block(name))[0] for name in "CD"))  # type: ignore[attr-defined]


def blockize_a_tile() -> None:
    s = blocks()
    s.blockize(s.get_loops(s.get_block("C"))[1])  # type: ignore[attr-defined]


def take_an_annotation_back() -> None:
    s = blocks()
    loop = s.get_loops(s.get_block("D"))[1]
    s.annotate(loop, "pragma_streaming_store", 1)
    s.unannotate(loop, "pragma_streaming_store")  # type: ignore[attr-defined]


CASES: dict[str, list[Callable[[], None]]] = {
    "blocks": [
        no_such_block, a_block_that_is_inlined, no_such_buffer, no_such_buffer_to_align, no_such_dimension_to_align,
        no_loop_to_reorder, fuse_around_a_block, cache_write_for_some_consumers,
        an_annotation_that_means_nothing, an_annotation_of_a_block, a_layout_with_a_value_for_padding,
        a_layout_of_no_buffer, split_a_block, compute_at_no_loop, merge_loops, blockize_a_tile, take_an_annotation_back,
    ],
    "sampling": [
        a_tile_of_a_loop_that_is_gone, a_tile_of_a_loop_of_unknown_extent, a_tile_of_one_part,
        a_decision_that_is_no_tiling, a_category_of_nothing, probabilities_for_others, a_decision_for_nobody,
        a_place_for_nobody,
    ],
}  # fmt: skip
