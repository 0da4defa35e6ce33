"""What people see: labelled lines, tables, a progress bar; or one JSON object for machines."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from sdgar.errors import SdgarWarning
from sdgar.printed import visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from sdgar.data.readers import Loaded
    from sdgar.evaluation.report import Report
    from sdgar.experiments.watch import Watch
    from sdgar.training.fit import EpochRecord
    from sdgar.training.protocols import OnPhase, Phase


_WIDE = 1 << 20
"""Columns of a table that nothing is cut from; a narrow terminal breaks its lines."""


def _console(*, stderr: bool, width: int | None = None) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=width is None, width=width)


@contextmanager
def warnings_on(screen: Screen) -> Iterator[None]:
    """Show warnings of this package as lines, each sentence once."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, SdgarWarning):
            before(message, category, *where, **more)
        elif str(message) not in said:
            said.add(str(message))
            screen.warn(str(message))

    with warnings.catch_warnings():
        before = warnings.showwarning
        warnings.simplefilter("always", SdgarWarning)
        warnings.showwarning = show
        yield


class Screen:
    """Lines for people on stdout; with ``--json`` on stderr, and the object alone on stdout.

    Whatever the text, people see it as it is: escapes stand for what has no shape, nothing is
    markup, and nothing is cut to the width of a screen.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = _console(stderr=as_json)

    def line(self, text: str, style: str = "none") -> None:
        """A line as it is."""
        from rich.text import Text

        self.console.print(Text(visible(text), style=style))

    def say(self, label: str, text: str, style: str = "") -> None:
        """One labelled line."""
        from rich.text import Text

        line = Text(f"{label:<8}", style="bold cyan")
        self.console.print(line.append(visible(text), style=style or "none"))

    def warn(self, text: str) -> None:
        """A line that should not be missed."""
        self.say("warning", text, style="yellow")

    def failed(self, text: str, *, code: str, exit_code: int, asked_for: bool = False) -> None:
        """Why a command ends without its result: on stderr, and as an object if JSON is wanted."""
        from rich.text import Text

        said = Text(visible_lines(text), style="yellow" if asked_for else "red")
        _console(stderr=True).print(said)
        message = text.removeprefix("error: ")
        self.result({"error": {"code": code, "message": message, "exit_code": exit_code}})

    def result(self, value: dict[str, Any]) -> None:
        """The JSON object, if it was asked for."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A plain table; all columns but the first are numbers."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, name in enumerate(columns):
            justify: Literal["right", "left"] = "right" if i else "left"
            table.add_column(Text(visible(name)), justify=justify, no_wrap=True)
        for row in rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        _console(stderr=self.as_json, width=_WIDE).print(table)

    def loaded(self, label: str, loaded: Loaded, name: str) -> None:
        """What was read: sizes, columns, the account of the rows."""
        stats = loaded.interactions.stats()
        self.say(
            label,
            f"{name}: {stats['users']:,} users · {stats['items']:,} items · "
            f"{stats['interactions']:,} interactions · {stats['density']:.3%} filled",
        )
        self.say("columns", loaded.columns.sentence())
        self.say("rows", loaded.interactions.rows.sentence())
        for note in loaded.notes:
            self.say("note", note)

    def report(self, test: Report, popular: Report, name: str) -> None:
        """All metrics, the main one with its interval beside the yardstick, and what they mean."""
        from sdgar.evaluation.metrics import DEFINITIONS

        means, beside = test.means(), popular.means()
        kinds = list(dict.fromkeys(metric.partition("@")[0] for metric in means))
        ks = list(dict.fromkeys(metric.partition("@")[2] for metric in means))
        self.table(
            (name, *(f"@{k}" for k in ks), *(f"popular @{k}" for k in ks)),
            [
                (kind, *(f"{values[f'{kind}@{k}']:.4f}" for values in (means, beside) for k in ks))
                for kind in kinds
            ],
        )
        main = f"ndcg@{ks[-1]}"
        low, high = test.intervals()[main]
        self.say(
            "test",
            f"{main} {means[main]:.4f}, 95 % interval over users [{low:.4f}, {high:.4f}], "
            f"most popular {beside[main]:.4f}",
            style="bold",
        )
        left = test.counts
        if left.unknown_users:
            self.say(
                "note",
                f"{left.unknown_user_rows:,} test rows of {left.unknown_users:,} users that "
                "training never saw are left out: there is no history to rank from",
            )
        if left.unseen_contexts:
            how = "ranked by the sum of their fields"
            if left.unranked_contexts:
                how = "count as missed, as this model knows no fields"
            self.say(
                "note",
                f"{left.unseen_contexts:,} contexts are new combinations of known values: {how}",
            )
        if left.cold_items:
            self.say(
                "note",
                f"{left.cold_items:,} test items that training never saw count as missed "
                f"({left.cold_item_rows:,} rows)",
            )
        self.say("lists", test.definition)
        for kind in kinds:
            self.say("", f"{kind}: {DEFINITIONS[kind]}", style="dim")

    @contextmanager
    def training(self, epochs: int) -> Iterator[OnPhase]:
        """A bar for the epochs, and a line for every look at the held-out rows."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("epochs · loss {task.fields[loss]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self.line(
            f"{'epoch':>8}{'loss':>10}{'NDCG@50':>10}{'':8}{'train':>9}{'evaluate':>10}",
            style="bold",
        )
        with progress:
            yield _Epochs(self, progress.add_task, progress.update, epochs)

    @contextmanager
    def work(self, pieces: int) -> Iterator[Watch]:
        """A bar for many trials or runs, one for the epochs of each, and a line when it is over."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        ) as progress:
            yield _Pieces(self, progress, pieces)

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar for pieces of work that is told how many more are done."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        ) as progress:
            task = progress.add_task(what, total=total)
            yield lambda more: progress.advance(task, more)

    @contextmanager
    def bytes_bar(self, name: str) -> Iterator[Callable[[int, int | None], None]]:
        """A bar for a download."""
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TransferSpeedColumn,
        )

        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=self.console,
            transient=True,
        ) as progress:
            task = progress.add_task(name, total=None)

            def update(done: int, total: int | None) -> None:
                progress.update(task, completed=done, total=total)

            yield update


class _Pieces:
    """One piece of work after the other; a ``Watch``."""

    def __init__(self, screen: Screen, progress: Progress, pieces: int) -> None:
        self._screen = screen
        self._progress = progress
        self._all = progress.add_task("all", total=pieces)
        self._one: TaskID | None = None

    def begin(self, what: str, epochs: int) -> OnPhase:
        """A bar of its own."""
        one = self._one = self._progress.add_task(what, total=epochs)

        def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
            again = f"{what}, on all rows" if phase == "final" else what
            self._progress.update(one, completed=epoch.epoch, description=again)

        return on_epoch

    def end(self, label: str, said: str) -> None:
        """A line instead of the bar."""
        if self._one is not None:
            self._progress.remove_task(self._one)
            self._one = None
        self._progress.advance(self._all)
        self._screen.say(label, said)


class _Epochs:
    """Called after each epoch; seconds are summed between two lines."""

    def __init__(
        self, screen: Screen, add: Callable[..., Any], update: Callable[..., Any], epochs: int
    ) -> None:
        self._screen = screen
        self._add = add
        self._update = update
        self._epochs = epochs
        self._tasks: dict[str, Any] = {}
        self._train = 0.0
        self._best = 0
        self._complaints: set[str] = set()

    def __call__(self, phase: Phase, epoch: EpochRecord) -> None:
        if phase not in self._tasks:
            final = phase == "final" and "choose" in self._tasks
            total = self._best if final else self._epochs
            what = "training on all rows" if final else "training"
            if final:
                self._screen.line(f"{'':8}best epoch {self._best}; training on all rows as long")
            self._tasks[phase] = self._add(what, total=total, loss="")
        self._update(self._tasks[phase], completed=epoch.epoch, loss=f"{epoch.loss:.4f}")
        self._train += epoch.train_seconds + epoch.refit_seconds
        kind = (epoch.complaint or "").partition(":")[0]
        if kind and kind not in self._complaints:
            # Once a run: the line of every look shows the same numbers.
            self._complaints.add(kind)
            self._screen.warn(str(epoch.complaint))
        if epoch.metric is None:
            return
        self._best = epoch.epoch if epoch.best else self._best
        mark = "best" if epoch.best else ""
        self._screen.line(
            f"{epoch.epoch:>8}{epoch.loss:>10.4f}{epoch.metric:>10.4f}{mark:>8}"
            f"{self._train:>7.1f} s{epoch.evaluate_seconds:>8.1f} s{_generator(epoch)}"
        )
        self._train = 0.0


def _generator(epoch: EpochRecord) -> str:
    """The health of what proposes negatives, behind the line of an epoch."""
    said = "" if epoch.effective is None else f"   ess {epoch.effective:.2f}"
    h = epoch.health
    if "perplexity" in h:
        said += f" · Q {h['perplexity']:,.0f}/{h['items']:,.0f}"
    if "reward" in h:
        said += f" · reward {h['reward']:.2f}"
    if "x_perplexity" in h:
        said += f" · X {h['x_perplexity']:.1f}/{h['states']:.0f}"
        said += f" · Y {h['y_perplexity']:,.0f}/{h['items']:,.0f}"
    if "kl" in h:
        said += f" · KL {h['kl']:.2f}"
    if "recall" in h:
        said += f" · finds {h['recall']:.0%} of the {h['near']:.0f} best"
    return said
