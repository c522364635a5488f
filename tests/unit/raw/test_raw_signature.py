"""What is read off the source of a kernel."""

from __future__ import annotations

import pytest

from autosched.raw.spec import declared_parameters, defined_functions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__global const float *a", ("a", True, True, "float32")),
        ("__global float4 * restrict a", ("a", True, False, "float32")),
        ("const unsigned int n", ("n", False, True, "uint32")),
        ("unsigned char image[]", ("image", True, False, "uint8")),
        ("const float filter[3][5]", ("filter", True, True, "float32")),
        ("size_t n", ("n", False, False, "uint64")),
        ("long int n", ("n", False, False, "int64")),
        ("uint8_t *restrict out", ("out", True, False, "uint8")),
        ("__constant half *w", ("w", True, True, "float16")),
        ("T *x", ("x", True, False, "")),
        ("struct point *p", ("p", True, False, "")),
    ],
)
def test_a_declaration_is_understood(text, expected):
    (found,) = declared_parameters(f"/* kernel k( */ void k({text}) {{ }}", "k") or [None]
    assert found is not None
    assert (found.name, found.is_pointer, found.is_const, found.dtype) == expected


def test_the_definition_counts_not_a_call_or_a_prototype():
    source = """
    void k(int a, int b);
    // void k(double x) {
    static int helper(int z) { k(1, 2); return z; }
    void k(int first,   /* , commas, */
           int second) { for (;;) if (first) break; }
    """
    assert [d.name for d in declared_parameters(source, "k") or []] == ["first", "second"]
    assert defined_functions(source) == ["helper", "k"]


def test_kernels_are_told_from_helpers():
    source = """
    float f(float x) { return x; }
    __kernel void one(__global float *a) { a[0] = f(1); }
    kernel __attribute__((reqd_work_group_size(8, 1, 1))) void two(global float *a) { }
    """
    assert defined_functions(source) == ["one", "two"]


@pytest.mark.parametrize("source", ["void k(void (*callback)(int)) { }", "#define k(x) x", "KERNEL(k) { }"])
def test_what_is_not_understood_is_not_known(source):
    assert declared_parameters(source, "k") is None
