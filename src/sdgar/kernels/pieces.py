"""A pipeline of Numba's compiler for functions that only kernels call.

By itself Numba optimises every function and makes machine code of it, and then optimises it again
in each caller, up to the kernel. The machine code of the functions is never used. This pipeline
leaves both to the kernel, which compiles in three fifths of the time.

Pipelines are part of Numba's public interface (``pipeline_class``), and the two methods of
``_Piece`` are not: pyproject.toml bounds Numba's version, and a test checks that they are there.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes, InlineInlinables

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
