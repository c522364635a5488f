"""`tvm.contrib.debugger`: models that tell what each of their kernels takes and computes."""
