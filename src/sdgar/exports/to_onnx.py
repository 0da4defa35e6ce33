"""Write a model as a graph of ONNX, from the number of a user to a list.

    users.onnx        user, k → items, scores       for a user of the training

It contains everything that it computes with, and leaves out the items that the user has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdgar.data.history import History
from sdgar.exports.export import Contents, Files, missing_package
from sdgar.exports.to_numpy import write_ids

OPSET = 18
"""The version of the operators, which runtimes since 2023 have."""
_MOST_BYTES = 1 << 30
"""The most bytes of numbers in one file; more are kept in a file next to it."""
_SAYS = "The k best items of a user of the training, which the user does not have."


def write_onnx(contents: Contents, folder: Path) -> Files:
    """Write the graph of users: s = u · v + b + Σ w, by tables in the graph."""
    try:
        import onnx
    except ImportError as error:
        raise missing_package("onnx", "onnx") from error
    g = _Graph(onnx)
    known = _items_of(g, contents.known, "known")
    rows = ((one.indptr_U1, one.items_E) for one in (contents.known, contents.history))
    same = all(map(np.array_equal, *rows))
    history = known if same else _items_of(g, contents.history, "history")
    scores: str | None = None
    if contents.has_vectors:
        vector = g.add("Gather", g.table("user_vectors", contents.user_UD), "user")
        scores = _products(g, vector, contents)
    if contents.weight_II is not None:
        sums = _sums(g, contents, history)
        scores = sums if scores is None else g.add("Add", scores, sums)
    assert scores is not None
    _list(g, scores, known)
    files = write_ids(contents, folder)
    for name in g.save(folder / "users.onnx"):
        files[name] = "user, k → items, scores: numbers of items, -1 after the last one"
    return files


class _Graph:
    """A graph that is being built; values are known by their names."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._tensors: dict[str, Any] = {}

    def table(self, name: str, values: ArrayLike) -> str:
        """Add an array under a name, once; return the name."""
        if name not in self._tensors:
            made = np.asarray(values, order="C")
            self._tensors[name] = self._onnx.numpy_helper.from_array(made, name)
        return name

    def number(self, value: Any, dtype: Any = np.int64) -> str:
        """Add an array of one or a few numbers; return its name."""
        own = np.asarray(value, dtype)
        return self.table(f"{own.dtype}:{own.shape}:{own.tolist()}", own)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return the name of the output."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, n: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs; return their names."""
        names = [f"{operator}_{len(self._nodes)}_{number}" for number in range(n)]
        make = self._onnx.helper.make_node
        self._nodes.append(make(operator, list(inputs), names, **attributes))
        return names

    def output(self, name: str, value: str) -> None:
        """Name a value as an output."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))

    def save(self, path: Path) -> list[str]:
        """Check the graph and write it; return the names of the files."""
        onnx = self._onnx
        value, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
        inputs = [value(name, kinds.INT64, [1]) for name in ("user", "k")]
        outputs = [
            value("items", kinds.INT64, ["listed"]), value("scores", kinds.FLOAT, ["listed"])
        ]  # fmt: skip
        tensors: Sequence[Any] = list(self._tensors.values())
        graph = onnx.helper.make_graph(self._nodes, path.stem, inputs, outputs, tensors)
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=8,
            producer_name="sdgar", doc_string=_SAYS,
        )  # fmt: skip
        large = sum(len(tensor.raw_data) for tensor in tensors) > _MOST_BYTES
        data = f"{path.name}.data"
        onnx.save(model, str(path), save_as_external_data=large, location=data)
        onnx.checker.check_model(str(path), full_check=True)
        return [path.name, *([data] if large else [])]


def _items_of(g: _Graph, history: History, name: str) -> str:
    """Return the items of a user, as a value of one axis."""
    start = g.table(f"{name}_start", history.indptr_U1)
    after = g.add("Add", "user", g.number([1]))
    first, last = (g.add("Gather", start, at) for at in ("user", after))
    return g.add("Slice", g.table(f"{name}_items", history.items_E.astype(np.int64)), first, last)


def _products(g: _Graph, vector: str, contents: Contents) -> str:
    """s_I = V u + b of a vector u_1D; b where vectors have no coordinates."""
    bias = g.table("item_biases", contents.bias_I)
    if contents.item_ID.shape[1] == 0:
        return bias
    table = g.table("item_vectors", contents.item_ID)
    return g.add("Squeeze", g.add("Gemm", vector, table, bias, transB=1), g.number([0]))


def _sums(g: _Graph, contents: Contents, history: str) -> str:
    """Σ_{j ∈ history} w_jI, over the entries of these rows of W alone.

    Row h of the history has the entries first_h … first_h + length_h - 1 of W. All entries together
    have the numbers 0 … total - 1, and the entries of h begin at start_h: the row of an entry is
    the number of starts at or before it, less one.
    """
    w = contents.weight_II
    start_of = g.table("weights_start", w.indptr.astype(np.int64))
    one, zero = g.number([1]), g.number([0])
    first = g.add("Gather", start_of, history)
    length = g.add("Sub", g.add("Gather", start_of, g.add("Add", history, one)), first)
    start = g.add("Sub", g.add("CumSum", length, g.number(0)), length)
    total = g.add("ReduceSum", length, keepdims=1)
    zeros = g.add("Expand", zero, g.add("Add", total, one))
    ones = g.add("Expand", one, g.add("Shape", start))
    marks = g.add("ScatterElements", zeros, start, ones, axis=0, reduction="add")
    row = g.add("Sub", g.add("CumSum", marks, g.number(0)), one)
    row = g.add("Slice", row, zero, total)
    scalar = g.add("Squeeze", total, zero)
    through = g.add("Range", g.number(0), scalar, g.number(1))
    place = g.add("Add", g.add("Gather", g.add("Sub", first, start), row), through)
    item = g.add("Gather", g.table("weights_item", w.indices.astype(np.int64)), place)
    weight = g.add("Gather", g.table("weights", w.data.astype(np.float32)), place)
    nothing = g.add("Expand", g.number([0], np.float32), g.number([w.shape[0]]))
    sums = g.add("ScatterElements", nothing, item, weight, axis=0, reduction="add")
    if not contents.only_supported:
        return sums
    least = g.number(0, np.float32)
    return g.add("Where", g.add("Greater", sums, least), sums, g.number(-np.inf, np.float32))


def _list(g: _Graph, scores: str, left_out: str) -> None:
    """Leave items out and take the k best."""
    low = g.number([-np.inf], np.float32)
    lows = g.add("Expand", low, g.add("Shape", left_out))
    scores = g.add("ScatterElements", scores, left_out, lows, axis=0)
    k = g.add("Min", "k", g.add("Shape", scores))
    best, item = g.several("TopK", 2, scores, k, axis=0, largest=1, sorted=1)
    is_there = g.add("Greater", best, low)
    g.output("items", g.add("Where", is_there, item, g.number([-1])))
    g.output("scores", best)
