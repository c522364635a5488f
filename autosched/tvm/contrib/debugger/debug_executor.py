"""Models whose kernels are timed one by one, and whose values in between can be looked at.

    executor = lib["debug_create"]("default", tvm.cpu())
    module = debug_executor.GraphModuleDebug(executor, [tvm.cpu()], lib.get_graph_json())
    module.set_input("data", image)
    module.run()                            prints a table
    print(module.profile())                 the same table
    module.debug_get_output("conv2d")       what a kernel has computed

Nodes are those of `lib.get_graph_json()`: inputs, then calls of kernels. Values in between lie as kernels write them:
channels may come last.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from autosched.errors import ModelError, UsageError, check_positive
from autosched.graph.compiled import Timed
from autosched.tvm._missing import missing
from autosched.tvm.contrib.graph_executor import GraphModule, _into
from autosched.tvm.contrib.graph_executor import create as _create


@dataclass(frozen=True)
class Report:
    """The time of each call of a kernel: `calls` has rows by TVM's names of columns."""

    calls: list[dict[str, Any]]

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """The rows as text, and their sum."""
        rows = [*self.calls, {"Name": "Sum", "Nodes": "", **self._sums()}]
        width = max(4, *(len(str(row["Name"])) for row in rows))
        lines = [f"{'Name':{width}}  Duration (us)  Percent  Nodes"]
        for row in rows:
            time, part = f"{row['Duration (us)']:13.2f}", f"{row['Percent']:7.2f}"
            lines.append(f"{row['Name']:{width}}  {time}  {part}  {row['Nodes']}".rstrip())
        return "\n".join(lines)

    def csv(self) -> str:
        """The rows, with commas."""
        lines = [f'{row["Name"]},{row["Duration (us)"]},{row["Percent"]},"{row["Nodes"]}"' for row in self.calls]
        return "\n".join(["Name,Duration (us),Percent,Nodes", *lines])

    def json(self) -> str:
        return json.dumps({"calls": self.calls})

    def _sums(self) -> dict[str, float]:
        return {name: sum(row[name] for row in self.calls) for name in ("Duration (us)", "Percent")}


def _row(t: Timed, whole: float) -> dict[str, Any]:
    times = {"Duration (us)": t.seconds * 1e6, "Percent": 100 * t.seconds / whole}
    return {"Name": t.workload.name, **times, "Nodes": t.nodes}


class GraphModuleDebug(GraphModule):
    """A model that is called in steps, and timed by kernels. It must have been compiled here: a library that was
    loaded has one function.

    module: what `lib["debug_create"]("default", device)` returns
    """

    def __init__(self, module: Any, device: Any = None, graph_json_str: str = "", dump_root: Any = None) -> None:
        super().__init__(module)
        compiled = self.module.compiled
        if compiled is None:
            legal = "lib of relay.build, in the process that compiled it"
            raise UsageError("its kernels cannot be called one by one", asked="GraphModuleDebug", legal=legal)
        self._compiled = compiled

    def run(self, **input_dict: Any) -> None:
        """Set these inputs, compute all outputs, and print the time of each kernel."""
        super().run(**input_dict)
        print(self.profile())

    def profile(self, collectors: Any = None, **input_dict: Any) -> Report:
        """The median time of each call of a kernel over ten runs."""
        self.set_input(**input_dict)
        timed = self._compiled.profile(self.module.inputs)
        whole = sum(t.seconds for t in timed) or 1.0
        return Report([_row(t, whole) for t in timed])

    def run_individual(self, number: int, repeat: int = 1, min_repeat_ms: int = 0, **more: Any) -> list[list[float]]:
        """For each node, `repeat` times in seconds, each the median of `number` runs; of an input, zeros."""
        check_positive("run_individual", or_none=False, number=number, repeat=repeat)
        rounds = [[t.seconds for t in self._compiled.profile(self.module.inputs, number)] for _ in range(repeat)]
        return [*([0.0] * repeat for _ in self.module.inputs), *map(list, zip(*rounds, strict=True))]

    def run_individual_node(self, index: int, number: int = 10, repeat: int = 1, **more: Any) -> list[float]:
        """The times of one node, as `run_individual` gives them."""
        return self.run_individual(number, repeat)[index]

    def debug_get_output(self, node: str | int, out: Any = None) -> Any:
        """What a kernel has computed, by the name or number of its node. Raises ModelError for another."""
        cut, inputs = self._compiled.cut, len(self.module.inputs)
        names = [cut.kernels[call[0]].workload.name for call in cut.calls]
        at = names.index(node) if node in names else node - inputs if isinstance(node, int) else -1
        if not 0 <= at < len(names):
            legal = f"{inputs} to {inputs + len(names) - 1}, or one of {', '.join(names)}"
            raise ModelError("there is no such kernel", asked=f"debug_get_output({node!r})", legal=legal)
        made = cut.tensors[cut.calls[at][2][0]]
        return _into(self._compiled.intermediates(self.module.inputs, [made])[made], out)

    def exit(self) -> None:
        """Nothing: no files are written."""


def create(graph_json_str: str, libmod: Any, device: Any, dump_root: Any = None) -> GraphModuleDebug:
    """The model of the three results of `relay.build`. No files are written, whatever `dump_root` is."""
    return GraphModuleDebug(_create(graph_json_str, libmod, device).module)


__getattr__ = missing("contrib.debugger.debug_executor", globals())
