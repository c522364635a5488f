"""`tvm._ffi`: Python functions by name, and TVM's class of errors, where programs before TVM 0.8 look for them."""

from autosched.ir import functions
from autosched.ir.functions import get_global_func as get_global_func
from autosched.ir.functions import register_func as register_func
from autosched.tvm import error

base, registry = error, functions
