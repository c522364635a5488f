"""`tvm.driver.tvmc`: a model loaded, tuned, compiled and run, a call each.

model = tvmc.load("resnet50-v2-7.onnx", shape_dict={"data": [1, 3, 224, 224]})
records = tvmc.tune(model, target="llvm")
package = tvmc.compile(model, target="llvm", tuning_records=records)
print(tvmc.run(package, device="cpu"))
"""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.driver.tvmc.autotuner import tune as tune
from autosched.tvm.driver.tvmc.compiler import compile_model as compile
from autosched.tvm.driver.tvmc.frontends import load_model as load
from autosched.tvm.driver.tvmc.model import TVMCModel as TVMCModel
from autosched.tvm.driver.tvmc.model import TVMCPackage as TVMCPackage
from autosched.tvm.driver.tvmc.model import TVMCResult as TVMCResult
from autosched.tvm.driver.tvmc.runner import run_module as run

__all__ = ["TVMCModel", "TVMCPackage", "TVMCResult", "compile", "load", "run", "tune"]
__getattr__ = missing("driver.tvmc", globals(), {"micro": "autosched compile model.onnx --target c"})
