"""`tvm.topi.testing`: operators in NumPy, to compare with, and what tests choose by target."""

from autosched.tvm._missing import missing
from autosched.tvm.topi.testing.arrays import *  # noqa: F403
from autosched.tvm.topi.testing.common import *  # noqa: F403
from autosched.tvm.topi.testing.images import *  # noqa: F403
from autosched.tvm.topi.testing.windows import *  # noqa: F403

__getattr__ = missing("topi.testing", globals())
