"""The operators of ONNX, a function each: see `graph.onnx.node`."""
