"""What people see: labelled lines, tables, a progress bar; or one JSON object for machines."""

from __future__ import annotations

import itertools
import json
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from sdgar.errors import SdgarWarning
from sdgar.show.printed import visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import Loaded
    from sdgar.evaluation.report import Counts, Report
    from sdgar.experiments.watch import Watch
    from sdgar.systems.base import Estimator
    from sdgar.training.fit import EpochRecord, FitOptions
    from sdgar.training.protocols import OnPhase, Phase


_WIDE = 1 << 20
"""Columns of a table that nothing is cut from; a narrow terminal breaks its lines."""
_LABEL = 8
"""Columns of a label, under which the further lines of its text begin."""
_COMMAND = "next"
"""The label of a command, which is copied as it is: its line is never broken."""
_LISTS_BESIDE = 3
"""Lengths of lists that a table of 80 columns has room for."""
_EVERY = 5.0
"""Seconds between two lines about work that goes on, where no bar can be drawn."""


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
    markup, and nothing is cut to the width of a screen. Long lines are broken between words.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = _console(stderr=as_json)

    def line(self, text: str, style: str = "none") -> None:
        """A line as it is."""
        from rich.text import Text

        self.console.print(Text(visible(text), style=style))

    def lines(self, text: str, *, further: int = 0) -> None:
        """A text as lines that fit the screen; those after the first begin further in."""
        for number, line in enumerate(_broken(text[further:], self.console.width - further)):
            self.line((text[:further] if number == 0 else " " * further) + line)

    def say(self, label: str, text: str, style: str = "") -> None:
        """A label and a text, whose further lines stand under its first."""
        from rich.text import Text

        head, shown = f"{label:<{_LABEL - 1}} ", visible(text)
        if label != _COMMAND:
            width = max(self.console.width - len(head), 2 * _LABEL)
            lines = _broken(shown, width) or [""]
            shown = f"\n{'':{_LABEL}}".join(lines)
        self.console.print(Text(head, style="bold cyan").append(shown, style=style or "none"))

    def warn(self, text: str) -> None:
        """A line that should not be missed."""
        self.say("warning", text, style="yellow")

    def failed(self, text: str, *, code: str, exit_code: int, asked_for: bool = False) -> None:
        """Why a command ends without its result: on stderr, and as an object if JSON is wanted."""
        from rich.text import Text

        console = _console(stderr=True)
        shown = visible_lines(text)
        if console.is_terminal:  # elsewhere a line is a line, for those who search it
            lines = (_broken(line, console.width) or [""] for line in shown.split("\n"))
            shown = "\n".join(itertools.chain.from_iterable(lines))
        console.print(Text(shown, style="yellow" if asked_for else "red"))
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
        self.say("rows", loaded.interactions.account.sentence())
        if loaded.weighting:
            self.say("weights", loaded.weighting)
        if loaded.seen:
            self.say("seen", loaded.seen)
        for note in loaded.notes:
            self.say("note", note)

    def system(self, estimator: Estimator, data: Interactions) -> None:
        """What is trained: settings that differ from the defaults, and those a rule decides."""
        defaults = type(estimator)().get_params()
        chosen = {k: v for k, v in estimator.get_params().items() if v != defaults[k]}
        words = [f"{name}={value}" for name, value in chosen.items()]
        self.say("system", f"{estimator.system_name} · {' '.join(words) or 'defaults'}")
        by_rule: dict[str, list[str]] = {}
        for name, value in estimator.decided(data).items():
            by_rule.setdefault(estimator.rules[name], []).append(f"{name}={value}")
        for rule, decided in by_rule.items():
            self.say("rule", f"{' '.join(decided)} by {rule}; --set overrides it")

    def report(
        self,
        test: Report,
        popular: Report,
        name: str,
        *,
        metric: str | None = None,
        explain: bool = False,
    ) -> None:
        """All metrics, the main one with its interval beside the yardstick, and what they mean."""
        means, beside = test.means(), popular.means()
        kinds = list(dict.fromkeys(each.partition("@")[0] for each in means))
        all_ks = list(dict.fromkeys(each.partition("@")[2] for each in means))
        for first in range(0, len(all_ks), _LISTS_BESIDE):
            ks = all_ks[first : first + _LISTS_BESIDE]
            self.table(
                ("metric", *(f"@{k}" for k in ks), *(f"popular @{k}" for k in ks)),
                [
                    (kind, *(f"{all_[f'{kind}@{k}']:.4f}" for all_ in (means, beside) for k in ks))
                    for kind in kinds
                ],
            )
        main = metric or f"ndcg@{all_ks[-1]}"
        low, high = test.intervals()[main]
        self.say(
            "test",
            f"{name}: {main} {means[main]:.4f}, 95 % interval over users [{low:.4f}, {high:.4f}], "
            f"most popular {beside[main]:.4f}",
            style="bold",
        )
        if means[main] < beside[main]:
            self.say("note", "most popular is ahead here: sdgar compare shows which system is best")
        self.left_out(test.counts)
        self.measured(test.definition, explain=explain)

    def measured(self, definition: str, *, explain: bool) -> None:
        """How lists were made, and what each metric means if that is wanted."""
        from sdgar.evaluation.metrics import DEFINITIONS

        more = "" if explain else " --explain-metrics says what each metric means."
        self.say("lists", definition + more)
        for kind, said in DEFINITIONS.items() if explain else ():
            self.say("metric", f"{kind}@k: {said}")

    def left_out(self, left: Counts) -> None:
        """The held-out rows that could not be ranked for, or count as missed."""
        if left.unknown_users:
            self.say(
                "note",
                f"{left.unknown_user_rows:,} test rows of {left.unknown_users:,} users that "
                f"training never saw are left out, of {left.unknown_user_rows + left.rows:,} rows: "
                "there is no history to rank from. --split paper and leave-last-out hold out rows "
                "of known users only; users:0.1 measures new users, folded in from part of theirs",
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

    @contextmanager
    def training(self, loop: FitOptions | None, *, verbose: bool = False) -> Iterator[OnPhase]:
        """A bar for the epochs, and a line for every look at the held-out rows.

        Without a loop there are no epochs, only a sign that something is computed.
        """
        if loop is None:
            with self._bar() as bar:
                bar.add_task("computing", total=None, unit="")
                yield lambda phase, epoch: None
            return
        self.line(_heading(loop.metric), style="bold")
        with self._bar() as bar:
            yield _Epochs(self, bar, loop, verbose=verbose)

    @contextmanager
    def work(self, pieces: int) -> Iterator[Watch]:
        """A bar for many trials or runs, one for the epochs of each, and a line when it is over."""
        with self._bar() as bar:
            yield _Pieces(self, bar, pieces)

    def _bar(self) -> Progress:
        """What moves while work goes on; on a terminal only."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

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
            disable=not self.console.is_terminal,
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
            disable=not self.console.is_terminal,
        ) as progress:
            task = progress.add_task(name, total=None)

            def update(done: int, total: int | None) -> None:
                progress.update(task, completed=done, total=total)

            yield update


class _End:
    """Where a run will likely end: if no later look is better than the best one so far."""

    def __init__(self, loop: FitOptions) -> None:
        self._loop = loop
        self.best = 0
        self._stale = 0

    def after(self, epoch: EpochRecord) -> int:
        """The epoch that is likely the last one."""
        loop = self._loop
        if epoch.metric is not None:
            self.best = epoch.epoch if epoch.best else self.best
            self._stale = 0 if epoch.best else self._stale + 1
        if not loop.early_stopping:
            return loop.epochs
        likely = (self.best or loop.evaluate_every) + loop.patience * loop.evaluate_every
        return min(loop.epochs, max(likely, epoch.epoch))

    def reached(self, epoch: EpochRecord) -> bool:
        """Whether the number of epochs is chosen, after which all rows are trained on."""
        over = self._stale >= self._loop.patience or epoch.epoch >= self._loop.epochs
        return over and self._loop.early_stopping


class _Lines:
    """A plain line every few seconds, where no bar can be drawn."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last = time.monotonic()

    def go_on(self, text: str) -> None:
        """Say how far the work is, unless something was said just before."""
        if not self._screen.console.is_terminal and time.monotonic() - self._last >= _EVERY:
            self._screen.say("", text)
            self.said()

    def said(self) -> None:
        """Something was said."""
        self._last = time.monotonic()


class _Pieces:
    """One piece of work after the other; a ``Watch``."""

    def __init__(self, screen: Screen, bar: Progress, pieces: int) -> None:
        self._screen = screen
        self._bar = bar
        self._all = bar.add_task("all", total=pieces, unit="pieces")
        self._one: TaskID | None = None
        self._lines = _Lines(screen)

    def begin(self, what: str, loop: FitOptions) -> OnPhase:
        """A bar of its own."""
        one = self._one = self._bar.add_task(f"{what}, starting", total=None, unit="")
        end = _End(loop)

        def on_epoch(phase: Phase, epoch: EpochRecord) -> None:
            again = phase != "choose" and end.best > 0
            said = f"{what}, on all training rows" if again else what
            last = end.best if again else end.after(epoch)
            self._bar.update(
                one, completed=epoch.epoch, total=last, description=said, unit="epochs"
            )
            self._lines.go_on(f"{said}: {_how_far(epoch, last, certain=again)}")

        return on_epoch

    def end(self, label: str, said: str) -> None:
        """A line instead of the bar."""
        if self._one is not None:
            self._bar.remove_task(self._one)
            self._one = None
        self._bar.advance(self._all)
        self._screen.say(label, said)
        self._lines.said()


_PASSES = {
    "choose": "training",
    "final": "training on all training rows",
    "all": "training on all rows",
}


class _Epochs:
    """Called after each epoch; seconds are summed between two lines."""

    def __init__(self, screen: Screen, bar: Progress, loop: FitOptions, *, verbose: bool) -> None:
        self._screen = screen
        self._bar = bar
        self._loop = loop
        self._verbose = verbose
        self._task = bar.add_task("starting", total=None, unit="")
        self._end = _End(loop)
        self._again = False
        self._measured = False
        self._lines = _Lines(screen)
        self._train = 0.0
        self._complaints: set[str] = set()

    def __call__(self, phase: Phase, epoch: EpochRecord) -> None:
        if phase == "all" and not self._measured:
            self._measured = True
            self._screen.say("", "measured; training as long on all rows, to be saved")
        last = self._end.best if self._again else self._end.after(epoch)
        what = _PASSES[phase] if self._again else "training"
        self._bar.update(
            self._task,
            completed=epoch.epoch,
            total=last,
            description=what,
            unit=f"epochs · loss {epoch.loss:.4f}",
        )
        self._train += epoch.train_seconds + epoch.refit_seconds
        kind = (epoch.complaint or "").partition(":")[0]
        if kind and kind not in self._complaints:
            # Once a run: the line of every look shows the same numbers.
            self._complaints.add(kind)
            self._screen.warn(str(epoch.complaint))
        if epoch.metric is None:
            self._lines.go_on(f"{what}: {_how_far(epoch, last, certain=self._again)}")
            return
        mark = "best" if epoch.best else ""
        health = _generator(epoch) if self._verbose else ""
        self._screen.line(
            f"{epoch.epoch:>8}{epoch.loss:>10.4f}{epoch.metric:>{_wide(self._loop.metric)}.4f}"
            f"{mark:>8}{self._train:>7.1f} s{epoch.evaluate_seconds:>8.1f} s{health}"
        )
        self._train = 0.0
        if self._end.reached(epoch):
            self._again = True
            said = "training as long on all training rows"
            self._bar.update(self._task, total=None, description=said, unit="")
            self._screen.say("", f"the best epoch is {self._end.best}; {said}")
        self._lines.said()


def _heading(metric: str) -> str:
    """The heads of the columns of an epoch."""
    return f"{'epoch':>8}{'loss':>10}{metric:>{_wide(metric)}}{'':8}{'train':>9}{'evaluate':>10}"


def _wide(metric: str) -> int:
    return max(10, len(metric) + 2)


def _how_far(epoch: EpochRecord, last: int, *, certain: bool) -> str:
    about = "" if certain else "about "
    return f"epoch {epoch.epoch} of {about}{last} · loss {epoch.loss:.4f}"


def _broken(text: str, width: int) -> list[str]:
    """Lines of at most that width, broken between words; a longer word is a line of its own."""
    return textwrap.wrap(
        text, width, break_long_words=False, break_on_hyphens=False, expand_tabs=False
    )


def _generator(epoch: EpochRecord) -> str:
    """The health of what proposes negatives, behind the line of an epoch."""
    said = "" if epoch.effective is None else f"   ess {epoch.effective:.2f}"
    return said + (f" · {epoch.health_line}" if epoch.health_line else "")
