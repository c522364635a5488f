"""Arrays of bfloat16 on their way in and out."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import ArgumentTypeError
from autosched.ir.dtype import dtype, from_file, is_float
from autosched.measure.verify import allowed_error, compare, poison
from autosched.runtime.module import Module
from autosched.runtime.ndarray import array, from_dlpack
from autosched.schedule import create_schedule


@pytest.fixture(scope="module")
def doubled() -> Module:
    a = te.placeholder((6,), "bfloat16", name="a")
    b = te.compute((6,), lambda i: a[i] * 2, name="b")
    return autosched.build(create_schedule(b), "llvm", args=[a, b])


def test_arrays(doubled: Module) -> None:
    x = np.array([1, -0.0, 2.0**-133, 3e38, np.inf, np.nan], "bfloat16")
    wanted = [2, 0, 2.0**-132, np.inf, np.inf, np.nan]
    found = doubled(x)
    assert found.dtype == "bfloat16" and np.signbit(found[1])
    for given in (x, array(x), array(x).numpy(), np.asarray(array(x))):
        np.testing.assert_array_equal(doubled(given).astype("float64"), wanted)
    with pytest.raises(ArgumentTypeError, match="needs bfloat16, got float16"):
        doubled(x.view("float16"))


def test_tensors_of_pytorch(doubled: Module) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.arange(6).to(torch.bfloat16), torch.empty(6, dtype=torch.bfloat16)
    doubled(x, y)
    assert y.tolist() == [0, 2, 4, 6, 8, 10] and from_dlpack(x).numpy().dtype == "bfloat16"


def test_files_and_comparisons() -> None:
    """NumPy's files and its kinds of types do not know it."""
    x, file = np.array([1, 2.5], "bfloat16"), io.BytesIO()
    np.save(file, x)
    file.seek(0)
    back = from_file(np.load(file))
    assert back.dtype == x.dtype and back.tolist() == [1, 2.5] and is_float(x.dtype)
    near = np.array([1, 2.53125], "bfloat16")
    assert compare(near, x, *allowed_error(x, None, None)) == ""
    assert "1 of 2 elements differ" in compare(near, x, 0, 0)
    for variant in (0, 1):
        poison(back, variant)
        assert compare(back, x, *allowed_error(x, None, None))


def test_nobody_else_waits_for_it() -> None:
    """`ml_dtypes` is imported by the first who asks for the type, whom NumPy then understands."""
    code = "import sys, autosched.te as te; assert 'ml_dtypes' not in sys.modules; te.placeholder((1,), 'bfloat16')\n"
    code += "import numpy; print(numpy.zeros(1, 'bfloat16').dtype)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == dtype("bfloat16"), done.stderr
