"""`tvm.topi.image`: images of another size, and samples of them."""

from autosched.topi.image import *  # noqa: F403
from autosched.tvm._missing import missing

__getattr__ = missing("topi.image", globals())
