"""`tvm.topi`: NumPy references against the meaning of our operators, schedules by TVM's names, numbers out of shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te as core
from autosched import tvm
from autosched.errors import DeviceError, UsageError
from autosched.tvm import te, topi
from autosched.tvm.topi import testing, utils
from autosched.tvm.topi.nn import utils as widths

DRAW = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape).astype(np.float32)


IMAGE, IMAGES = numbers(1, 4, 6, 6), numbers(2, 4, 6, 6)
LAST = IMAGES.transpose(0, 2, 3, 1).copy()
W = numbers(2, 4, 3, 3)
VOLUME = numbers(1, 2, 4, 5, 5)
GAMMA = numbers(4)
GRID = np.clip(numbers(2, 2, 3, 3), -1.4, 1.4)
ROIS = np.array([[0, 0.5, 1, 4.5, 5], [1, 2, 2, 3, 3]], np.float32)
BOXES = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1.2, 1]], np.float32)
OF = np.array([1, 0], np.int32)
nn, image, vision = topi.nn, topi.image, topi.vision

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "conv2d_nchw": (
        lambda x, w: nn.conv2d_nchw(x, w, 2, (1, 2), 2),
        lambda x, w: testing.conv2d_nchw_python(x, testing.dilate_python(w, (1, 1, 2, 2)), 2, (1, 2)),
        (IMAGES, W),
    ),
    "conv2d_nhwc": (
        lambda x, w: nn.conv2d_nhwc(x, w, 1, "SAME", 1),
        lambda x, w: testing.conv2d_nhwc_python(x, w, 1, "SAME"),
        (LAST, numbers(4, 4, 4, 2)),
    ),
    "conv2d_hwcn": (
        lambda x, w: nn.conv2d_hwcn(x, w, 1, 1, 1),
        lambda x, w: testing.conv2d_hwcn_python(x, w, 1, 1),
        (numbers(5, 5, 3, 2), numbers(3, 3, 3, 4)),
    ),
    "group_conv2d": (
        lambda x, w: nn.group_conv2d_nchw(x, w, 1, 1, 1, 2),
        lambda x, w: testing.conv2d_nchw_python(x, w, 1, 1, 2),
        (IMAGES, numbers(4, 2, 3, 3)),
    ),
    "conv3d_ndhwc": (
        lambda x, w: nn.conv3d_ndhwc(x, w, 1, (0, 1, 1), 1),
        lambda x, w: testing.conv3d_ndhwc_python(x, w, 1, (0, 1, 1)),
        (VOLUME.transpose(0, 2, 3, 4, 1).copy(), numbers(2, 3, 3, 2, 3)),
    ),
    "group_conv1d": (
        lambda x, w: nn.group_conv1d_ncw(x, w, 2, "SAME", 1, 2),
        lambda x, w: testing.group_conv1d_ncw_python(x, w, 2, "SAME", 1, 2),
        (numbers(1, 4, 9), numbers(6, 2, 3)),
    ),
    "conv2d_transpose": (
        lambda x, w: nn.group_conv2d_transpose_nchw(x, w, (2, 1), (1, 0), "float32", (1, 0), 2),
        lambda x, w: testing.conv2d_transpose_nchw_python(x, w, (2, 1), (1, 0), (1, 0), 2),
        (IMAGE, numbers(4, 3, 3, 3)),
    ),
    "depthwise_nhwc": (
        lambda x, w: nn.depthwise_conv2d_nhwc(x, w, 1, 1, 1),
        lambda x, w: testing.depthwise_conv2d_python_nhwc(x, w, 1, 1),
        (LAST, numbers(3, 3, 4, 2)),
    ),
    "avg_pool": (
        lambda x: nn.pool2d(x, (3, 2), (2, 2), (1, 1), (1, 0, 1, 1), "avg", True, "NCHW", False),
        lambda x: testing.poolnd_python(x, (3, 2), (2, 2), (1, 1), (1, 0), (1, 1), "avg", False, True),
        (IMAGES,),
    ),
    "max_pool_nhwc": (
        lambda x: nn.pool2d(x, (2, 2), (1, 2), (2, 1), (0, 0), "max", False, "NHWC"),
        lambda x: testing.poolnd_python(x, (2, 2), (1, 2), (2, 1), (0, 0), (0, 0), "max", False, False, layout="NHWC"),
        (LAST,),
    ),
    "adaptive_pool3d": (
        lambda x: nn.adaptive_pool3d(x, (2, 3, 1), "avg"),
        lambda x: testing.adaptive_pool(x, (2, 3, 1), "avg", "NCDHW"),
        (VOLUME,),
    ),
    "pool_grad": (
        lambda g, x: nn.pool_grad(g, x, (3, 3), (2, 2), (1, 1, 1, 1), "max"),
        lambda g, x: testing.pool_grad_nchw(x, g, (3, 3), (2, 2), (1, 1, 1, 1), "max", False),
        (numbers(2, 4, 3, 3), np.abs(IMAGES)),
    ),
    "layer_norm": (
        lambda x, g, b: nn.layer_norm(x, g, b, [1]),
        lambda x, g, b: testing.layer_norm_python(x, g, b, 1),
        (IMAGES, GAMMA, GAMMA[::-1].copy()),
    ),
    "group_norm": (
        lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2, 3]),
        lambda x, g, b: testing.group_norm_python(x, g, b, 2, 1, [2, 3]),
        (IMAGES, GAMMA, GAMMA),
    ),
    "rms_norm": (lambda x, g: nn.rms_norm(x, g, [1]), lambda x, g: testing.rms_norm_python(x, g, 1), (IMAGES, GAMMA)),
    "lrn": (lambda x: nn.lrn(x, 3, 1, 0.1, 0.7, 2), lambda x: testing.lrn_python(x, 3, 1, 2, 0.1, 0.7), (IMAGES,)),
    "log_softmax": (lambda x: nn.log_softmax(x, 1), testing.log_softmax_python, (IMAGES,)),
    "upsampling": (
        lambda x: nn.upsampling(x, 2, 3, method="bilinear"),
        lambda x: testing.resize2d_python(x, (2, 3), "NCHW", "linear", "asymmetric"),
        (IMAGE,),
    ),
    "resize_cubic": (
        lambda x: image.resize3d(x, None, (6, 7, 3), method="cubic"),
        lambda x: testing.resize3d_python(x, (6 / 4, 7 / 5, 3 / 5), method="cubic", coordinate_transformation_mode="half_pixel"),
        (VOLUME,),
    ),
    "crop_and_resize": (
        lambda x, b, i: image.crop_and_resize(x, b, i, (3, 4), extrapolation_value=2.0),
        lambda x, b, i: testing.crop_and_resize_python(x, b, i, (3, 4), "NCHW", extrapolation_value=2.0),
        (IMAGES, BOXES, OF),
    ),
    "grid_bicubic": (
        lambda x, g: image.grid_sample(x, g, "bicubic", "NCHW", "reflection", False),
        lambda x, g: testing.grid_sample_python(x, g, "bicubic", "NCHW", "reflection", False),
        (IMAGES, GRID),
    ),
    "grid_nearest": (
        lambda x, g: image.grid_sample(x, g, "nearest", "NCHW", "border"),
        lambda x, g: testing.grid_sample_python(x, g, "nearest", "NCHW", "border"),
        (IMAGES, GRID),
    ),
    "affine_grid": (
        lambda t: image.affine_grid(t, (3, 4)),
        lambda t: testing.affine_grid_python(t, (3, 4)),
        (numbers(2, 2, 3),),
    ),
    "roi_align": (
        lambda x, r: vision.roi_align_nchw(x, r, (3, 2), 0.9, b"avg", -1),
        lambda x, r: testing.roi_align_nchw_python(x, r, (3, 2), 0.9, -1),
        (IMAGES, ROIS),
    ),
    "roi_pool": (
        lambda x, r: vision.roi_pool_nchw(x, r, 2, 0.8),
        lambda x, r: testing.roi_pool_nchw_python(x, r, 2, 0.8),
        (IMAGES, ROIS),
    ),
    "reorg": (lambda x: vision.reorg(x, 2), lambda x: testing.reorg_python(x, 2), (IMAGES,)),
    "deformable": (
        lambda x, o, w: nn.deformable_conv2d_nchw(x, o, w, 1, 1, 1, 2, 1),
        lambda x, o, w: testing.deformable_conv2d_nchw_python(x, o, w, 1, 1, 1, 2, 1),
        (IMAGE, numbers(1, 36, 6, 6), W),
    ),
    "correlation": (
        lambda a, b: nn.correlation_nchw(a, b, 3, 2, 1, 1, 3, False),
        lambda a, b: testing.correlation_nchw_python(a, b, 3, 2, 1, 1, 3, False),
        (IMAGES, IMAGES[::-1].copy()),
    ),
    "depthwise_blocks": (
        lambda x, w: nn.depthwise_conv2d_NCHWc(x, w, 1, 1, 1),
        lambda x, w: testing.depthwise_conv2d_python_nchwc(x, w, 1, 1),
        (numbers(1, 2, 5, 5, 2), numbers(2, 1, 3, 3, 1, 2)),
    ),
    "matrix_set_diag": (
        lambda x, d: topi.matrix_set_diag(x, d, (-1, 1), "LEFT_RIGHT"),
        lambda x, d: testing.matrix_set_diag(x, d, (-1, 1), "LEFT_RIGHT"),
        (numbers(2, 3, 4), numbers(2, 3, 3)),
    ),
    "space_to_batch": (
        lambda x: nn.space_to_batch_nd(x, [2, 3], [1, 0], [1, 0], 1.0),
        lambda x: testing.space_to_batch_nd_python(x, [2, 3], [1, 0], [1, 0], 1.0),
        (LAST,),
    ),
    "batch_to_space": (
        lambda x: nn.batch_to_space_nd(x, [2, 1], [1, 0], [0, 2]),
        lambda x: testing.batch_to_space_nd_python(x, [2, 1], [1, 0], [0, 2]),
        (LAST,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_references_are_what_operators_mean(name: str) -> None:
    make, reference, arrays = CASES[name]
    tensors = [te.placeholder(a.shape, str(a.dtype), f"in{k}") for k, a in enumerate(arrays)]
    (found,) = core.reference([*tensors, make(*tensors)], list(arrays))
    wanted = reference(*arrays)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("layout", "lengths"), [("NCHW", [4, 3, 2]), ("NHWC", [3, 2, 4]), ("HWCN", [3, 2, 4])], ids=str
)
def test_sums_run_in_the_order_of_the_layout(layout: str, lengths: list[int]) -> None:
    size = {"N": 1, "C": 4, "H": 5, "W": 6, "O": 8, "I": 4}
    x = te.placeholder([size[d] for d in layout], name="x")
    kernel = {"NCHW": "OIHW"}.get(layout, "HWIO")
    w = te.placeholder([{**size, "H": 3, "W": 2}[d] for d in kernel], name="w")
    made = getattr(nn, f"conv2d_{layout.lower()}")(x, w, 1, 0, 1)
    assert [int(axis.dom.extent) for axis in made.op.reduce_axis] == lengths


def test_a_machine_has_schedules_and_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_PREDICT", "0")
    A, w = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="w")
    B = topi.x86.dense_pack(object(), A, w)  # the first argument is a configuration
    assert B.op.tag == "dense"
    for name in ("schedule_dense_pack", "schedule_softmax", "schedule_whatever_there_is"):
        kinds = {loop.kind for stage in getattr(topi.x86, name)([B]).stages for loop in stage.loops}
        assert "parallel" in kinds
        threads = {loop.thread for stage in getattr(topi.cuda, name)(object(), [B]).stages for loop in stage.loops}
        assert {"blockIdx.x", "threadIdx.x"} <= threads
    with tvm.target.Target("opencl"):
        assert any(loop.thread for loop in topi.generic.schedule_injective(topi.exp(A)).stages[-1].loops)
    assert topi.arm_cpu.compute_conv2d_nhwc_spatial_pack.__doc__ == nn.conv2d_nhwc.__doc__


def test_what_is_a_part_of_tvm_is_told_when_it_is_called() -> None:
    from autosched.tvm.topi.x86.conv2d_avx_common import _schedule_conv_NCHWc

    with pytest.raises(UsageError, match="a part of TVM's own schedules"):
        _schedule_conv_NCHWc(None, None)
    with pytest.raises(AttributeError, match=r"tvm\.topi\.cuda\.foo"):
        _ = topi.cuda.foo
    with pytest.raises(AttributeError, match=r"te\.extern with"):
        _ = topi.contrib
    with pytest.raises(UsageError, match="weights that are transformed already"):
        nn.conv2d_winograd_nhwc(None, None, 1, 1, 1, "float32", True)


def test_numbers_of_shapes() -> None:
    n = te.var("n")
    assert utils.get_const_tuple((te.const(2) * 3, 4, n)) == (6, 4, n)
    assert utils.get_const_int(te.const(5)) == 5
    assert utils.equal_const_int(te.const(2) - 2, 0)
    with pytest.raises(ValueError, match="known at run time only"):
        utils.get_const_int(n)
    assert utils.get_shape((3, 2, 32, 48, 16), "NCHW16c", "NC16cWH") == (3, 2, 16, 48, 32)
    with pytest.raises(ValueError, match="do not name the same dimensions"):
        utils.get_shape((1, 2), "NC", "NH")
    assert utils.ravel_index([1, 2], (3, 4)) == 6
    assert [int(i) for i in utils.get_const_tuple(utils.unravel_index(6, (3, 4)))] == [1, 2]
    assert utils.get_max_power2_factor(24) == 8
    assert utils.get_max_power2_factor(24, 5) == 4
    assert widths.get_pad_tuple("SAME", (3, 4)) == (1, 2, 1, 1)
    assert widths.get_pad_tuple3d((1, 2, 3), (3, 3, 3)) == (1, 2, 3, 1, 2, 3)
    x, w = te.placeholder((1, 1, 9, 8), name="x"), te.placeholder((1, 1, 3, 2), name="w")
    assert widths.infer_stride(x, w, nn.conv2d_nchw(x, w, (2, 3), 0, 1)) == (2, 3)


def test_element_wise_operations_are_inlined() -> None:
    A = te.placeholder((8,), name="A")
    out = topi.nn.relu(topi.exp(A) + 1.0)
    s = te.create_schedule(out.op)
    seen: list[Any] = []
    utils.traverse_inline(s, out.op, seen.append)
    assert seen[-1] is out.op
    assert [stage.attach.kind for stage in s.stages if not stage.is_placeholder] == ["inline", "inline", "root"]


def test_devices_of_other_kinds_do_not_exist() -> None:
    device = tvm.device("rocm", 1)
    assert not device.exist
    assert device.device_type == 10
    with pytest.raises(DeviceError, match="there is no code for rocm"):
        device.info()
    assert tvm.device("sdaccel").kind == "opencl"
    assert not tvm.testing.device_enabled("metal")
    A = te.placeholder((2, 3), name="A")
    assert tvm.nd.empty(A.shape).shape == (2, 3)


def test_the_sizes_and_first_tiles_of_a_convolution() -> None:
    from autosched.tvm.target.x86 import get_simd_32bit_lanes
    from autosched.tvm.topi.generic.conv2d import fallback_schedule_cpu_common_int8
    from autosched.tvm.topi.nn.conv2d import _get_workload
    from autosched.tvm.topi.x86 import conv2d_avx_1x1, conv2d_avx_common, depthwise_conv2d

    from autosched.tvm.autotvm import FallbackConfigEntity

    of = {"NCHW": ((1, 24, 20, 30), (36, 12, 3, 5)), "NHWC": ((1, 20, 30, 24), (3, 5, 12, 36))}
    found = set()
    for layout, (data, kernel) in of.items():
        A, W = te.placeholder(data, name="A"), te.placeholder(kernel, name="W")
        wkl = _get_workload(A, W, (1, 2), "SAME", (2, 1), "float32", layout)
        found.add(wkl)
        sides = (wkl.padt, wkl.padl, wkl.padb, wkl.padr)
        made = getattr(nn, f"conv2d_{layout.lower()}")
        if layout == "NCHW":  # the sizes of what the operator computes, of one group
            out = made(A, te.placeholder((36, 24, 3, 5), name="W"), (1, 2), list(sides), (2, 1)).shape
    assert len(found) == 1 and wkl.groups == 2
    assert [str(d) for d in out[2:]] == ["20", "15"]
    cfg = FallbackConfigEntity()
    with tvm.target.Target("llvm -mattr=-avx512f,-avx"):
        assert get_simd_32bit_lanes() == 4
        conv2d_avx_common._fallback_schedule(cfg, wkl)
        assert [cfg[x].size for x in ("tile_ic", "tile_oc", "tile_ow")] == [[6, 4], [9, 4], [1, 15]]
        conv2d_avx_1x1._fallback_schedule(cfg, wkl)
        assert cfg["tile_oh"].val == 2
        fallback_schedule_cpu_common_int8(cfg, wkl, 4, 4)
        assert cfg["tile_ic"].size == [6, 4]
        with pytest.raises(UsageError, match="24 channels to 36"):
            fallback_schedule_cpu_common_int8(cfg, wkl, 16, 4)
        A, W = te.placeholder((1, 3, 9, 33, 8), name="A"), te.placeholder((3, 1, 3, 3, 1, 8), name="W")
        wide = depthwise_conv2d._get_workload(A, W, 1, 1, 1, "float32", "NCHWc")
        depthwise_conv2d._fallback_schedule(cfg, wide)
        assert [cfg[x].size for x in ("tile_ic", "tile_oc", "tile_ow")] == [[6, 4], [6, 4], [3, 11]]
    with pytest.raises(UsageError, match="layout 'CHWN'"):
        _get_workload(A, W, 1, 1, 1, "float32", "CHWN")


def test_pooling_of_blocks_of_channels() -> None:
    a = np.random.default_rng(0).integers(-9, 9, (1, 2, 4, 6, 4)).astype("float32")
    A = te.placeholder(a.shape, name="A")
    windows = a.reshape(1, 2, 2, 2, 3, 2, 4)
    cases = [
        (nn.adaptive_pool(A, [2, 3], "max", "NCHW4c"), windows.max((3, 5))),
        (nn.pool2d(A, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max", layout="NCHW4c"), windows.max((3, 5))),
        (nn.global_pool(A, "max", "NCHW4c"), a.max((2, 3), keepdims=True)),
    ]
    for B, expected in cases:
        np.testing.assert_array_equal(core.reference([A, B], [a])[0], expected)
    with pytest.raises(UsageError, match="is not NCHW"):
        nn.global_pool(A, "max", "NCHW")


def test_ranges_of_types() -> None:
    from autosched.tvm.testing.aot import get_dtype_range

    assert get_dtype_range("uint8") == (0, 255)
    assert get_dtype_range("float16") == (-65504, 65504)


def test_a_shape_of_fewer_elements_takes_the_first() -> None:
    x = np.arange(50, dtype="float32").reshape(2, 5, 5)
    A = te.placeholder(x.shape, name="A")
    for shape in ((1, 32), (7, 7), (50,), (5, -1)):
        B = topi.reshape(A, shape)
        count = 50 if -1 in shape else int(np.prod(shape))
        np.testing.assert_array_equal(te.reference([A, B], [x])[0], x.reshape(-1)[:count].reshape(shape))
        np.testing.assert_array_equal(
            tvm.build(te.create_schedule(B.op), [A, B])(x), x.reshape(-1)[:count].reshape(shape)
        )
    for shape in ((8, 7), (0, 3), (-2, -5)):
        with pytest.raises(UsageError):
            topi.reshape(A, shape)
