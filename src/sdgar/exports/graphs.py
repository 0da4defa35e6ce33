"""Graphs of ONNX, built node by node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

OPSET = 18
"""The version of the operators, which runtimes since 2023 have."""
_MOST_BYTES = 1 << 30
"""The most bytes of numbers in one file; more are kept in a file beside it."""


class Graph:
    """A graph that is being built; values are known by their names."""

    def __init__(self, onnx: Any, outer: Graph | None = None) -> None:
        self.onnx = onnx
        self._outer = outer
        self._nodes: list[Any] = []
        self._tensors: dict[str, Any] = {}
        self._made = 0

    def table(self, name: str, values: ArrayLike) -> str:
        """Add an array under a name to the outermost graph, once; return the name."""
        if self._outer is not None:
            return self._outer.table(name, values)
        if name not in self._tensors:
            made = np.asarray(values, order="C")
            self._tensors[name] = self.onnx.numpy_helper.from_array(made, name)
        return name

    def number(self, value: Any, dtype: Any = np.int64) -> str:
        """Add an array of one or a few numbers; return its name."""
        own = np.asarray(value, dtype)
        return self.table(f"{own.dtype}:{own.shape}:{own.tolist()}", own)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return the name of the output."""
        (name,) = self.several(operator, 1, *inputs, **attributes)
        return name

    def several(self, operator: str, n: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs; return their names."""
        names = [self.new_name(operator) for _ in range(n)]
        make = self.onnx.helper.make_node
        self._nodes.append(make(operator, list(inputs), names, **attributes))
        return names

    def new_name(self, stem: str) -> str:
        """Return a name that no other value has, in the graphs around this one neither."""
        if self._outer is not None:
            return self._outer.new_name(stem)
        self._made += 1
        return f"{stem}_{self._made}"

    def named(self, name: str, value: str) -> None:
        """Give a value the name of an output."""
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))

    def body(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """Return the graph as ONNX has it."""
        tensors = list(self._tensors.values())
        return self.onnx.helper.make_graph(self._nodes, name, inputs, outputs, tensors)

    def save(
        self, path: Path, inputs: Sequence[Any], outputs: Sequence[Any], says: str
    ) -> list[str]:
        """Check the graph and write it; return the names of the files."""
        onnx = self.onnx
        opsets = [onnx.helper.make_opsetid("", OPSET)]
        model = onnx.helper.make_model(
            self.body(path.stem, inputs, outputs), opset_imports=opsets, ir_version=8,
            producer_name="sdgar", doc_string=says,
        )  # fmt: skip
        large = sum(len(tensor.raw_data) for tensor in self._tensors.values()) > _MOST_BYTES
        beside = f"{path.name}.data"
        onnx.save(model, str(path), save_as_external_data=large, location=beside)
        onnx.checker.check_model(str(path), full_check=True)
        return [path.name, *([beside] if large else [])]
