"""`te.AXIS_SEPARATOR`, which may stand between the indices of a layout."""

from __future__ import annotations


class AxisSeparator:
    """Its only value is `AXIS_SEPARATOR`."""

    def __repr__(self) -> str:
        return "te.AXIS_SEPARATOR"


#: Between the indices of a layout: those before it and those after it address memory of more than one
#: dimension. All memory here has one, in which the groups follow one another anyway.
AXIS_SEPARATOR = AxisSeparator()
