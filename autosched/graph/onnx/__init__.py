"""ONNX: models of operator sets 7 and later, read with the official `onnx` package."""
