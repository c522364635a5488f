"""Layers of neural networks, by TVM's names."""

from autosched.topi.arguments import check_calls
from autosched.topi.nn.activation import fast_softmax as fast_softmax
from autosched.topi.nn.activation import leaky_relu as leaky_relu
from autosched.topi.nn.activation import log_softmax as log_softmax
from autosched.topi.nn.activation import prelu as prelu
from autosched.topi.nn.activation import relu as relu
from autosched.topi.nn.activation import softmax as softmax
from autosched.topi.nn.convolution import conv1d as conv1d
from autosched.topi.nn.convolution import conv1d_ncw as conv1d_ncw
from autosched.topi.nn.convolution import conv1d_nwc as conv1d_nwc
from autosched.topi.nn.convolution import conv1d_transpose_ncw as conv1d_transpose_ncw
from autosched.topi.nn.convolution import conv2d as conv2d
from autosched.topi.nn.convolution import conv2d_hwcn as conv2d_hwcn
from autosched.topi.nn.convolution import conv2d_nchw as conv2d_nchw
from autosched.topi.nn.convolution import conv2d_NCHWc as conv2d_NCHWc
from autosched.topi.nn.convolution import conv2d_nhwc as conv2d_nhwc
from autosched.topi.nn.convolution import conv2d_transpose_nchw as conv2d_transpose_nchw
from autosched.topi.nn.convolution import conv3d_ncdhw as conv3d_ncdhw
from autosched.topi.nn.convolution import conv3d_ndhwc as conv3d_ndhwc
from autosched.topi.nn.convolution import conv3d_transpose_ncdhw as conv3d_transpose_ncdhw
from autosched.topi.nn.convolution import convolution as convolution
from autosched.topi.nn.convolution import convolution_transpose as convolution_transpose
from autosched.topi.nn.convolution import depthwise_conv2d_nchw as depthwise_conv2d_nchw
from autosched.topi.nn.convolution import depthwise_conv2d_nhwc as depthwise_conv2d_nhwc
from autosched.topi.nn.convolution import group_conv2d_nchw as group_conv2d_nchw
from autosched.topi.nn.convolution import group_conv2d_nhwc as group_conv2d_nhwc
from autosched.topi.nn.dense import batch_matmul as batch_matmul
from autosched.topi.nn.dense import bias_add as bias_add
from autosched.topi.nn.dense import dense as dense
from autosched.topi.nn.dense import flatten as flatten
from autosched.topi.nn.dense import matmul as matmul
from autosched.topi.nn.normalization import batch_norm as batch_norm
from autosched.topi.nn.normalization import group_norm as group_norm
from autosched.topi.nn.normalization import instance_norm as instance_norm
from autosched.topi.nn.normalization import layer_norm as layer_norm
from autosched.topi.nn.normalization import lrn as lrn
from autosched.topi.nn.normalization import moments as moments
from autosched.topi.nn.normalization import rms_norm as rms_norm
from autosched.topi.nn.normalization import scale_shift_nchw as scale_shift_nchw
from autosched.topi.nn.normalization import scale_shift_nhwc as scale_shift_nhwc
from autosched.topi.nn.padding import dilate as dilate
from autosched.topi.nn.padding import get_pad_tuple as get_pad_tuple
from autosched.topi.nn.padding import mirror_pad as mirror_pad
from autosched.topi.nn.padding import pad as pad
from autosched.topi.nn.pooling import adaptive_pool as adaptive_pool
from autosched.topi.nn.pooling import depth_to_space as depth_to_space
from autosched.topi.nn.pooling import global_pool as global_pool
from autosched.topi.nn.pooling import pool as pool
from autosched.topi.nn.pooling import pool1d as pool1d
from autosched.topi.nn.pooling import pool2d as pool2d
from autosched.topi.nn.pooling import pool3d as pool3d
from autosched.topi.nn.pooling import space_to_depth as space_to_depth
from autosched.topi.nn.pooling import upsampling as upsampling
from autosched.topi.nn.recurrent import lstm as lstm

check_calls(globals())
