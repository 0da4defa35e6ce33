from __future__ import annotations

import sys
from dataclasses import replace

from sdgar.runs.figures import (
    LEAST_EVALUATIONS,
    draw_run,
    first_pass,
    training_figure,
)
from sdgar.training.records import EpochRecord

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


def test_the_chosen_epoch_is_in_the_picture():
    log = [replace(record, best=record.epoch in (5, 20)) for record in LOG]
    above, below = training_figure(log, title="t", metric="m").axes
    assert [text.get_text() for text in above.get_legend().get_texts()] == [
        "m",
        "chosen: epoch 20, 0.2000",
    ]
    assert [line.get_xdata()[0] for line in below.get_lines()[1:]] == [20]


def test_epochs_after_the_last_look_go_on_with_all_rows():
    chosen = [("choose", EpochRecord(e, 1 / e, 0.1, metric=0.1 * e, best=e == 2)) for e in (1, 2)]
    final = [("final", EpochRecord(e, 1 / e, 0.1)) for e in (3, 4)]
    records = first_pass(chosen + final)
    assert [record.epoch for record in records] == [1, 2, 3, 4]
    above, *_ = training_figure(records, title="t", metric="m").axes
    assert above.get_legend().get_texts()[1].get_text() == "all rows from here on: 0.2000"
    restarted = [("final", EpochRecord(1, 1.0, 0.1))]
    assert [record.epoch for record in first_pass(chosen + restarted)] == [1, 2]


def test_a_run_is_drawn_if_its_looks_make_a_curve(tmp_path, monkeypatch):
    log = [("choose", EpochRecord(e, 1 / e, 0.1, metric=0.1, best=e == 1)) for e in (1, 2, 3)]
    log += [("final", EpochRecord(1, 1.0, 0.1))]
    how = {"title": "t", "metric": "ndcg@50", "rows": "validation"}
    assert len(log) - 1 == LEAST_EVALUATIONS
    assert draw_run(log[1:], tmp_path / "few.png", **how) is None
    assert draw_run(log, tmp_path / "a.png", **how) == tmp_path / "a.png"
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert draw_run(log, tmp_path / "no folder" / "a.png", **how) is None
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw_run(log, tmp_path / "b.png", **how) is None
    assert not (tmp_path / "b.png").exists()
