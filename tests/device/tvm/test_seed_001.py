"""The notebook "an in-depth look", cell by cell: what it prints, and what the programs compute."""

from __future__ import annotations

import numpy as np
import pytest
from shim_cells import Notebook, in_order

from autosched import tvm
from autosched.ir.stmt import For
from autosched.tvm import te

SIZES = ((64, 40), (37, 50), (1, 7))


@pytest.fixture
def notebook() -> Notebook:
    book = Notebook("seed_001")
    book.run("1")
    return book


def check_product(names: dict, target: str = "llvm") -> None:
    """C = A * B, at sizes that the factors divide and at others."""
    product = tvm.build(names["schedule"], [names["A"], names["B"], names["C"]], target)
    for shape in SIZES:
        a, b = np.random.default_rng(1).random((2, *shape), dtype="float32")
        c = np.zeros(shape, "float32")
        product(a, b, c)
        tvm.testing.assert_allclose(c, a * b)


#: cell -> the loops and conditions of its printed program, outermost first
PRINTED = {
    "3": ["m, n = T.int32(), T.int32()", "for i, j in T.grid(m, n):"],
    "4": [
        "for i_outer, i_inner in T.grid((m + 31) // 32, 32):",
        "if T.likely(i_outer * 32 + i_inner < m):",
        "for j in range(n):",
    ],
    "6": [
        "for i_outer, j_outer, i_inner in T.grid((m + 15) // 16, (n + 7) // 8, 16):",
        "if T.likely(i_outer * 16 + i_inner < m):",
        "for j_inner in range(8):",
        "if T.likely(j_outer * 8 + j_inner < n):",
    ],
    "8": ["for i_j_fused in range(", "A_1[i_j_fused // n, i_j_fused % n]"],
    "10": [
        'blockIdx_x = T.launch_thread("blockIdx.x", (m + 63) // 64)',
        'threadIdx_x = T.launch_thread("threadIdx.x", 64)',
        "if T.likely(blockIdx_x * 64 + threadIdx_x < m):",
    ],
    "12": [
        "for j_outer, j_inner in T.grid((n + 7) // 8, 8):",
        "if T.likely(j_outer * 8 + j_inner < n):",
        "for i_outer, i_inner in T.grid((m + 15) // 16, 16):",
        "if T.likely(i_outer * 16 + i_inner < m):",
    ],
    "16": [
        "for i_outer, j_outer, i_inner in T.grid((m + 15) // 16, (n + 7) // 8, 16):",
        "if T.likely(i_outer * 16 + i_inner < m):",
        "for j_inner in range(8):",
        "if T.likely(j_outer * 8 + j_inner < n):",
    ],
    "18": ["for i in range(m):", "A_1[i] + T.float32(1)", "for i in range(m):", "B_1[i] * T.float32(2)"],
    "19": ["for i in range(m):", "B_1[i] = A_1[i] + T.float32(1)", "C_1[i] = B_1[i] * T.float32(2)"],
    "21": ["for i in range(n):", "B_1[i] = T.float32(0)", "for k in range(m):", "B_1[i] = B_1[i] + A_1[i, k]"],
    "22": [
        'blockIdx_x = T.launch_thread("blockIdx.x", (n + 63) // 64)',
        'threadIdx_x = T.launch_thread("threadIdx.x", 64)',
        "if T.likely(blockIdx_x * 64 + threadIdx_x < n):",
        "T.sigmoid(A_1[blockIdx_x * 64 + threadIdx_x])",
    ],
}


@pytest.mark.parametrize("cell", PRINTED)
def test_printed_programs(notebook: Notebook, cell: str) -> None:
    text = notebook.run("2", cell)
    assert in_order(
        text, "@I.ir_module", "def main(A: T.handle", 'T.func_attr({"from_legacy_te_schedule"', *PRINTED[cell]
    )


@pytest.mark.parametrize("cell", ["2", "4", "6", "8", "12", "16"])
def test_products(notebook: Notebook, cell: str) -> None:
    notebook.run(cell)
    check_product(notebook.names)


def test_a_product_on_opencl(notebook: Notebook) -> None:
    notebook.run("10")
    check_product(notebook.names, "opencl")


def test_differences_between_programs(notebook: Notebook) -> None:
    notebook.run("2", "3", "4")
    text = notebook.run("5")
    assert "-         for i, j in T.grid(m, n):" in text
    assert "+         for i_outer, i_inner in T.grid((m + 31) // 32, 32):" in text
    assert "  @I.ir_module" in text
    notebook.run("6", "8", "10", "12")
    assert all("+ " in notebook.run(cell) for cell in ("7", "9", "11", "14"))
    notebook.run("16")
    tiled, again = notebook.names["tile_function"], notebook.names["reordered_function_2"]
    assert tiled == again and "- " in notebook.run("17")


@pytest.mark.parametrize("cell", ["18", "19"])
def test_a_chain_whose_middle_is_an_argument(notebook: Notebook, cell: str) -> None:
    notebook.run(cell)
    names = notebook.names
    chain = tvm.build(names["schedule"], [names["A"], names["B"], names["C"]], "llvm")
    a = np.arange(13, dtype="float32")
    b, c = np.zeros_like(a), np.zeros_like(a)
    chain(a, b, c)
    assert np.array_equal(b, a + 1) and np.array_equal(c, (a + 1) * 2)
    if cell == "19":
        assert notebook.run("18", "20").count("-         for i in range(m):") == 1


def test_a_reduction(notebook: Notebook) -> None:
    notebook.run("21")
    names = notebook.names
    a = np.random.default_rng(1).random((9, 30), dtype="float32")
    b = np.zeros(9, "float32")
    tvm.build(names["schedule"], [names["A"], names["B"]], "llvm")(a, b)
    tvm.testing.assert_allclose(b, a.sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("cells", "called", "function"), [(("22", "23"), "exp", "sigmoid"), (("24", "25", "26"), "log", "log")]
)
def test_what_intrinsics_become_on_opencl(
    notebook: Notebook, cells: tuple[str, ...], called: str, function: str
) -> None:
    text = notebook.run(*cells)
    kernel = text[text.index("__kernel") :]
    assert f"{called}(" in text and f"{function}" in kernel
    assert in_order(kernel, "if (", f"{function}", "if (", "< n", f"{function}")  # the guard stands at the border alone
    x = np.linspace(0.1, 4, 150, dtype="float32")
    out = np.zeros_like(x)
    notebook.names["fopencl"](x, out)
    expected = np.log(x) if function == "log" else 1 / (1 + np.exp(-x))
    tvm.testing.assert_allclose(out, expected, rtol=1e-5)


def test_the_rule_of_the_notebook_is_for_opencl_alone(notebook: Notebook) -> None:
    notebook.run("24")
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: notebook.names["mylog"](a[i]), name="B")
    with pytest.raises(tvm.TVMError, match=r"tir\.mylog"):
        tvm.build(te.create_schedule(b.op), [a, b], "llvm")


def test_loops_are_nodes_to_look_at(notebook: Notebook) -> None:
    """The printed module is the program itself, not a text of it."""
    notebook.run("2", "4")
    names = notebook.names
    module = tvm.lower(names["schedule"], [names["A"], names["B"], names["C"]], simple_mode=True)
    found: list[str] = []

    def note(node) -> None:
        if isinstance(node, For):
            found.append(node.loop_var.name)

    tvm.tir.stmt_functor.post_order_visit(module["main"].body, note)
    assert found == ["j", "i.inner", "i.outer"]
    assert te.Schedule is type(names["schedule"])
