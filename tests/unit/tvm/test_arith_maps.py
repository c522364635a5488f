"""Maps of indices: taken apart, inverted, and judged; every verdict is compared with all values."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from index_fuzz import values

from autosched import nd, tvm
from autosched.errors import UsageError
from autosched.ir.expr import Expr, const, floordiv, floormod, var
from autosched.tvm.arith import (
    IndexMap,
    Range,
    detect_iter_map,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    normalize_iter_map_to_expr,
)

i, j, k = (var(name, role="loop") for name in "ijk")
x, y, z = (var(name) for name in "xyz")


def grid(domains: dict[Expr, Range]) -> dict[Expr, np.ndarray]:
    """Every assignment."""
    axes = [range(int(r.min.value), int(r.min.value) + int(r.extent.value)) for r in domains.values()]
    rows = list(product(*axes))
    return {v: np.array([row[n] for row in rows], np.int64) for n, v in enumerate(domains)}


def images(indices: list[Expr], domains: dict[Expr, Range]) -> list[tuple[int, ...]]:
    env = grid(domains)
    count = len(next(iter(env.values())))
    return list(zip(*(np.broadcast_to(values(e, env), (count,)).tolist() for e in indices), strict=True))


def is_box(points: set[tuple[int, ...]]) -> bool:
    ends = [(min(axis), max(axis)) for axis in zip(*points, strict=True)]
    return len(points) == np.prod([high - low + 1 for low, high in ends])


# -- detect_iter_map ----------------------------------------------------------------------------------

TWO = {i: Range(4), j: Range(8)}


def test_a_fusion() -> None:
    (found,) = detect_iter_map([i * 8 + j + 3], TWO).indices
    assert [(s.source.source, repr(s.scale), repr(s.extent)) for s in found.args] == [(i, "8", "4"), (j, "1", "8")]
    assert repr(found.base) == "3" and repr(normalize_iter_map_to_expr(found)) == "i*8 + j + 3"


def test_a_split_of_a_sum() -> None:
    """6 does not divide 4: the parts of the sum are cut anew."""
    domains = {i: Range(4), j: Range(6)}
    e = i * 6 + j
    result = detect_iter_map([floordiv(e, 4), floormod(e, 4)], domains, check_level="bijective")
    assert result.errors == ()
    back = inverse_affine_iter_map(result.indices, [x, y])
    env = grid({x: Range(6), y: Range(4)})
    assert sorted(zip(values(back[i], env).tolist(), values(back[j], env).tolist(), strict=True)) == [
        (a, b) for a in range(4) for b in range(6)
    ]
    assert (values(e, {i: values(back[i], env), j: values(back[j], env)}) == env[x] * 4 + env[y]).all()


@pytest.mark.parametrize(
    ("indices", "level", "why"),
    [
        ([i * 9 + j], "surjective", "overlap, or leave gaps"),
        ([i + j], "surjective", "overlap, or leave gaps"),
        ([i, i], "surjective", "two indices use one part of i"),
        ([j // 2, j % 4], "surjective", "two indices use one part of j"),
        ([i], "bijective", "not all of j is used"),
        ([i, j // 2], "bijective", "a part of j is used twice, or none"),
        ([i * j], "surjective", "is no split, fusion or permutation"),
        ([i, j % 4], "bijective", "not all of j is used"),
    ],
)
def test_what_is_no_map(indices: list[Expr], level: str, why: str) -> None:
    result = detect_iter_map(indices, TWO, check_level=level)
    assert result.indices == () and why in result.errors[0]


def test_levels_and_predicates() -> None:
    assert detect_iter_map([i, i], TWO, check_level="nocheck").errors == ()
    assert detect_iter_map([i, j // 2], TWO).errors == ()
    assert "predicate" in detect_iter_map([i], TWO, predicate=i < 3).errors[0]
    with pytest.raises(UsageError, match="no such level: 'most'"):
        detect_iter_map([i], TWO, check_level="most")


def test_ranges_that_do_not_begin_at_zero() -> None:
    domains = {i: Range(2, 6), j: Range(5, 13)}
    result = detect_iter_map([i * 8 + j], domains, check_level="bijective")
    (found,) = result.indices
    assert repr(found.base) == "21" and repr(found.args[0].source.source) == "i - 2"
    back = inverse_affine_iter_map(result.indices, [x])
    env = grid({x: Range(21, 53)})
    assert (values(back[i], env) * 8 + values(back[j], env) == env[x]).all()
    assert set(values(back[i], env).tolist()) == {2, 3, 4, 5}


def test_symbolic_extents() -> None:
    n, m = var("n", role="size"), var("m", role="size", lower=1)
    result = detect_iter_map([i * m + j], {i: Range(n), j: Range(m)}, check_level="bijective")
    assert result.errors == ()
    back = inverse_affine_iter_map(result.indices, [x])
    assert (repr(back[i]), repr(back[j])) == ("x//m", "x%m")


def random_map(rng: random.Random) -> tuple[list[Expr], dict[Expr, Range]]:
    """Sums of splits, of which most, but not all, are good maps."""
    domains = {v: Range(rng.choice((1, 2, 4, 6, 8))) for v in (i, j, k)[: rng.randint(1, 3)]}
    parts: list[tuple[Expr, int]] = []
    for v, r in domains.items():
        n = int(r.extent.value)
        f = rng.choice([d for d in (1, 2, 3, 4) if n % d == 0 or rng.random() < 0.1])
        if f > 1:
            parts += [(v // f, -(-n // f)), (v % f, f)]
        else:
            parts.append((v, n))
    rng.shuffle(parts)
    if rng.random() < 0.15:
        parts.pop()
    if rng.random() < 0.1 and parts:
        parts.append(rng.choice(parts))
    indices: list[Expr] = []
    while parts:
        total, weight = const(0), 1
        for _ in range(rng.randint(1, 3)):
            if parts:
                e, n = parts.pop()
                total = total + e * weight
                weight *= n if rng.random() < 0.95 else n + 1
        if rng.random() < 0.3:
            d = rng.choice((2, 3, 4))
            indices += [total // d, total % d]
        else:
            indices.append(total + rng.choice((0, 0, 5)))
    return indices or [const(0)], domains


def test_random_maps() -> None:
    accepted = 0
    for seed in range(400):
        indices, domains = random_map(random.Random(seed))
        points = images(indices, domains)
        say = (seed, indices, domains)
        if not detect_iter_map(indices, domains).errors:
            assert is_box(set(points)), say
        exact = detect_iter_map(indices, domains, check_level="bijective")
        if exact.errors:
            continue
        accepted += 1
        assert is_box(set(points)) and len(set(points)) == len(points), say
        outputs = [var(f"o{n}") for n in range(len(indices))]
        back = inverse_affine_iter_map(exact.indices, outputs)
        columns = {o: np.array(column) for o, column in zip(outputs, zip(*points, strict=True), strict=True)}
        for v, original in grid(domains).items():
            if v in back:
                assert (values(back[v], columns) == original).all(), (say, back)
        normal = [normalize_iter_map_to_expr(s) for s in exact.indices]
        assert images(normal, domains) == points, (say, normal)
    assert accepted > 120


# -- IndexMap -----------------------------------------------------------------------------------------


def test_index_map() -> None:
    m = IndexMap.from_func(lambda i, j: [j // 8, i, j % 8])
    assert repr(m) == "index_map(i, j -> j//8, i, j%8)"
    assert [e.value for e in m.map_indices([3, 13])] == [1, 3, 5]
    assert [e.value for e in m.map_shape([4, 32])] == [4, 4, 8]
    back = m.inverse([4, 32])
    assert [repr(e) for e in back.final_indices] == ["axis1", "axis0*8 + axis2"]
    assert back.inverse([4, 4, 8]).is_equivalent_to(m)
    assert not m.is_equivalent_to(IndexMap.from_func(lambda i, j: [j // 8, i, j % 4]))
    assert not m.is_equivalent_to(IndexMap.from_func(lambda i, j: [i, j]))
    ranges = m.map_ranges([Range(1, 3), Range(8, 16)])
    assert [(repr(r.min), repr(r.extent)) for r in ranges] == [("1", "1"), ("1", "2"), ("0", "8")]


def test_what_simplifying_spells_otherwise_is_inverted() -> None:
    m = IndexMap.from_func(lambda i, j: [j // 32, i, j % 32 // 16, j % 16])
    back = m.inverse([3, 64])
    for i, j in ((2, 63), (1, 17), (0, 47)):
        assert [e.value for e in back.map_indices([e.value for e in m.map_indices([i, j])])] == [i, j]
    padded, padding = IndexMap.from_func(lambda i: [i // 32, i // 4 % 8, i % 4]).non_surjective_inverse([116])
    env = grid({v: Range(n) for v, n in zip(padded.initial_indices, (4, 8, 4), strict=True)})
    outside = values(padding, env)
    assert outside.sum() == 12 and (values(padded.final_indices[0], env) >= 116).tolist() == outside.tolist()


def test_indices_have_the_type_that_is_given() -> None:
    m = IndexMap.from_func(lambda i: [i // 4, i % 4])
    assert m.map_indices([const(42, "int64")]) == (const(10, "int64"), const(2, "int64"))
    assert m.map_shape([const(14, "int64")]) == (const(4, "int64"), const(4, "int64"))
    assert tvm.ir.structural_equal(m.map_indices([42]), [10, 2])
    assert not tvm.ir.structural_equal(m.map_indices([const(42, "int64")])[0] + x, 10 + x)


def test_arrays_go_into_the_layout_of_a_map() -> None:
    m = IndexMap.from_func(lambda i, j: [j // 8, i, j % 8])
    given = np.arange(30, dtype="float16").reshape(3, 10)
    found = m.map_ndarray(nd.array(given)).numpy()
    want = np.zeros((2, 3, 8), "float16")
    want[0], want[1, :, :2] = given[:, :8], given[:, 8:]
    np.testing.assert_array_equal(found, want)
    assert m.map_ndarray(nd.array(np.zeros((0, 8), "int8"))).shape[1] == 0
    with pytest.raises(UsageError, match="indices"):
        IndexMap.from_func(lambda i: [i]).map_ndarray(nd.array(given))


def test_index_maps_of_any_rank() -> None:
    m = IndexMap.from_func(lambda *args: args[::-1], ndim=3)
    assert m.map_indices([1, 2, x]) == (x, const(2), const(1))
    with pytest.raises(UsageError, match="how many indices"):
        IndexMap.from_func(lambda *args: args)
    with pytest.raises(UsageError, match="takes 2 indices, not 3"):
        IndexMap.from_func(lambda a, b: [a, b], ndim=3)
    with pytest.raises(UsageError, match="returns"):
        IndexMap.from_func(lambda a: None)
    with pytest.raises(UsageError, match="1 indices for a map of 3"):
        m.map_indices([1])


def test_maps_with_padding() -> None:
    m = IndexMap.from_func(lambda i: [i // 4, i % 4])
    with pytest.raises(UsageError, match="reached from nowhere"):
        m.inverse([14])
    back, padding = m.non_surjective_inverse([14])
    env = grid({back.initial_indices[0]: Range(4), back.initial_indices[1]: Range(4)})
    outside = values(padding, env).astype(bool)
    assert outside.sum() == 2 and sorted(values(back.final_indices[0], env)[~outside].tolist()) == list(range(14))
    assert repr(m.non_surjective_inverse([16])[1]) == "false"
    with pytest.raises(UsageError, match="cannot be found again"):
        IndexMap.from_func(lambda i: [i // 4]).inverse([16])


# -- regions ------------------------------------------------------------------------------------------


def texts(found: object) -> list[tuple[str, str]]:
    return [(repr(s.min_value), repr(s.max_value)) for s in found]  # type: ignore[attr-defined]


def test_regions() -> None:
    dom = {i: Range(4), j: Range(8)}
    dense = [Range.from_min_extent(i * 8 + j + x, 1)]
    for estimate in (estimate_region_strict_bound, estimate_region_lower_bound, estimate_region_upper_bound):
        assert texts(estimate(dense, dom)) == [("x", "x + 31")]
    tiles = [Range.from_min_extent(i * 8, 8), Range.from_min_extent(j * 2, 3)]
    assert texts(estimate_region_strict_bound(tiles, dom)) == [("0", "31"), ("0", "16")]
    gaps = [Range.from_min_extent(i * 8, 5)]
    assert estimate_region_strict_bound(gaps, dom) is None
    assert texts(estimate_region_upper_bound(gaps, dom)) == [("0", "28")]
    diagonal = [Range.from_min_extent(i, 1), Range.from_min_extent(i, 1)]
    assert estimate_region_lower_bound(diagonal, dom) is None
    assert texts(estimate_region_upper_bound(diagonal, dom)) == [("0", "3"), ("0", "3")]
    assert estimate_region_strict_bound(dense, dom, predicate=i < 3) is None
    assert estimate_region_strict_bound([Range.from_min_extent(0, i + 1)], dom) is None
    assert texts(estimate_region_strict_bound([Range.from_min_extent(z, 2)], dom)) == [("z", "z + 1")]
