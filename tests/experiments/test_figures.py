from __future__ import annotations

import pytest

from sdgar.experiments.figures import draw_training, training_figure
from sdgar.training.fit import EpochRecord

LOG = [EpochRecord(e, 1 / e, 0.1, metric=e / 100 if e % 5 == 0 else None) for e in range(1, 31)]


def test_everything_that_was_logged_is_inside_the_picture():
    left, right = training_figure(LOG, title="t", metric="NDCG@50").axes
    for axes in (left, right):
        (line,) = axes.get_lines()
        for values, (low, high) in (
            (line.get_xdata(), axes.get_xlim()),
            (line.get_ydata(), axes.get_ylim()),
        ):
            assert low <= min(values) <= max(values) <= high
            assert max(values) > 0.3 * high
    assert list(left.get_lines()[0].get_ydata()) == [r.metric for r in LOG if r.metric is not None]
    assert list(right.get_lines()[0].get_ydata()) == [r.loss for r in LOG]


def test_the_picture_is_a_png(tmp_path):
    path = draw_training(LOG, tmp_path / "a.png", title="t", metric="NDCG@50")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_missing_matplotlib_is_said_with_its_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(Exception, match=r"sdgar\[plot\]"):
        training_figure(LOG, title="t", metric="NDCG@50")
