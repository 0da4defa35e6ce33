"""The code by which kernels read records, and read and write the arrays in them.

An array of a record is used as one of NumPy is: its numbers by their indices, which are not below
0, its length, shape and strides, ``ctypes.data``, and ``flat`` if it is contiguous.

The types register themselves as this module is imported.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_global,
)
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)
from numba.np.numpy_support import as_dtype

from sdgar.kernels.records import ArrayType, RecordTupleType, RecordType

_INT64 = ir.IntType(64)
_BYTES = 8
"""The bytes of a word."""

for _one in (RecordType, RecordTupleType, ArrayType):
    register_model(_one)(models.OpaqueModel)


@unbox(RecordType)
def _unbox(kind: Any, value: Any, c: Any) -> Any:
    """Take the address of a record from Python."""
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(address)


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    """The types of the fields of a record."""

    key = RecordType

    def generic_resolve(self, kind: Any, field: str) -> Any:
        return kind.fields.get(field)


@lower_getattr_generic(RecordType)
def _field(context: Any, builder: Any, kind: Any, record: Any, field: str) -> Any:
    """Read a number of a record, or find where else a field is."""
    wanted, place = kind.fields[field], kind.offsets[field]
    if hasattr(wanted, "words"):
        return _word_at(builder, record, place)
    if isinstance(wanted, types.Boolean):
        return builder.trunc(_read(builder, record, place, _INT64), ir.IntType(1))
    return _read(builder, record, place, context.get_value_type(wanted))


def _word_at(builder: Any, start: Any, place: int) -> Any:
    return builder.gep(start, [_INT64(place * _BYTES)]) if place else start


def _read(builder: Any, start: Any, place: int, kind: Any) -> Any:
    """Read one word, as a number or an address."""
    word = builder.load(builder.bitcast(_word_at(builder, start, place), kind.as_pointer()))
    # Nothing writes to a record while a kernel runs, so LLVM may read a word before a loop.
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@infer_global(operator.getitem)
class _RecordOfTuple(AbstractTemplate):  # type: ignore[misc]
    """The type of one record of a tuple."""

    def generic(self, args: Any, kws: Any) -> Any:
        records, index = args
        if isinstance(records, RecordTupleType) and isinstance(index, types.Integer):
            return records.record(records, types.int64)
        return None


@lower_builtin(operator.getitem, RecordTupleType, types.int64)
def _record_of_tuple(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Find a record of a tuple by its index."""
    size = _INT64(signature.args[0].record.words * _BYTES)
    return builder.gep(args[0], [builder.mul(args[1], size)])


class _Array:
    """The parts of an array, read from its words as they are needed."""

    def __init__(self, context: Any, builder: Any, kind: Any, start: Any) -> None:
        self._context, self._builder, self._start = context, builder, start
        self._kind, self._n = kind, kind.array.ndim
        self.item_bytes = as_dtype(kind.dtype).itemsize

    def data(self) -> Any:
        """Return where its numbers are."""
        kind = self._context.get_data_type(self._kind.dtype).as_pointer()
        return _read(self._builder, self._start, 0, kind)

    def size(self, axis: int) -> Any:
        """Return the length of an axis."""
        return _read(self._builder, self._start, 1 + axis, _INT64)

    def stride(self, axis: int) -> Any:
        """Return the bytes from one place of an axis to the next."""
        if self._kind.array.layout != "C":
            return _read(self._builder, self._start, 1 + self._n + axis, _INT64)
        stride = _INT64(self.item_bytes)
        # From the shape, as contiguous arrays have no strides among the words.
        for inner in range(axis + 1, self._n):
            stride = self._builder.mul(stride, self.size(inner))
        return stride

    def pointer(self, index: Any, value: Any) -> Any:
        """Return where the number at an index is."""
        builder, several = self._builder, isinstance(index, types.BaseTuple)
        kinds = list(index) if several else [index]
        values = cgutils.unpack_tuple(builder, value, len(kinds)) if several else [value]
        place = None
        for axis, (kind, one) in enumerate(zip(kinds, values, strict=True)):
            wide = self._context.cast(builder, one, kind, types.intp)
            if self._kind.array.layout == "C":  # in numbers: Horner's rule over the axes
                before = builder.mul(place, self.size(axis)) if axis else None
            else:  # in bytes
                wide, before = builder.mul(wide, self.stride(axis)), place
            place = wide if before is None else builder.add(before, wide)
        if self._kind.array.layout == "C":
            return builder.gep(self.data(), [place])
        byte = builder.bitcast(self.data(), ir.IntType(8).as_pointer())
        return builder.bitcast(builder.gep(byte, [place]), self.data().type)


def _is_index_of(array: Any, index: Any) -> bool:
    """Return whether an index names one number of an array."""
    several = isinstance(index, types.BaseTuple)
    kinds = tuple(index) if several else (index,)
    return len(kinds) == array.axes and all(isinstance(one, types.Integer) for one in kinds)


@infer_global(operator.getitem)
class _NumberOf(AbstractTemplate):  # type: ignore[misc]
    """The type of a number of an array."""

    def generic(self, args: Any, kws: Any) -> Any:
        array, index = args
        if isinstance(array, ArrayType) and _is_index_of(array, index):
            return array.dtype(*args)
        return None


@lower_builtin(operator.getitem, ArrayType, types.Any)
def _number_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index = signature.args
    pointer = _Array(context, builder, array, args[0]).pointer(index, args[1])
    return context.unpack_value(builder, array.dtype, pointer)


@infer_global(operator.setitem)
class _WriteNumber(AbstractTemplate):  # type: ignore[misc]
    """Writing a number of an array needs one that can become a number of its kind."""

    def generic(self, args: Any, kws: Any) -> Any:
        array, index, _ = args
        if isinstance(array, ArrayType) and _is_index_of(array, index) and array.array.mutable:
            return types.none(array, index, array.dtype)
        return None


@lower_builtin(operator.setitem, ArrayType, types.Any, types.Any)
def _write_number(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index, _ = signature.args
    pointer = _Array(context, builder, array, args[0]).pointer(index, args[1])
    context.pack_value(builder, array.dtype, args[2], pointer)
    return context.get_dummy_value()


@infer_getattr
class _Parts(AttributeTemplate):  # type: ignore[misc]
    """The types of what else a kernel takes of an array."""

    key = ArrayType

    def generic_resolve(self, kind: Any, part: str) -> Any:
        if kind.flat:
            return None
        if part in ("shape", "strides"):
            return types.UniTuple(types.int64, kind.array.ndim)
        if part == "flat":
            return ArrayType(kind.array, flat=True) if kind.array.layout == "C" else None
        return {"ctypes": kind, "data": types.uintp, "itemsize": types.int64}.get(part)


@lower_getattr_generic(ArrayType)
def _part(context: Any, builder: Any, kind: Any, start: Any, part: str) -> Any:
    array = _Array(context, builder, kind, start)
    axes = range(kind.array.ndim)
    if part in ("ctypes", "flat"):
        return start
    if part == "data":
        return builder.ptrtoint(array.data(), _INT64)
    if part == "itemsize":
        return _INT64(array.item_bytes)
    parts = [(array.size if part == "shape" else array.stride)(axis) for axis in axes]
    return context.make_tuple(builder, types.UniTuple(types.int64, len(parts)), parts)


@infer_global(len)
class _Length(AbstractTemplate):  # type: ignore[misc]
    """The type of the length of an array."""

    def generic(self, args: Any, kws: Any) -> Any:
        of_array = isinstance(args[0], ArrayType) and not args[0].flat
        return types.intp(*args) if of_array else None


@lower_builtin(len, ArrayType)
def _length(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _Array(context, builder, signature.args[0], args[0]).size(0)
