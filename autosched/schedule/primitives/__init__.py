"""The schedule primitives: one function each, with a picture of before and after. See `schedule.primitive`."""
