"""Write a model as graphs of ONNX, from the number of a user or from a history to a list.

    users.onnx        user, k → items, scores       for a user of the training
    histories.onnx    history, k → items, scores    for anyone, who is folded in by the model's rule

Both hold everything that they compute with, and leave out the items that the user has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sdgar.data.history import History
from sdgar.exports.contents import Contents, Files, missing_package
from sdgar.exports.fold_in_graphs import new_vector
from sdgar.exports.graphs import Graph
from sdgar.exports.linear import Linear
from sdgar.exports.to_numpy import write_ids
from sdgar.models.factors import Factors
from sdgar.models.item_vectors import ItemVectors

HISTORIES = "histories.onnx"
"""The name of the graph for histories."""
NOT_FOLDED_IN = (
    "New users: a graph for histories is not written, as the rule by which this model folds in new "
    "users (or its lack of one) cannot be written in ONNX."
)
"""The sentence on a model whose graph knows only the users of the training."""


def write_onnx(contents: Contents, folder: Path) -> Files:
    """Write the graph of users; that of histories too, if the model's rule can be written."""
    try:
        import onnx
    except ImportError as error:
        raise missing_package("onnx", "onnx") from error
    files = write_ids(contents, folder)
    for name in _of_users(Graph(onnx), contents, folder / "users.onnx"):
        files[name] = "user, k → items, scores: numbers of items, -1 behind the last one"
    for name in _of_histories(Graph(onnx), contents, folder / HISTORIES):
        files[name] = "history, k → items, scores: a history is numbers of items, each once"
    return files


def _of_users(g: Graph, contents: Contents, path: Path) -> list[str]:
    """s = u · v + b + Σ w, with u and the history of the user out of tables in the graph."""
    linear = contents.linear
    known = _items_of(g, contents.known, "known")
    history = known if _same(contents) else _items_of(g, contents.history, "history")
    scores: str | None = None
    if linear.has_vectors:
        vector = g.add("Gather", g.table("user_vectors", linear.user_UD), "user")
        scores = _products(g, vector, "item_vectors", linear.item_ID, linear.bias_I)
    if linear.weight_II is not None:
        scores = _plus(g, scores, _sums(g, linear, history))
    says = "The k best items of a user of the training, which the user does not have."
    return _finished(g, path, scores, known, "user", [1], says)


def _of_histories(g: Graph, contents: Contents, path: Path) -> list[str]:
    """The same for a history, with a vector that the rule of each model finds; none without one."""
    linear, scores = contents.linear, None
    for number, (part, weight) in enumerate(contents.parts):
        if not isinstance(part, Factors | ItemVectors):
            continue
        name = f"item_vectors_{number}"
        item_ID = part.item_ID.detach().cpu().numpy()
        vector = new_vector(g, part, name, item_ID)
        if vector is None:
            return []
        vector = g.add("Mul", vector, g.number(weight, np.float32))
        bias_I = (
            np.float32(weight) * part.bias_I.detach().cpu().numpy()
            if isinstance(part, Factors)
            else np.zeros(len(item_ID), np.float32)
        )
        own = _products(g, vector, name, item_ID, bias_I)
        scores = _plus(g, scores, own)
    if linear.weight_II is not None:
        scores = _plus(g, scores, _sums(g, linear, "history"))
    says = "The k best items for someone who has the items of a history, and not among them."
    return _finished(g, path, scores, "history", "history", ["items_of_history"], says)


def _same(contents: Contents) -> bool:
    """Tell whether lists leave out the items of the history and nothing else."""
    known, own = contents.known, contents.history
    return np.array_equal(known.indptr_U1, own.indptr_U1) and np.array_equal(
        known.items_E, own.items_E
    )


def _items_of(g: Graph, history: History, name: str) -> str:
    """Return the items of a user, as a value of one axis."""
    start = g.table(f"{name}_start", history.indptr_U1)
    after = g.add("Add", "user", g.number([1]))
    first, last = (g.add("Gather", start, at) for at in ("user", after))
    return g.add("Slice", g.table(f"{name}_items", history.items_E.astype(np.int64)), first, last)


def _products(g: Graph, vector: str, name: str, item_ID: Any, bias_I: Any) -> str:
    """s_I = V u + b of a vector u_1D; b where vectors have no numbers."""
    bias = g.table(f"{name}_biases", bias_I)
    if item_ID.shape[1] == 0:
        return bias
    table = g.table(name, item_ID)
    return g.add("Squeeze", g.add("Gemm", vector, table, bias, transB=1), g.number([0]))


def _plus(g: Graph, scores: str | None, more: str) -> str:
    return more if scores is None else g.add("Add", scores, more)


def _sums(g: Graph, linear: Linear, history: str) -> str:
    """Σ_{j ∈ history} w_jI, over the entries of these rows of W alone.

    Row h of the history has the entries first_h … first_h + length_h - 1 of W. They are numbered
    through, 0 … total - 1, those of h from start_h on: the row of each is how often a start lies at
    or before it, less one.
    """
    w = linear.weight_II
    start_of = g.table("weights_start", w.indptr.astype(np.int64))
    one, zero = g.number([1]), g.number([0])
    first = g.add("Gather", start_of, history)
    length = g.add("Sub", g.add("Gather", start_of, g.add("Add", history, one)), first)
    start = g.add("Sub", g.add("CumSum", length, g.number(0)), length)
    total = g.add("ReduceSum", length, keepdims=1)
    room = g.add("Expand", zero, g.add("Add", total, one))
    ones = g.add("Expand", one, g.add("Shape", start))
    marks = g.add("ScatterElements", room, start, ones, axis=0, reduction="add")
    row = g.add("Sub", g.add("CumSum", marks, g.number(0)), one)
    row = g.add("Slice", row, zero, total)
    scalar = g.add("Squeeze", total, zero)
    through = g.add("Range", g.number(0), scalar, g.number(1))
    place = g.add("Add", g.add("Gather", g.add("Sub", first, start), row), through)
    item = g.add("Gather", g.table("weights_item", w.indices.astype(np.int64)), place)
    weight = g.add("Gather", g.table("weights", w.data.astype(np.float32)), place)
    nothing = g.add("Expand", g.number([0], np.float32), g.number([w.shape[0]]))
    sums = g.add("ScatterElements", nothing, item, weight, axis=0, reduction="add")
    if not linear.only_supported:
        return sums
    least = g.number(0, np.float32)
    return g.add("Where", g.add("Greater", sums, least), sums, g.number(-np.inf, np.float32))


def _finished(
    g: Graph, path: Path, scores: str | None, left_out: str, asked: str, shape: list[Any], says: str
) -> list[str]:
    """Leave items out, take the k best, and write the graph."""
    assert scores is not None
    low = g.number([-np.inf], np.float32)
    lows = g.add("Expand", low, g.add("Shape", left_out))
    scores = g.add("ScatterElements", scores, left_out, lows, axis=0)
    k = g.add("Min", "k", g.add("Shape", scores))
    best, item = g.several("TopK", 2, scores, k, axis=0, largest=1, sorted=1)
    is_there = g.add("Greater", best, low)
    g.named("items", g.add("Where", is_there, item, g.number([-1])))
    g.named("scores", best)
    make, kinds = g.onnx.helper.make_tensor_value_info, g.onnx.TensorProto
    inputs = [make(asked, kinds.INT64, shape), make("k", kinds.INT64, [1])]
    outputs = [make("items", kinds.INT64, ["k_items"]), make("scores", kinds.FLOAT, ["k_items"])]
    return g.save(path, inputs, outputs, says)
