"""The rules by which new users are folded in, written as nodes of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.exports.graphs import Graph
from sdgar.maths.sphere import LOOKS, STEP_SIZE
from sdgar.models.factors import Factors
from sdgar.models.fold_in import LeastSquares, NoVector, OnSphere
from sdgar.models.item_vectors import ItemVectors

_SMALLEST = 1e-12
"""The least length by which a vector is divided."""
_TINY = 1e-30


def new_vector(
    g: Graph, part: Factors | ItemVectors, name: str, item_ID: NDArray[np.float32]
) -> str | None:
    """Return u_1D for the input ``history``; None if the rule of the model cannot be written."""
    if isinstance(part, ItemVectors):
        rows = g.add("Gather", g.table(name, item_ID), "history")
        return g.add("ReduceSum", rows, g.number([0]), keepdims=1)
    match part.rule:
        case OnSphere() as rule:
            return _on_sphere(g, part, rule, name, item_ID)
        case LeastSquares() as rule:
            return _least_squares(g, rule, name, item_ID)
        case NoVector():
            return g.table(f"{name}_none", np.zeros((1, 0), np.float32))
    return None


def _on_sphere(
    g: Graph, part: Factors, rule: OnSphere, name: str, item_ID: NDArray[np.float32]
) -> str:
    """u = û / τ after the steps of ``maths/sphere.py``, written out one after the other."""

    def f(value: float) -> str:
        return g.number(value, np.float32)

    support = rule.support
    item_S = support.item_S.cpu().numpy()
    offset_S = part.bias_I.detach().cpu().numpy()[item_S] + support.log_weight_S.cpu().numpy()
    v_SD = g.table(f"{name}_support", item_ID[item_S])
    offset = g.table(f"{name}_support_offsets", offset_S[None].astype(np.float32))
    at = g.add("Gather", g.table(f"{name}_places", support.place_I.cpu().numpy()), "history")
    at = g.add("Compress", at, g.add("GreaterOrEqual", at, g.number(0)), axis=0)
    at = g.add("Unsqueeze", at, g.number([0]))
    lows = g.add("Expand", g.number([-np.inf], np.float32), g.add("Shape", at))
    rows = g.add("Gather", g.table(name, item_ID), "history")
    mean = g.add("ReduceMean", rows, g.number([0]), keepdims=1)
    m = g.add("Div", mean, f(rule.rho))
    u = best_u = _unit(g, m)
    slope, best, step = g.add("Mul", m, f(0)), f(-np.inf), f(STEP_SIZE)
    for _ in range(LOOKS):
        scaled = g.add("Div", u, f(rule.tau))
        s = g.add("Gemm", scaled, v_SD, offset, transB=1)
        s = g.add("ScatterElements", s, at, lows, axis=1)
        log_z = g.add("ReduceLogSumExp", s, g.number([1]), keepdims=1)
        gained = g.add("ReduceSum", g.add("Mul", scaled, m), g.number([1]), keepdims=1)
        value = g.add("Sub", gained, log_z)
        gains = g.add("GreaterOrEqual", value, best)
        p = g.add("Exp", g.add("Sub", s, log_z))
        best = g.add("Where", gains, value, best)
        best_u = g.add("Where", gains, u, best_u)
        slope = g.add("Where", gains, g.add("Sub", m, g.add("MatMul", p, v_SD)), slope)
        step = g.add("Where", gains, step, g.add("Div", step, f(4)))
        u = _unit(g, g.add("Add", best_u, g.add("Mul", step, slope)))
    return g.add("Div", best_u, f(rule.tau))


def _unit(g: Graph, vector: str) -> str:
    length = g.add("ReduceL2", vector, g.number([1]), keepdims=1)
    return g.add("Div", vector, g.add("Max", length, g.number(_SMALLEST, np.float32)))


def _least_squares(g: Graph, rule: LeastSquares, name: str, item_ID: NDArray[np.float32]) -> str:
    """(α V'V + Σ v v' + λ (n + α M)^ν I) u = Σ v, by conjugate gradients in double precision.

    ONNX solves no equations. As many steps as there are unknowns are enough with exact numbers;
    twice as many are taken.
    """
    double, dim = np.float64, item_ID.shape[1]
    wide_ID = item_ID.astype(double)
    rows = g.add("Gather", g.table(name, item_ID), "history")
    v_HD = g.add("Cast", rows, to=g.onnx.TensorProto.DOUBLE)
    n = g.add("Cast", g.add("Size", "history"), to=g.onnx.TensorProto.DOUBLE)
    seen = g.add("Add", n, g.number(rule.alpha * len(item_ID), double))
    power = g.add("Pow", seen, g.number(rule.power, double))
    norm = g.add("Mul", power, g.number(rule.l2, double))
    own = g.add("MatMul", g.add("Transpose", v_HD, perm=[1, 0]), v_HD)
    gram = g.add("Add", g.table(f"{name}_gram", rule.alpha * (wide_ID.T @ wide_ID)), own)
    left = g.add("Add", gram, g.add("Mul", norm, g.table(f"{name}_identity", np.eye(dim))))
    right = g.add("ReduceSum", v_HD, g.number([0]), keepdims=1)
    start = g.add("Mul", right, g.number(0, double))
    size = g.add("ReduceSum", g.add("Mul", right, right), keepdims=0)
    body = _step(g, left, dim)
    always = g.table("true", np.array(True))
    states = (start, right, right, size)
    u, *_ = g.several("Loop", 4, g.number(2 * dim), always, *states, body=body)
    return g.add("Cast", u, to=g.onnx.TensorProto.FLOAT)


def _step(outer: Graph, left: str, dim: int) -> Any:
    """One step of conjugate gradients: the solution so far, the rest, the way, and |rest|²."""
    g = Graph(outer.onnx, outer)
    make, kinds = g.onnx.helper.make_tensor_value_info, g.onnx.TensorProto
    names = ("solution", "rest", "way", "size")
    shapes: tuple[list[int], ...] = ([1, dim], [1, dim], [1, dim], [])
    tiny = g.number(_TINY, np.float64)
    pulled = g.add("MatMul", "way", left)
    along = g.add("ReduceSum", g.add("Mul", "way", pulled), keepdims=0)
    length = g.add("Div", "size", g.add("Max", along, tiny))
    solution = g.add("Add", "solution", g.add("Mul", length, "way"))
    rest = g.add("Sub", "rest", g.add("Mul", length, pulled))
    size = g.add("ReduceSum", g.add("Mul", rest, rest), keepdims=0)
    turn = g.add("Div", size, g.add("Max", "size", tiny))
    way = g.add("Add", rest, g.add("Mul", turn, "way"))
    found = [*zip(names, (solution, rest, way, size), shapes, strict=True)]
    for name, value, _ in found:
        g.named(f"next_{name}", value)
    g.named("goes_on", "keeps_on")
    inputs = [make("number", kinds.INT64, []), make("keeps_on", kinds.BOOL, [])]
    inputs += [make(name, kinds.DOUBLE, shape) for name, _, shape in found]
    outputs = [make("goes_on", kinds.BOOL, [])]
    outputs += [make(f"next_{name}", kinds.DOUBLE, shape) for name, _, shape in found]
    return g.body("step", inputs, outputs)
