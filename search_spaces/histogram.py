"""How often each value occurs in an image: 256 counts."""

import numpy as np

from autosched import te, template, workload
from autosched.space.samples import photograph as china


def photograph(height=1280, width=1920, channels=3):
    """A real photograph (scikit-learn's), scaled: long runs of one value, which is the hard case."""
    picture = china()
    rows = np.arange(height) * picture.shape[0] // max(height, 1)
    columns = np.arange(width) * picture.shape[1] // max(width, 1)
    return [picture[rows[:, None], columns[None, :]][:, :, np.arange(channels) % 3]]


@workload(inputs=photograph)
def histogram(height=1280, width=1920, channels=3):
    """image[height, width, channels], uint8 -> counts[256], int32."""
    image = te.placeholder((height, width, channels), "uint8", name="image")
    y, x = te.reduce_axis((0, height), name="y"), te.reduce_axis((0, width), name="x")
    c = te.reduce_axis((0, channels), name="c")
    one = te.const(1, "int32")
    return image, te.scatter_reduce((256,), lambda: (image[y, x, c], one), axis=[y, x, c], name="histogram")


@template(histogram, target="cpu")
def private_counts(s):
    """Counts of its own for each task, and for each of a few neighbouring elements.

    Where neighbours are alike, adding to one count would wait for the addition before to come back
    from memory; elements that count in different places do not.
    """
    counts = s["histogram"]
    band, _ = counts.split("y", factor=s.define_knob("rows", [16, 32, 64, 128, 256, 640]))
    of_band = s[s.rfactor(counts, band)]
    row = of_band.fuse(*[loop for loop in of_band.loops if loop.is_reduce][1:])
    _, neighbour = of_band.split(row, factor=s.define_knob("neighbours", [1, 2, 4, 8]))
    single = s[s.rfactor(of_band, neighbour)]
    of_band.parallel(of_band.op.axis[0])
    single.compute_at(of_band, of_band.op.axis[0])
    single.reorder(*single.op.reduce_axis, single.op.axis[0])
    single.unroll(single.op.axis[0])
    for sums in (of_band, counts):
        total, place = sums.loops[-1], sums.loops[-2]
        _, lane = sums.split(place, factor=16)
        sums.reorder(total, lane)
        sums.vectorize(lane)


@template(histogram, target="gpu")
def counts_of_work_items(s):
    """Each work-item counts a band of rows in a place of its own; a second kernel adds the counts up."""
    counts = s["histogram"]
    band, _ = counts.split("y", factor=s.define_knob("rows", [2, 4, 8, 16, 32, 64]))
    of_band = s[s.rfactor(counts, band)]
    items = s.define_knob("items", [1, 4, 16, 64])
    for stage, loop in ((of_band, of_band.op.axis[0]), (counts, counts.op.axis[0])):
        group, item = stage.split(loop, factor=items)
        stage.bind(group, "blockIdx.x")
        stage.bind(item, "threadIdx.x")
