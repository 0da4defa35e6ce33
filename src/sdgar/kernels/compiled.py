"""How kernels are compiled by Numba, and how compiled code is kept between runs.

Kernels allocate nothing and hold no references (no NRT), so that the counting of references does
not cost atomic operations in inner loops. Divisions do not look for zero, which would keep loops
from becoming vectors. NaN and infinity keep their meaning everywhere; ``SUMS`` allows only that
additions change their order.

Named tuples among the arguments of a kernel are laid out as records: see ``records``.

What differs from system to system has a class of its own for each kind, and a ``variant`` for each
class: only the kinds that a system has are compiled for it.

Processes that need the same kernel at once leave it to one of them to compile: ``compiling``.

Compiled code lies in the user's own cache folder: ``folder``; what came with the package is put
there when it is first needed: ``portable``. It is executed, so a file that others may write to is
not used. Every file ends with the SHA-256 of what is before it; one that is damaged
counts as absent, and is made anew.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import IO, Any

import numba
from llvmlite.binding import Linkage
from numba import _dynfunc
from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserProvidedCacheLocator,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes, InlineInlinables
from numba.extending import overload

from sdgar.kernels import portable
from sdgar.kernels.compiling import compile_in_turn, turn
from sdgar.kernels.folder import is_open_to_others, not_kept, portable_file, safe_folder
from sdgar.kernels.records import laid

SUMS = frozenset({"reassoc", "contract", "nsz"})
KEPT: list[_Kept] = []
"""The compiled code of every kernel of this process that is kept."""
_DIGEST_BYTES = hashlib.sha256().digest_size
_NO_REFERENCES: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
# Only kernels call these, so nothing unpacks Python objects for them: with large tuples as
# arguments that would be a quarter of all that is compiled.
_CALLED: dict[str, Any] = {**_NO_REFERENCES, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _Piece(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function alone, which is not made executable."""

    def finalize(self) -> None:
        """Leave all else to the kernel which this becomes a piece of."""
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return the code with that of all functions that it calls, and which they call."""
        if self._shared_module is None:
            whole = self._final_module.clone()
            for library in _called_by(self):
                alone = library._final_module if isinstance(library, _Piece) else None
                whole.link_in(alone or library._get_module_for_linking(), preserve=True)
            for function in whole.functions:
                if not function.is_declaration and function.linkage == Linkage.external:
                    function.linkage = Linkage.linkonce_odr  # others may have the same ones
            self._shared_module: Any = whole
        return self._shared_module


def _called_by(piece: _Piece) -> list[Any]:
    """Return the code of each function that a piece calls, or that one of these pieces calls."""
    found: dict[Any, None] = {}
    left = [piece]
    while left:
        for library in left.pop()._linking_libraries:
            if library not in found and library is not piece:
                found[library] = None
                if isinstance(library, _Piece):
                    left.append(library)
    return list(found)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPiece(NativeLowering):  # type: ignore[misc]
    """Make a ``_Piece`` of a function, and tell Numba where those that call it find it."""

    _name = "lower_piece"

    def run_pass(self, state: Any) -> bool:
        context, name = state.targetctx, state.func_id.func_qualname
        state.library = _Piece(context.codegen(), name)
        state.flags.no_compile = True
        super().run_pass(state)
        made = state.cr
        nowhere = _dynfunc.make_function(
            made.fndesc.lookup_module(), name, "", 0, made.env, (state.library,)
        )
        context.insert_user_function(nowhere, made.fndesc, [state.library])
        state.cr = made._replace(cfunc=nowhere)
        return True


_NOT_NEEDED = (InlineClosureLikes, InlineInlinables, InlineOverloads, NopythonRewrites)
"""What Numba does about functions within functions, and about equations between whole arrays."""


class _InPieces(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for what only kernels call.

    By itself Numba optimises every function and makes it executable, and then optimises it again
    in each of those that call it, up to the kernel. That takes more than a third of the time.
    """

    def define_pipelines(self) -> list[PassManager]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_LowerPiece if one is NativeLowering else one, why)
            for one, why in passes.passes
            if one not in _NOT_NEEDED
        ]
        passes.finalize()
        return [passes]


_INNER: dict[str, Any] = {**_CALLED, "pipeline_class": _InPieces}
# These are optimised alone, so that a sum has one order whatever kernel it becomes a part of.
_SUMMING: dict[str, Any] = {**_CALLED, "fastmath": set(SUMS)}


def inner(function: Callable[..., Any]) -> Any:
    """Compile what other kernels call."""
    return numba.njit(**_INNER)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile what other kernels call so often that a call would be felt."""
    return numba.njit(**_INNER, forceinline=True)(function)


def often(generic: Callable[..., Any]) -> Any:
    """Say that a function is called so often that a call of its variants would be felt."""
    generic.often = True  # type: ignore[attr-defined]
    return generic


def summing(function: Callable[..., Any]) -> Any:
    """Compile what other kernels call for a sum that may be taken in any order."""
    return numba.njit(**_SUMMING)(function)


def variant(generic: Callable[..., Any], *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile what kernels that call ``generic`` get where its first argument is of a kind.

    Kinds are named tuples, or what an array is made of. As with ``functools.singledispatch``, but
    chosen by the compiler.
    """
    options = {**_INNER, "forceinline": getattr(generic, "often", False)}

    def register(function: Callable[..., Any]) -> Any:
        @overload(generic, jit_options=options, strict=False)
        def choose(*args: Any) -> Any:
            kind = getattr(args[0], "instance_class", getattr(args[0], "dtype", None))
            return function if kind in kinds else None

        return function

    return register


class Called:
    """A kernel as Python calls it: named tuples among its arguments become records."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        """What Numba has made of a function."""
        update_wrapper(self, kernel)

    def __call__(self, *args: Any) -> Any:
        """Lay out the records, and run the kernel."""
        return self.kernel(*laid(args))

    def __getattr__(self, name: str) -> Any:
        """Be that kernel in all else, also for a kernel that calls it."""
        return getattr(self.kernel, name)

    def __reduce__(self) -> Any:
        """Let Numba tell by what a kernel calls whether it has compiled it before."""
        return Called, (self.kernel,)


def outer(function: Callable[..., Any]) -> Called:
    """Compile what is called from Python, once for a machine."""
    return Called(kept(nogil=True, no_cfunc_wrapper=True, **_NO_REFERENCES)(function))


def kept(*signature: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile by ``numba.njit``, and keep compiled code in the user's cache folder."""

    def compile_kept(function: Callable[..., Any]) -> Any:
        kernel = numba.njit(**options)(function)
        if not isinstance(kernel, Dispatcher):  # the user has turned compiling off
            return kernel
        if folder := safe_folder():
            try:
                kernel._cache = _Kept(function, folder)  # type: ignore[attr-defined]
                KEPT.append(kernel._cache)  # type: ignore[attr-defined]
            except (OSError, RuntimeError):  # the latter is Numba's, when no place is left
                not_kept(f"{folder} cannot be written to")
        compile_in_turn(kernel)
        for one in signature:
            kernel.compile(one)
        if signature:
            kernel.disable_compile()
        return kernel

    return compile_kept


class _KeptFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's files, each with the SHA-256 of its content at the end, which unpacking ignores."""

    def save(self, key: Any, data: Any) -> None:
        """Add a kernel to the list; two processes at once would give two kernels one file."""
        with turn(Path(self._cache_path)):
            super().save(key, data)

    def _load_index(self) -> Any:
        return super()._load_index() if _is_whole(Path(self._index_path)) else {}

    def _load_data(self, name: str) -> Any:
        path = Path(self._data_path(name))
        if not _is_whole(path):
            raise FileNotFoundError(path)  # what Numba takes for a file to be made anew
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[IO[bytes]]:
        content = io.BytesIO()
        yield content
        data = content.getvalue()
        with super()._open_for_write(filepath) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data + hashlib.sha256(data).digest())


class _InFolder(CompileResultCacheImpl):  # type: ignore[misc]
    """Numba's own cache in our folder or nowhere; by itself it would look for other places."""

    _locator_classes = (UserProvidedCacheLocator,)


class _Kept(FunctionCache):  # type: ignore[misc]
    """The compiled code of one kernel. Whatever is wrong with it, the kernel is compiled anew."""

    _impl_class = _InFolder

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        before = config.CACHE_DIR
        try:
            config.CACHE_DIR = folder
            super().__init__(function)
        finally:
            config.CACHE_DIR = before
        self._cache_file = _KeptFiles(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a kernel, or none.

        Numba would first import all that it can compile, which takes longer than to load every
        kernel of a training. Code that is compiled already calls none of it, only the functions
        that count references, where a kernel has them.
        """
        try:
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                if (found := self._load_overload(sig, target_context)) is not None:
                    return found
        except Exception as error:  # unpacking what another program wrote can fail in any way
            _warn_of(self._cache_path, f"cannot be read ({_in_a_line(error)})")
            return None
        return self._brought_along(sig, target_context)

    def _brought_along(self, sig: Any, target_context: Any) -> Any:
        """Return the code of a kernel that came with the package, and keep it; or none."""
        codegen = target_context.codegen()
        key = self._index_key(sig, codegen)
        try:
            found = portable.unpack(self.name, key, codegen)
            if found is None:
                return None
            made = self._impl.rebuild(target_context, found)
        except Exception as error:  # it was damaged on its way
            _warn_of(portable_file(), f"cannot be read ({_in_a_line(error)})")
            return None
        try:
            self._impl.locator.ensure_cache_path()
            self._cache_file.save(key, found)
        except OSError as error:
            _warn_of(self._cache_path, f"cannot be written ({error.strerror or error})")
        return made

    @property
    def name(self) -> str:
        """The name of the kernel, by its module, its line and this Python."""
        return f"{self._py_func.__module__}.{self._impl.filename_base}"

    def all_kept(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield what is kept of the kernel: its name, and the key and the code for some types."""
        for key, file in self._cache_file._load_index().items():
            yield self.name, key, self._cache_file._load_data(file)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_of(self._cache_path, f"cannot be written ({error.strerror or error})")


def _is_whole(path: Path) -> bool:
    """Return whether a file of compiled code is there, is our own, and is as it was written."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or is_open_to_others(found):
                return _warn_of(path.parent, "holds files that others can write to")
            data = file.read()
    except FileNotFoundError:
        return False
    except OSError as error:
        return _warn_of(path.parent, f"cannot be read ({error.strerror})")
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        return _warn_of(path.parent, "is damaged")
    return True


def _in_a_line(error: Exception) -> str:
    """Return what an error says, or its name if it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def _warn_of(folder: str | Path, what: str) -> bool:
    """Say once that compiled code is of no use."""
    warnings.warn(
        f"compiled code in {folder} {what}, so kernels are compiled anew. Removing it "
        "loses nothing.",
        stacklevel=2,
    )
    return False
