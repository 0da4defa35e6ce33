from __future__ import annotations

from dataclasses import replace

import pytest

from sdgar.experiments.figures import draw_training, training_figure
from sdgar.training.fit import EpochRecord

LOG = [EpochRecord(e, 1 / e, 0.1, metric=e / 100 if e % 5 == 0 else None) for e in range(1, 31)]


def test_everything_that_was_logged_is_inside_the_picture():
    above, below = training_figure(LOG, title="t", metric="NDCG@50").axes
    for axes in (above, below):
        (line,) = axes.get_lines()
        for values, (low, high) in (
            (line.get_xdata(), axes.get_xlim()),
            (line.get_ydata(), axes.get_ylim()),
        ):
            assert low <= min(values) <= max(values) <= high
            assert max(values) - min(values) > 0.6 * (high - low)
    assert list(above.get_lines()[0].get_ydata()) == [r.metric for r in LOG if r.metric is not None]
    assert list(below.get_lines()[0].get_ydata()) == [r.loss for r in LOG]


def test_the_chosen_epoch_and_most_popular_are_in_the_picture():
    log = [replace(record, best=record.epoch in (5, 20)) for record in LOG]
    above, strip, below = training_figure(log, title="t", metric="m", popular=0.015).axes
    assert [text.get_text() for text in above.get_legend().get_texts()] == [
        "m",
        "chosen: epoch 20, 0.2000",
    ]
    assert [line.get_xdata()[0] for line in below.get_lines()[1:]] == [20]
    assert strip.get_lines()[0].get_ydata()[0] == 0.015


def test_the_picture_is_a_png(tmp_path):
    path = draw_training(LOG, tmp_path / "a.png", title="t", metric="NDCG@50")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_missing_matplotlib_is_said_with_its_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(Exception, match=r"sdgar\[plot\]"):
        training_figure(LOG, title="t", metric="NDCG@50")
