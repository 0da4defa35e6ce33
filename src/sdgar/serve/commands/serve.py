"""``sdgar serve``: a saved model as a service, with a page."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Json
from sdgar.errors import ResourceError, UsageError
from sdgar.serve.settings import RequestLimits, ServerSettings
from sdgar.show.printed import command


def serve(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a saved model, or of models.")
    ],
    settings: Annotated[
        ServerSettings,
        (
            "watch", "rules", "host", "port", "workers", "keys", "page", "impressions", "canary",
            "drain", "log_requests",
        ),
    ],
    limits: Annotated[RequestLimits, ("per_minute", "at_once")],
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="URL", envvar="SDGAR_STORE",
            help="Store events, items, users and keys here: sqlite:///store.db or postgresql://…; "
            "SDGAR_STORE is the same.",
        ),
    ] = None,
    variant: Annotated[
        list[str] | None,
        Option(
            "Serve another model to a share of the users, such as new=runs/b:0.1; repeatable.",
            metavar="NAME=RUN:SHARE",
        ),
    ] = None,
    threads: Annotated[int, Option("The number of threads of a process.")] = 1,
    origins: Annotated[
        list[str] | None,
        Option("Allow pages from here; repeatable.", metavar="URL", flag="--allow-origin"),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        Option("Answer only to this name; repeatable.", metavar="NAME", flag="--allow-host"),
    ] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Serve recommendations, similar items, reasons, feedback and a page over HTTP.

    The page is at /, the API below /v1, its description at /v1/openapi.json, health at /livez and
    /readyz, and metrics for Prometheus at /metrics.
    """
    os.environ["OMP_NUM_THREADS"] = str(threads)  # libraries read it when they are imported
    require_extra()
    from sdgar.serve.server import serve

    settings = replace(
        settings, models=_models(run, variant or []), store=store, limits=limits,
        origins=tuple(origins or ()), hosts=tuple(hosts or ()),
    )  # fmt: skip
    screen = Screen(as_json=as_json)
    serve(settings, ready=lambda port: _report(screen, settings, port))


def require_extra() -> None:
    """Raise if the packages of the server are not installed."""
    try:
        import sdgar.serve.server
        import sdgar.serve.store  # noqa: F401
    except ImportError as error:
        raise ResourceError(
            f"the server needs a package that is not installed ({error.name}). Install it with "
            'pip install "sdgar[serve]".',
            code="missing_extra",
        ) from error


def _models(run: Path, variants: list[str]) -> dict[str, tuple[str, float]]:
    """Return the folder and the share of each variant; the first one gets the rest."""
    from sdgar.serve.swap import MAIN

    found: dict[str, tuple[str, float]] = {}
    left = 1.0
    for text in variants:
        name, _, rest = text.partition("=")
        folder, _, share_text = rest.rpartition(":")
        try:
            share = float(share_text)
        except ValueError:
            share = -1.0
        if not name or not folder or not 0 < share < 1 or name in (MAIN, *found):
            raise UsageError(
                f"--variant {text!r} is not NAME=RUN:SHARE with a new name and a share between 0 "
                "and 1, such as new=runs/b:0.1.",
                code="bad_variant",
            )
        found[name] = (folder, share)
        left -= share
    if left <= 0:
        raise UsageError(
            "the shares of all --variant must add up to less than 1.",
            code="bad_variant",
        )
    return {MAIN: (str(run), left), **found}


def _report(screen: Screen, settings: ServerSettings, port: int) -> None:
    address = f"http://{settings.host}:{port}"
    screen.say("serving", f"{address}  (stop with Ctrl-C)")
    screen.say("page", f"{address}/" if settings.page else "none")
    screen.say("api", f"{address}/v1/openapi.json")
    if settings.store is None:
        screen.say("store", "none: feedback, names and keys need --store sqlite:///store.db")
    screen.result({"address": address, "workers": settings.workers})
    sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class DemoPageOptions:
    """Options of a demo that is served."""

    serve: bool = False
    """Then serve the model, with synthetic names and pictures."""
    port: int = 8000
    """Serve on this port."""


class DemoPage:
    """Serves the model of ``sdgar demo``."""

    options: ClassVar[type] = DemoPageOptions

    def next_command(self) -> str:
        """Return the command that opens the page."""
        return command("sdgar", "demo", "--serve", "--overwrite") + "   opens a page on it"

    def after_demo(self, screen: Screen, out: Path, options: DemoPageOptions) -> None:
        """Store names and pictures of the items next to the model, and serve both."""
        if not options.serve:
            return
        store = f"sqlite:///{out.with_name(f'{out.name}-store.db')}"
        require_extra()
        from sdgar.recommend.recommender import load
        from sdgar.serve.demo_entries import fill
        from sdgar.serve.store import Database

        with Database.open(store) as database:
            filled = fill(database, load(out))
        screen.say("store", f"{store}: synthetic names and pictures of {filled:,} items")
        serve(out, ServerSettings(port=options.port), RequestLimits(), store=store)


DEMO = DemoPage()
"""The extension ``demo:serve``."""
