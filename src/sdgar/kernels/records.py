"""Records of arrays and numbers, laid out in memory for kernels.

A kernel takes dozens of arrays, in named tuples. Numba itself passes such a tuple by its parts,
seven numbers for each array, to every function that is called on the way to where they are used,
and to compile that takes long. Here a named tuple is laid out once, before a kernel
is called, and functions pass on its address. What they use of it is read there::

    words of a record      its fields, one after the other
    of a number            itself
    of an array            where its data are | its shape | its strides, unless it is contiguous
    of a named tuple       its words
    of a tuple of these    the words of all, which have one type; kernels take one by its number

A record stays as it is while a kernel runs, so what was read once need not be read again.

An array of a record is used as one of NumPy is: its numbers by their indices, which are not below
0, its length, shape and strides, ``ctypes.data``, and ``flat`` if it is contiguous. ``array_of``
makes one of Numba's own of it, for all else.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numba
import numpy as np
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
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)
from numba.np.numpy_support import as_dtype

_INT64 = ir.IntType(64)
_BYTES, _WORDS = 8, 1 << 64
"""The bytes of a word, and the number of different words."""
_ITEMS, _ITEM_BYTES, _DATA, _SHAPE, _STRIDES = range(2, 7)
"""The parts of Numba's arrays, after two that count references."""
_TYPES: dict[Any, Any] = {}
"""The types of all that was laid out, by what decides about them."""


class RecordType(types.Type):  # type: ignore[misc]
    """The type of a named tuple that is laid out: its class, and the types of its fields."""

    def __init__(self, kind: Any, fields: tuple[Any, ...]) -> None:
        self.instance_class = kind
        """The class of the named tuple."""
        self.fields = dict(zip(kind._fields, fields, strict=True))
        """The type of each field."""
        self.places: dict[str, int] = {}
        """How many words are before each field."""
        self.words = 0
        """How many words it has."""
        for name, one in self.fields.items():
            self.places[name] = self.words
            self.words += _words_of(one)
        names = ", ".join(f"{name}: {one}" for name, one in self.fields.items())
        super().__init__(name=f"Record({kind.__module__}.{kind.__qualname__}, {names})")

    @property
    def key(self) -> Any:
        """Return what distinguishes it from other types."""
        return self.instance_class, tuple(self.fields.values())


class ArrayType(types.Type):  # type: ignore[misc]
    """The type of an array of a record, or of its numbers one after the other, which is flat."""

    def __init__(self, array: Any, *, flat: bool = False) -> None:
        self.array, self.dtype, self.flat = array, array.dtype, flat
        self.axes = 1 if flat else array.ndim
        super().__init__(name=f"{'Flat' if flat else 'At'}({array})")


class SeveralType(types.Type):  # type: ignore[misc]
    """The type of several records of one type, one after the other."""

    def __init__(self, record: RecordType, count: int) -> None:
        self.record, self.count = record, count
        super().__init__(name=f"Several({record}, {count})")


def _words_of(kind: Any) -> int:
    """Return how many words a field of some type takes."""
    if isinstance(kind, ArrayType):
        axes: int = kind.array.ndim
        return 1 + axes * (1 if kind.array.layout == "C" else 2)
    if isinstance(kind, SeveralType):
        return kind.count * kind.record.words
    return kind.words if isinstance(kind, RecordType) else 1


class Record:
    """A named tuple that is laid out; it stays as it is, and its arrays stay where they are."""

    __slots__ = ("_buffer", "_numba_type_", "address", "record")

    def __init__(self, record: Any) -> None:
        self.record = record
        """The named tuple, which keeps its arrays alive."""
        words: list[int] = []
        self._numba_type_ = _lay(record, words)
        self._buffer = (ctypes.c_uint64 * max(1, len(words)))(*words)
        self.address = ctypes.addressof(self._buffer)
        """Where its words are."""


def records_of(args: Sequence[Any]) -> Iterator[Any]:
    """Lay out the named tuples among the arguments of a kernel."""
    return (Record(one) if hasattr(one, "_fields") else one for one in args)


def _lay(record: Any, words: list[int]) -> Any:
    """Add the words of a named tuple, and return its type."""
    kind, fields = type(record), tuple([_lay_field(one, words) for one in record])
    # Types are made once and kept, so that their ids distinguish them, which is quicker.
    return _once((kind, *map(id, fields)), lambda: RecordType(kind, fields))


def _lay_field(value: Any, words: list[int]) -> Any:
    """Add the words of a field, and return its type."""
    if hasattr(value, "_fields"):
        return _lay(value, words)
    if isinstance(value, tuple):
        kinds = [_lay(one, words) for one in value]
        if any(kind is not kinds[0] for kind in kinds):
            msg = "several records for kernels are of one type"
            raise TypeError(msg)
        return _once((id(kinds[0]), len(kinds)), lambda: SeveralType(kinds[0], len(kinds)))
    if not isinstance(value, np.ndarray):
        kind = _once(type(value), lambda: numba.typeof(value))
        words.append(_word(value, kind))
        return kind
    what = value.dtype, value.ndim, value.flags.num
    kind = _once(what, lambda: ArrayType(numba.typeof(value)))
    words.append(value.__array_interface__["data"][0])
    words += value.shape
    if kind.array.layout != "C":
        words += (stride % _WORDS for stride in value.strides)
    return kind


def _once(key: Any, make: Callable[[], Any]) -> Any:
    """Return the type with a key, which is made if it was not made before."""
    if key not in _TYPES:
        _TYPES[key] = make()
    return _TYPES[key]


def _word(value: Any, kind: Any) -> int:
    """Return the word of a number."""
    if kind == types.float32:
        return int(np.float32(value).view(np.uint32))
    if not isinstance(kind, types.Integer | types.Boolean):
        msg = f"a record for kernels has no place for {value!r}"
        raise TypeError(msg)
    return int(value) % _WORDS


for _one in (RecordType, SeveralType, ArrayType):
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
    wanted, place = kind.fields[field], kind.places[field]
    if isinstance(wanted, RecordType | SeveralType | ArrayType):
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
class _OneOfSeveral(AbstractTemplate):  # type: ignore[misc]
    """The type of one of several records."""

    def generic(self, args: Any, kws: Any) -> Any:
        several, index = args
        if isinstance(several, SeveralType) and isinstance(index, types.Integer):
            return several.record(several, types.int64)
        return None


@lower_builtin(operator.getitem, SeveralType, types.int64)
def _one_of_several(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Find one of several records by its number."""
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


@intrinsic
def array_of(typing_context: Any, array: Any) -> Any:
    """Make one of Numba's arrays of an array of a record. It holds no reference."""
    if not isinstance(array, ArrayType):
        return array(array), lambda context, builder, signature, args: args[0]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        parts = _Array(context, builder, array, args[0])
        n, items = array.array.ndim, _INT64(1)
        for axis in range(n):
            items = builder.mul(items, parts.size(axis))
        made = ir.Constant(context.get_value_type(array.array), None)
        for value, where in (
            (items, _ITEMS),
            (_INT64(parts.item_bytes), _ITEM_BYTES),
            (parts.data(), _DATA),
            *((parts.size(axis), (_SHAPE, axis)) for axis in range(n)),
            *((parts.stride(axis), (_STRIDES, axis)) for axis in range(n)),
        ):
            made = builder.insert_value(made, value, where)
        return made

    return array.array(array), code
