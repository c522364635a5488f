"""Spaces of configurations count and choose as AutoTVM's do."""

from __future__ import annotations

import pytest

from autosched.errors import UsageError
from autosched.schedule.candidates import divisors, marks, orders, split_sizes
from autosched.tvm import autotvm
from autosched.tvm.autotvm import ConfigEntity, ConfigSpace, FallbackConfigEntity, SplitEntity


def space() -> ConfigSpace:
    cfg = ConfigSpace()
    cfg.define_split("tile_y", 64, num_outputs=2)
    cfg.define_split("tile_x", cfg.axis(12), num_outputs=3)
    cfg.define_knob("unroll", [0, 512, 1500])
    return cfg


def nchwc() -> ConfigSpace:
    """The space of a convolution on a CPU: 3 to 64 channels, 112 columns."""
    cfg = ConfigSpace()
    cfg.define_split("tile_ic", 3, num_outputs=2)
    cfg.define_split("tile_oc", 64, num_outputs=2)
    cfg.define_split("tile_ow", 112, num_outputs=2, policy="verbose", filter=lambda y: y.size[-1] <= 64)
    cfg.define_knob("unroll_kw", [True, False])
    return cfg


@pytest.mark.parametrize(
    ("index", "entity"),  # from logs that TVM 0.10 wrote for conv2d_NCHWc.x86
    [
        (
            172,
            [
                ["tile_ic", "sp", [-1, 1]],
                ["tile_oc", "sp", [-1, 4]],
                ["tile_ow", "sp", [-1, 1]],
                ["unroll_kw", "ot", False],
            ],
        ),
        (
            47,
            [
                ["tile_ic", "sp", [-1, 3]],
                ["tile_oc", "sp", [-1, 4]],
                ["tile_ow", "sp", [-1, 64]],
                ["unroll_kw", "ot", True],
            ],
        ),
    ],
)
def test_index_is_the_one_in_tvm_s_logs(index: int, entity: list) -> None:
    cfg = nchwc()
    assert len(cfg) == 308
    assert cfg.get(index).to_json_dict() == {"index": index, "code_hash": None, "entity": entity}
    assert cfg.get(index) == ConfigEntity.from_json_dict({"index": 0, "entity": entity})


def test_index_counts_entities_in_order_of_definition() -> None:
    cfg = space()
    assert cfg.dims == [7, 18, 3] and len(cfg) == cfg.range_length == 378
    for index in (0, 1, 7, 130, 377):
        knob = cfg.point2knob(index)
        assert cfg.knob2point(knob) == index
    assert cfg.get(1)["tile_y"].size == [-1, 2] and cfg.get(7)["tile_x"].size == [-1, 2, 1]
    assert cfg.get(126)["unroll"].val == 512
    with pytest.raises(IndexError, match="378 configurations"):
        cfg.get(378)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"num_outputs": 2}, [1, 2, 3, 4, 6, 12]),
        ({"num_outputs": 2, "max_factor": 4}, [1, 2, 3, 4]),
        ({"num_outputs": 2, "policy": "power2"}, [1, 2, 4, 8]),
        ({"num_outputs": 2, "policy": "power2", "no_tail": True}, [1, 2, 4]),
        ({"num_outputs": 2, "policy": "verbose"}, [1, 2, 3, 4, 6, 8, 12]),
        ({"num_outputs": 2, "policy": "candidate", "candidate": [[3, 4], [-1, 5]]}, [4, 5]),
        ({"num_outputs": 2, "filter": lambda e: e.size[-1] % 3 == 0}, [3, 6, 12]),
    ],
)
def test_policies_of_splits(options: dict, sizes: list[int]) -> None:
    cfg = ConfigSpace()
    loops = cfg.define_split("t", 12, **options)
    assert len(loops) == 2
    assert sorted(e.size[-1] for e in cfg.space_map["t"].entities) == sizes


def test_splits_without_tail_divide_and_come_innermost_slowest() -> None:
    found = split_sizes(8, 3)
    assert found[:4] == [(-1, 1, 1), (-1, 2, 1), (-1, 4, 1), (-1, 8, 1)] and found[4] == (-1, 1, 2)
    assert all(8 % (b * c) == 0 for _, b, c in split_sizes(8, 3))
    assert {b * c for _, b, c in split_sizes(12, 3, "power2")} == {1, 2, 4, 8}
    assert split_sizes(7, 1) == [(-1,)] and divisors(49) == [1, 7, 49]


@pytest.mark.parametrize(
    ("policy", "options", "found"),
    [
        ("identity", {}, [(0, 1, 2)]),
        ("all", {}, [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]),
        ("interval_all", {"interval": (0, 2)}, [(0, 1, 2), (1, 0, 2)]),
        ("candidate", {"candidate": ["zxy", "xyz"]}, [(2, 0, 1), (0, 1, 2)]),
    ],
)
def test_policies_of_orders(policy: str, options: dict, found: list) -> None:
    assert orders("xyz", policy, **options) == found


def test_interleaved_orders() -> None:
    axes = ["yo", "yi", "xo", "xm", "xi", "k0", "k1", "r0"]
    chains = {"spatial": [["yo", "yi"], ["xo", "xm", "xi"]], "reduce": [["k0", "k1"], ["r0"]]}
    (mixed,), (cuda,) = orders(axes, "interleave", **chains), orders(axes, "interleave_cuda", **chains)
    assert [axes[i] for i in mixed] == ["xo", "yo", "xm", "k0", "yi", "xi", "k1", "r0"]
    assert [axes[i] for i in cuda] == ["xo", "yo", "xm", "k0", "k1", "r0", "yi", "xi"]


def test_policies_of_annotations() -> None:
    assert marks(2, "try_unroll_vec")[:3] == [("none", "none"), ("none", "unroll"), ("none", "vec")]
    assert len(marks(2, "try_unroll_vec")) == 8  # of 9, not both vectors
    assert marks(1, "unroll") == [("unroll",)]
    assert marks(5, "bind_gpu") == [("fuse", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")]
    assert marks(3, "bind_gpu_virtual") == [("blockIdx.x", "vthread", "threadIdx.x")]
    assert marks(3, "locate_cache", num_anchor=2) == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda c: c.define_split("a", 8, "halves", num_outputs=2), "'halves' is no policy"),
        (lambda c: c.define_split("a", 8), "not split into 0"),
        (lambda c: c.define_split("a", 8, "candidate", num_outputs=3, candidate=[[1, 8]]), r"\[1, 8\] has 2 sizes"),
        (lambda c: c.define_split("a", 8, num_outputs=2, filter=lambda e: False), "no candidate is left"),
        (lambda c: c.define_split("a", c.axis(object()), num_outputs=2), "has -1 iterations"),
        (lambda c: c.define_reorder("a", "xyz", "most"), "'most' is no policy"),
        (lambda c: c.define_reorder("a", "xyz", "candidate", candidate=["xyq"]), "'q' is not among the loops"),
        (lambda c: c.define_reorder("a", "abcdefghi", "all"), "362880 orders"),
        (lambda c: c.define_annotate("a", "xyz", "spill"), "'spill' is no policy"),
        (lambda c: c.define_annotate("a", "x", "bind_gpu"), "1 loops are too few"),
        (lambda c: c["b"], "nothing of that name"),
    ],
)
def test_bad_definitions(call, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        call(ConfigSpace())


def test_filter_over_several_entities() -> None:
    cfg = space()
    cfg.multi_filter(lambda e: e["tile_y"].size[-1] * e["tile_x"].size[-1] == 8)
    valid = [i for i in range(cfg.range_length) if cfg.is_index_valid(i)]
    assert len(cfg) == len(valid) == 3 * sum(e.size[-1] in (1, 2, 4) for e in cfg.space_map["tile_x"].entities)
    assert all(cfg.get(i)["tile_y"].size[-1] * cfg.get(i)["tile_x"].size[-1] == 8 for i in valid)
    assert cfg.get_next_index(valid[0]) == valid[1] and cfg.get_next_index(valid[3], -2) == valid[1]
    assert cfg.get_next_index(valid[-1]) is None
    assert cfg.subrange_length(0, valid[2]) == 2
    assert sorted(cfg.sample_ints(1000).tolist()) == valid and set(cfg.sample_ints(4).tolist()) <= set(valid)
    assert cfg.get_rand_index() in valid and cfg.get_rand_index(to_exclude=valid[1:]) == valid[0]
    assert cfg.random_walk(valid[0]) in valid
    with pytest.raises(UsageError, match="no index is left"):
        cfg.get_rand_index(to_exclude=valid)


def test_random_indices_of_a_space_without_filters() -> None:
    cfg = space()
    sample = cfg.sample_ints(20).tolist()
    assert len(set(sample)) == 20 and all(0 <= i < 378 for i in sample)
    assert sorted(cfg.sample_ints(378).tolist()) == list(range(378))
    assert 5 <= cfg.get_rand_index(5, 9) < 9
    near = cfg.random_walk(100)
    assert sum(a != b for a, b in zip(cfg.point2knob(100), cfg.point2knob(near), strict=True)) == 1


def test_fallback() -> None:
    cfg = FallbackConfigEntity()
    cfg.define_split("a", cfg.axis(128), num_outputs=3)
    cfg.define_split("b", cfg.axis(49), num_outputs=3)
    cfg.fallback_split("a", [-1, 8, 4])
    cfg.fallback_split("b", [-1, 8, 4])
    assert cfg["a"].size == [4, 8, 4] and cfg["b"].size == [7, 7, 1] and cfg.is_fallback
    cfg["a"] = SplitEntity([-1, 8])
    assert cfg["a"].size == [-1, 8]
    with pytest.raises(UsageError, match="no split of that name"):
        cfg.fallback_split("c", [-1, 8])


def test_fallback_to_the_most_alike_of_a_log() -> None:
    log = [(autotvm.MeasureInput(None, None, nchwc().get(i)), None) for i in (47, 172)]
    other = ConfigSpace()
    other.define_split("tile_oc", 7, num_outputs=2)
    log.append((autotvm.MeasureInput(None, None, other.get(1)), None))
    cfg = FallbackConfigEntity()
    cfg.define_split("tile_oc", 128, num_outputs=2)
    cfg.define_split("tile_ow", 56, num_outputs=2)
    cfg.define_knob("unroll_kw", [True, False])
    cfg.fallback_with_reference_log(log)
    assert cfg["tile_oc"].size == [32, 4] and cfg["tile_ow"].size == [1, 56] and cfg["unroll_kw"].val is True


def test_configuration_defines_nothing_and_prints() -> None:
    cfg = space().get(130)
    assert len(cfg.define_split("tile_y", 1, num_outputs=4)) == 4 and cfg.define_knob("unroll", [7]) == []
    assert cfg["unroll"].val == 512 and cfg.get_other_option() == {"unroll": 512}
    assert repr(cfg) == "[('tile_y', [-1, 16]), ('tile_x', [-1, 1, 1]), ('unroll', 512)],None,130"
    assert cfg.get_flatten_feature().tolist() == [-1, 16, -1, 1, 1, 512]
    assert ConfigEntity.from_json_dict(cfg.to_json_dict()) == cfg and cfg.valid()
    cfg.raise_error("too large")
    assert not cfg.valid()
