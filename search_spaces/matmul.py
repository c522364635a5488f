"""Matrix products: one, or a batch of them, in any type.

Integers are summed in a wider type: the products of 8 and 16 bit integers in 32 bits.
"""

from autosched import te, template, workload
from autosched.space.gpu import share
from autosched.space.rules import generated

#: type of the elements -> type of the sums
SUMS = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16"), "int32"),
    **dict.fromkeys(("float16", "bfloat16"), "float32"),
}


@workload
def matmul(m=1024, n=1024, k=1024, dtype="float32"):
    """a[m, k], b[k, n] -> c[m, n]."""
    sums = SUMS.get(str(dtype), dtype)
    a = te.placeholder((m, k), dtype, name="a")
    b = te.placeholder((k, n), dtype, name="b")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(sums) * b[r, j].astype(sums), axis=r), name="c")
    return a, b, c


@workload
def batched_matmul(batch=12, m=512, n=512, k=64, dtype="float32"):
    """a[batch, m, k], b[batch, k, n] -> c[batch, m, n], such as the scores of an attention layer."""
    sums = SUMS.get(str(dtype), dtype)
    a = te.placeholder((batch, m, k), dtype, name="a")
    b = te.placeholder((batch, k, n), dtype, name="b")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute(
        (batch, m, n), lambda p, i, j: te.sum(a[p, i, r].astype(sums) * b[p, r, j].astype(sums), axis=r), name="c"
    )
    return a, b, c


def _packed(s, tensor, axis, block):
    """A copy of a matrix, cut into panels `block` wide along `axis` (-2 or -1), each of them contiguous
    and the last filled up with zeros. Returns its stage; put it where the copying should be done."""
    copy = s.cache_read(tensor, "global", [s["c"]])
    axes = list(s[copy].op.axis)
    kept = axes[-1] if axis == -2 else axes[-2]
    panel, element = s[copy].split(axes[axis], factor=block)
    s[copy].reorder(*axes[:-2], panel, kept, element)
    panels = s.cache_write(copy, "global")
    s[copy].compute_inline()
    return s[panels]


def panels(s, target):
    """Panels of b, a few vectors wide, stay in the cache while tiles of a few rows of a pass by.

    The sums of a tile live in registers: `rows` x `vectors` of them, which for each k need `vectors`
    loads and `rows` broadcasts. What is left at the borders runs as whole tiles over the zeros of the
    panels, and is cut off when the tile is stored. Products of bytes are left to the sketch rules, which know the
    instructions for them.
    """
    c = s["c"]
    if c.op.input_tensors[0].dtype.bits == 8:
        return generated(target).fn(s, target)
    rows = s.define_knob("rows", [2, 3, 4, 6, 8, 12, 14])
    vectors = s.define_knob("vectors", [1, 2, 3, 4])
    lanes = s.define_knob("lanes", [4, 8, 16])
    tiles = s.define_knob("tiles", [1, 4, 8, 16, 32, 64])
    s.constrain(rows * vectors + vectors + 1 <= 32, "the sums of a tile do not fit into 32 registers")
    width = vectors * lanes

    b = _packed(s, "b", -1, width)
    a = _packed(s, "a", -2, rows) if s.choose("pack_a", [False, True]) else None
    sums = s[s.cache_write(c, "local")]

    *batch, i, j = c.op.axis
    panel, column = c.split(j, factor=width)
    tile, row = c.split(i, factor=rows)
    block, tile = c.split(tile, factor=tiles)
    vector, lane = c.split(column, factor=lanes)
    c.reorder(block, panel, tile, row, vector, lane)
    c.parallel(c.fuse(*batch, block, panel))
    c.unroll(row)
    c.unroll(vector)
    c.vectorize(lane)

    sums.compute_at(c, tile)
    *_, row, column = sums.op.axis
    vector, lane = sums.split(column, factor=lanes)
    k, step = sums.split(sums.op.reduce_axis[0], factor=s.define_knob("steps", [1, 2, 4]))
    sums.reorder(k, step, row, vector, lane)
    for loop in (step, row, vector):
        sums.unroll(loop)
    sums.vectorize(lane)

    *batch, panel, _, element = b.op.axis
    b.parallel(b.fuse(*batch, panel))
    vector, lane = b.split(element, factor=lanes)
    b.vectorize(lane)
    if a is not None:
        *batch, panel, _, element = a.op.axis
        a.parallel(a.fuse(*batch, panel))
        a.unroll(element)


template(matmul, target="cpu")(panels)
template(batched_matmul, target="cpu")(panels)


def _shared_tiles(s):
    """Tiles of a and b in shared memory, fetched by a work-group together; sums in registers.

    A work-item has `rows` x `lanes` sums, and that in `apart` x `apart` places: neighbouring work-items
    read neighbouring vectors of b, and each value from shared memory serves several sums. Rows of a
    are padded, so that work-items that read one column of it find it in different banks.
    """
    c = s["c"]
    rows, lanes = s.define_knob("rows", [2, 4, 8]), s.define_knob("lanes", [1, 2, 4])
    items_y, items_x = s.define_knob("items_y", [8, 16]), s.define_knob("items_x", [8, 16, 32])
    apart, steps = s.define_knob("apart", [1, 2]), s.define_knob("steps", [8, 16, 32])
    s.constrain(rows * lanes * apart * apart <= 64, "the sums do not fit into registers")
    sums = s[s.cache_write(c, "local")]
    fetched = [s[s.cache_read(name, "shared", [sums])] for name in ("a", "b")]

    *batch, i, j = c.op.axis
    block_y, i = c.split(i, factor=items_y * rows * apart)
    block_x, j = c.split(j, factor=items_x * lanes * apart)
    virtual_y, i = c.split(i, nparts=apart)
    virtual_x, j = c.split(j, nparts=apart)
    item_y, row = c.split(i, factor=rows)
    item_x, lane = c.split(j, factor=lanes)
    c.reorder(*batch, block_y, block_x, virtual_y, virtual_x, item_y, item_x, row, lane)
    for loop, tag in (
        (block_y, "blockIdx.y"),
        (block_x, "blockIdx.x"),
        (item_y, "threadIdx.y"),
        (item_x, "threadIdx.x"),
    ):
        c.bind(loop, tag)
    for loop in (virtual_y, virtual_x):
        c.bind(loop, te.thread_axis("vthread"))
    if batch:
        c.bind(c.fuse(*batch), "blockIdx.z")
    c.unroll(row)
    c.vectorize(lane)

    sums.compute_at(c, item_x)
    *batch, row, lane = sums.op.axis
    outer, inner = sums.split(sums.op.reduce_axis[0], factor=steps)
    sums.reorder(outer, inner, *batch, row, lane)
    sums.unroll(row)
    sums.vectorize(lane)
    for tile in fetched:
        tile.compute_at(sums, outer)
        share(tile, {"threadIdx.x": items_x, "threadIdx.y": items_y}, s.define_knob("loads", [1, 4]))
    fetched[0].storage_align(fetched[0].op.axis[-2], 8, 4)


template(matmul, target="gpu")(_shared_tiles)
template(batched_matmul, target="gpu")(_shared_tiles)
