"""Operators on whole tensors, by TVM's names: NumPy's vocabulary, and layers in `topi.nn`.

    C = topi.sum(topi.nn.relu(A + B), axis=1)

Importing it lets `+`, `*`, `<` and the other operators take whole tensors, whose shapes go together as NumPy's. Every
operator returns `te` tensors, to be scheduled like any others; `topi.generic`, `topi.x86` and `topi.cuda` have
schedules to begin with.
"""

from __future__ import annotations

from autosched.topi import cuda, generic, image, nn, sparse, vision, x86
from autosched.topi.arguments import check_calls
from autosched.topi.choosing import adv_index as adv_index
from autosched.topi.choosing import dynamic_strided_slice as dynamic_strided_slice
from autosched.topi.choosing import expand_like as expand_like
from autosched.topi.choosing import invert_permutation as invert_permutation
from autosched.topi.choosing import matrix_set_diag as matrix_set_diag
from autosched.topi.choosing import ndarray_size as ndarray_size
from autosched.topi.choosing import reverse_sequence as reverse_sequence
from autosched.topi.choosing import shape as shape
from autosched.topi.choosing import sliding_window as sliding_window
from autosched.topi.choosing import strided_set as strided_set
from autosched.topi.choosing import strided_slice as strided_slice
from autosched.topi.choosing import unravel_index as unravel_index
from autosched.topi.elementwise import BINARY, UNARY
from autosched.topi.elementwise import broadcast_to as broadcast_to
from autosched.topi.elementwise import cast as cast
from autosched.topi.elementwise import clip as clip
from autosched.topi.elementwise import elemwise_sum as elemwise_sum
from autosched.topi.elementwise import full as full
from autosched.topi.elementwise import full_like as full_like
from autosched.topi.elementwise import ones as ones
from autosched.topi.elementwise import ones_like as ones_like
from autosched.topi.elementwise import reinterpret as reinterpret
from autosched.topi.elementwise import zeros as zeros
from autosched.topi.elementwise import zeros_like as zeros_like
from autosched.topi.linalg import cumprod as cumprod
from autosched.topi.linalg import cumsum as cumsum
from autosched.topi.linalg import einsum as einsum
from autosched.topi.linalg import matmul as matmul
from autosched.topi.linalg import tensordot as tensordot
from autosched.topi.reduction import all as all
from autosched.topi.reduction import any as any
from autosched.topi.reduction import argmax as argmax
from autosched.topi.reduction import argmin as argmin
from autosched.topi.reduction import collapse_sum as collapse_sum
from autosched.topi.reduction import max as max
from autosched.topi.reduction import mean as mean
from autosched.topi.reduction import min as min
from autosched.topi.reduction import prod as prod
from autosched.topi.reduction import sum as sum
from autosched.topi.scatter import scatter_elements as scatter_elements
from autosched.topi.scatter import scatter_nd as scatter_nd
from autosched.topi.scatter import sparse_to_dense as sparse_to_dense
from autosched.topi.signal import dft as dft
from autosched.topi.signal import stft as stft
from autosched.topi.sorting import argsort as argsort
from autosched.topi.sorting import argwhere as argwhere
from autosched.topi.sorting import searchsorted as searchsorted
from autosched.topi.sorting import sort as sort
from autosched.topi.sorting import topk as topk
from autosched.topi.sorting import unique as unique
from autosched.topi.transform import arange as arange
from autosched.topi.transform import concatenate as concatenate
from autosched.topi.transform import expand_dims as expand_dims
from autosched.topi.transform import flip as flip
from autosched.topi.transform import gather as gather
from autosched.topi.transform import gather_nd as gather_nd
from autosched.topi.transform import layout_transform as layout_transform
from autosched.topi.transform import meshgrid as meshgrid
from autosched.topi.transform import one_hot as one_hot
from autosched.topi.transform import repeat as repeat
from autosched.topi.transform import reshape as reshape
from autosched.topi.transform import sequence_mask as sequence_mask
from autosched.topi.transform import split as split
from autosched.topi.transform import squeeze as squeeze
from autosched.topi.transform import stack as stack
from autosched.topi.transform import take as take
from autosched.topi.transform import tile as tile
from autosched.topi.transform import transpose as transpose
from autosched.topi.transform import trilu as trilu
from autosched.topi.transform import where as where

globals().update(UNARY)
globals().update(BINARY)

check_calls(globals())
