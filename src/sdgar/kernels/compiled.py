"""How Numba compiles the kernels of the CPU, and keeps them in a cache folder between runs.

Divisions do not check for zero, which would keep loops from becoming vectors. NaN and infinity
keep their meaning everywhere; ``SUMS`` allows only that additions change their order.

Named tuples among the arguments of a kernel are laid out as records: see ``records``.

What differs between systems has a class for each kind, and a ``variant`` for each class: only the
kinds that a system has are compiled for it.

By itself Numba optimises every function and makes machine code of it, and then optimises it again
in each caller, up to the kernel. The machine code of the functions is never used. ``InPieces``
leaves both to the kernel, which compiles in three fifths of the time.

Pipelines are part of Numba's public interface (``pipeline_class``), and the two methods of
``_Piece`` are not: pyproject.toml bounds Numba's version, and a test checks that they are there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numba
from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes, InlineInlinables
from numba.extending import overload

from sdgar.kernels import record_access as record_access  # registers how kernels read records
from sdgar.kernels.cache import not_kept, safe_folder
from sdgar.kernels.records import with_records

_NOT_NEEDED = (InlineClosureLikes, InlineInlinables, InlineOverloads, NopythonRewrites)
"""Passes for functions within functions, and for equations between whole arrays."""


class _Piece(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function and of all that it calls, not optimised and not executable."""

    def _optimize_final_module(self) -> None:
        """Leave the optimisation to the kernel."""

    def _finalize_final_module(self) -> None:
        """Leave the machine code to the kernel."""
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPiece(NativeLowering):  # type: ignore[misc]
    """Lower a function to a ``_Piece``, and register it for the functions that call it."""

    _name = "lower_piece"

    def run_pass(self, state: Any) -> bool:
        """Lower the function without machine code."""
        context, name = state.targetctx, state.func_id.func_qualname
        state.library = _Piece(context.codegen(), name)
        state.flags.no_compile = True
        super().run_pass(state)
        made = state.cr
        # Numba requires a Python object for each function; this one has no machine code.
        stub = _dynfunc.make_function(
            made.fndesc.lookup_module(), name, "", 0, made.env, (state.library,)
        )
        context.insert_user_function(stub, made.fndesc, [state.library])
        state.cr = made._replace(cfunc=stub)
        return True


class InPieces(CompilerBase):  # type: ignore[misc]
    """The passes of Numba's compiler, with ``_LowerPiece`` as the last one."""

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes, all in one pipeline."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_LowerPiece if one is NativeLowering else one, why)
            for one, why in passes.passes
            if one not in _NOT_NEEDED
        ]
        passes.finalize()
        return [passes]


SUMS = frozenset({"reassoc", "contract", "nsz"})
_KERNEL: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
# Only kernels call these, so nothing unpacks Python objects for them: with large tuples as
# arguments that would be a quarter of all that is compiled.
_CALLED: dict[str, Any] = {**_KERNEL, "no_cpython_wrapper": True}
_INNER: dict[str, Any] = {**_CALLED, "pipeline_class": InPieces}
# These are optimised alone, so that a sum has one order in whatever kernel it is used.
_SUMMING: dict[str, Any] = {**_CALLED, "fastmath": set(SUMS)}


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that other kernels call."""
    return numba.njit(**_INNER)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function that other kernels call so often that each call would cost time."""
    return numba.njit(**_INNER, forceinline=True)(function)


def often(generic: Callable[..., Any]) -> Any:
    """Mark a generic function as called so often that its variants are inlined."""
    generic.often = True  # type: ignore[attr-defined]
    return generic


def summing(function: Callable[..., Any]) -> Any:
    """Compile a function that other kernels call for a sum whose terms may be reordered."""
    return numba.njit(**_SUMMING)(function)


def variant(generic: Callable[..., Any], *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile the variant of ``generic`` for first arguments of some kinds.

    Kinds are named tuples, or what an array is made of. As with ``functools.singledispatch``, but
    chosen by the compiler.
    """
    options = {**_INNER, "forceinline": getattr(generic, "often", False)}
    getattr(generic, "kinds", set()).update(kinds)

    def register(function: Callable[..., Any]) -> Any:
        @overload(generic, jit_options=options, strict=False)
        def choose(*args: Any) -> Any:
            return function if _kind_of(args[0]) in kinds else None

        return function

    return register


def by_default(generic: Callable[..., Any]) -> Any:
    """Compile the body of a generic function for all kinds that have no ``variant`` of it."""
    generic.kinds = kinds = set[Any]()  # type: ignore[attr-defined]

    @overload(generic, jit_options=_INNER, strict=False)
    def choose(*args: Any) -> Any:
        return None if _kind_of(args[0]) in kinds else generic

    return generic


def _kind_of(argument: Any) -> Any:
    """Return the class of a named tuple, or what an array is made of."""
    return getattr(argument, "instance_class", getattr(argument, "dtype", None))


class Kernel:
    """A kernel as Python calls it: named tuples among its arguments become records."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        """The function as compiled by Numba."""
        update_wrapper(self, kernel)

    def __call__(self, *args: Any) -> Any:
        """Lay out the records, and run the kernel."""
        return self.kernel(*with_records(args))

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the kernel, also for a kernel that calls it."""
        return getattr(self.kernel, name)

    def __reduce__(self) -> Any:
        """Return the kernel to pickle: Numba names cached code by what a kernel refers to."""
        return Kernel, (self.kernel,)


def outer(function: Callable[..., Any]) -> Kernel:
    """Compile a kernel that Python calls, once for a machine."""
    return Kernel(kept(nogil=True, **_KERNEL)(function))


def kept(*signature: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile by ``numba.njit``, and keep the compiled code in the cache folder."""

    def compile_kept(function: Callable[..., Any]) -> Any:
        if folder := safe_folder():
            before = numba.config.CACHE_DIR
            try:
                # Numba reads its setting here and never again, so other packages keep theirs.
                numba.config.CACHE_DIR = folder
                return numba.njit(list(signature) or None, cache=True, **options)(function)
            except (OSError, RuntimeError):  # the latter is Numba's, when no place is left
                not_kept(f"{folder} cannot be written to")
            finally:
                numba.config.CACHE_DIR = before
        return numba.njit(list(signature) or None, **options)(function)

    return compile_kept
