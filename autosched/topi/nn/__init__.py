"""Layers of neural networks, by TVM's names."""

from autosched.topi.calls import check_calls
from autosched.topi.nn.activation import fast_softmax, leaky_relu, log_softmax, prelu, relu, softmax
from autosched.topi.nn.convolution import (
    conv1d,
    conv1d_ncw,
    conv1d_nwc,
    conv1d_transpose_ncw,
    conv2d,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_NCHWc,
    conv2d_nhwc,
    conv2d_transpose_nchw,
    conv3d_ncdhw,
    conv3d_ndhwc,
    convolution,
    depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc,
    group_conv2d_nchw,
    group_conv2d_nhwc,
)
from autosched.topi.nn.dense import batch_matmul, bias_add, dense, flatten, matmul
from autosched.topi.nn.images import depth_to_space, space_to_depth, upsampling
from autosched.topi.nn.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    lrn,
    rms_norm,
    scale_shift_nchw,
    scale_shift_nhwc,
)
from autosched.topi.nn.padding import dilate, get_pad_tuple, mirror_pad, pad
from autosched.topi.nn.pooling import adaptive_pool, global_pool, pool1d, pool2d, pool3d
from autosched.topi.nn.recurrent import lstm

__all__ = [
    "adaptive_pool",
    "batch_matmul",
    "batch_norm",
    "bias_add",
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv1d_transpose_ncw",
    "conv2d",
    "conv2d_NCHWc",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_transpose_nchw",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "convolution",
    "dense",
    "depth_to_space",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "dilate",
    "fast_softmax",
    "flatten",
    "get_pad_tuple",
    "global_pool",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "lstm",
    "matmul",
    "mirror_pad",
    "pad",
    "pool1d",
    "pool2d",
    "pool3d",
    "prelu",
    "relu",
    "rms_norm",
    "scale_shift_nchw",
    "scale_shift_nhwc",
    "softmax",
    "space_to_depth",
    "upsampling",
]

check_calls(globals(), __all__)
