"""Pixels of a few channels: planes to channels and back, other orders, some of the channels, other rows' pixels."""

from __future__ import annotations

import pytest
from generated_spaces import LLVM, check, planned

from autosched import te
from autosched.target import Target

HEIGHT, WIDTH = 9, 40
C = Target.parse("c -threads=2").with_limits(**LLVM.limits)
PIXELS = {
    "planes to channels": ((3, HEIGHT, WIDTH), lambda a, i, j, k: a[k, i, j]),
    "backwards": ((HEIGHT, WIDTH, 3), lambda a, i, j, k: a[i, j, 2 - k]),
    "turned round": ((HEIGHT, WIDTH, 3), lambda a, i, j, k: a[i, j, (k + 1) % 3]),
    "without the last": ((HEIGHT, WIDTH, 4), lambda a, i, j, k: a[i, j, k]),
    "of a row of planes": ((HEIGHT, 3, WIDTH), lambda a, i, j, k: a[i, k, j]),
    "transposed": ((WIDTH, HEIGHT, 3), lambda a, i, j, k: a[j, i, k]),
    "mirrored": ((HEIGHT, WIDTH, 3), lambda a, i, j, k: a[i, WIDTH - 1 - j, k]),
    "upside down": ((HEIGHT, WIDTH, 3), lambda a, i, j, k: a[HEIGHT - 1 - i, j, k]),
    "in place": ((HEIGHT, WIDTH, 3), lambda a, i, j, k: a[i, j, k]),
    "cropped": ((HEIGHT + 2, WIDTH + 5, 3), lambda a, i, j, k: a[i + 2, j + 5, k]),
}
RULES = {
    "whole_pixels": ["transposed", "mirrored"],
    "whole_rows": ["upside down", "in place", "cropped"],
}


def program(kind: str, of: str) -> tuple[te.Tensor, te.Tensor]:
    shape, element = PIXELS[kind]
    a = te.placeholder(shape, of, name="a")
    return a, te.compute((HEIGHT, WIDTH, 3), lambda i, j, k: element(a, i, j, k), name="y")


@pytest.mark.parametrize("of", ["uint8", "float32"])
@pytest.mark.parametrize("kind", PIXELS)
def test_pixels_by_where_their_channels_lie(kind: str, of: str) -> None:
    """Channels that do not lie side by side, or not all, are vectors of pixels each."""
    plan = planned(*program(kind, of))
    rule = next((name for name, kinds in RULES.items() if kind in kinds), "planes_of_pixels")
    assert plan.done[plan.s["y"]] == rule
    is_by_pixels = not any(x.kind == "vectorize" for x in plan.s["y"].loops)
    assert is_by_pixels == (kind == "transposed"), "vectors would be put together byte by byte"
    check(program(kind, of))


@pytest.mark.parametrize("target", [LLVM, C], ids=str)
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("of", ["uint8", "int16", "float32", "float64"])
def test_channels_become_planes_together(target: Target, channels: int, of: str) -> None:
    """Each pixel is read once for all planes."""
    a = te.placeholder((HEIGHT, WIDTH, channels), of, name="a")
    y = te.compute((channels, HEIGHT, WIDTH), lambda k, i, j: a[i, j, k] + te.const(1, of), name="y")
    assert any(x.kind == "unroll" and x.name.startswith("k") for x in planned(a, y).s["y"].loops)
    check((a, y), target=target)
