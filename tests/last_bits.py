"""Another machine's rounding, on this machine: ``pytest --last-bits SEED``.

Processors and their libraries agree on sums, products and exponentials only up to the last bits:
matrix products and sums are added up in other orders (which also hang on the shape of the
result), and exponentials, logarithms and fused multiplications are rounded otherwise. Here the
results of such operations of torch are moved by at most one unit in the last place. By how much
is a function of the value, of the seed and, for sums and products, of the shape. So the same
computation still gives the same bits twice, as it does on every machine, and whatever is promised
beyond that has to hold within rounding.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

BY_SHAPE = {
    "mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "sum", "mean", "norm", "logsumexp",
    "_softmax", "_log_softmax", "linalg_vector_norm", "cumsum", "_scaled_dot_product_attention",
    "linalg_solve", "cholesky_solve", "linalg_cholesky_ex", "_linalg_solve_ex", "native_layer_norm",
}  # fmt: skip
"""Operations that add up many numbers, in an order that libraries choose by the shape."""
BY_VALUE = {
    "exp", "expm1", "log", "log1p", "sigmoid", "tanh", "softplus", "log_sigmoid_forward", "pow",
    "rsqrt", "erf", "gelu", "addcmul", "addcdiv", "lerp",
}  # fmt: skip
"""Operations of single numbers that are rounded in more than one way."""

_INTEGERS = {torch.float32: (torch.int32, 10), torch.float64: (torch.int64, 30)}


class LastBits(TorchDispatchMode):
    """Moves what torch computes by at most one unit in the last place."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation, then move its results."""
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__.removesuffix("_")
        if name in BY_SHAPE or name in BY_VALUE:
            for tensor in result if isinstance(result, tuple | list) else (result,):
                if isinstance(tensor, Tensor) and tensor.dtype in _INTEGERS:
                    shape = tuple(tensor.shape) if name in BY_SHAPE else ()
                    _move(tensor.detach(), zlib.crc32(f"{self._seed} {name} {shape}".encode()))
        return result


def _move(tensor: Tensor, salt: int) -> None:
    """Add -1, 0 or 1 to the last bit; numbers that end in many zero bits are exact anywhere."""
    dtype, ending = _INTEGERS[tensor.dtype]
    bits = tensor.view(dtype)
    exact = ((bits & ((1 << ending) - 1)) == 0) | ~torch.isfinite(tensor)
    mixed = (bits ^ salt) * 0x9E3779B1
    step = ((mixed >> 19) & 3).clamp(max=2) - 1
    bits += step.masked_fill_(exact, 0)
