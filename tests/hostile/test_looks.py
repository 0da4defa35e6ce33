"""What people look at: lines of 80 columns, bars, a metric of their choice, compositions."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from rich.console import Console

from sdgar import split
from sdgar.cli.console import Screen
from sdgar.cli.reports import print_report, print_system
from sdgar.cli.training_screen import training, work
from sdgar.data.splits import Split
from sdgar.engines.choose import choose_engine
from sdgar.evaluation.measures import DEFINITIONS
from sdgar.lab.compare import compare
from sdgar.lab.conditions import Candidate, Conditions
from sdgar.lab.files import comparison_figure
from sdgar.lab.paper.measurements import Piece
from sdgar.lab.tune import searched_of, tune
from sdgar.show import progress
from sdgar.systems.bpr import BPR
from sdgar.systems.composed import Composed
from sdgar.systems.defaults import RATES
from sdgar.systems.hinges import CML, WARP
from sdgar.systems.ials import IALS
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.systems.solver import MostPopular
from sdgar.training.records import EpochRecord, FitOptions

from ..cli.test_cli import result_of, sdgar
from .cases import Case, check, table
from .test_commands import events, fitted, rows, run, setting, train

CPU = torch.device("cpu")
QUICK = {"epochs": 2, "early_stopping__every": 1, "engine": "eager", "device": "cpu", "dim": 4}
FEW = ["--set", "epochs=2", "--set", "early_stopping__every=1", "--set", "dim=4"]
FEW += ["--engine", "eager"]


CASES = [
    Case("a metric is misspelt", 2, ("'ndgc'", "Did you mean 'ndcg'"), train("--metric", "ndgc@5")),
    Case("a metric has no length", 2, ("'ndcg'", "such as ndcg@20"), train("--metric", "ndcg")),
    Case("a metric has no kind", 2, ("'@20'", "recall"), train("--metric", "@20")),
    *(Case(f"a metric is {name}", 2, (repr(name),), train("--metric", name))
      for name in ("ndcg@0", "ndcg@-1", "ndcg@2.5", "ndcg@²", "ndcg@050")),
    Case("a metric has a length without end", 2, ("'ndcg@9999", "such as ndcg@20"),
         train("--metric", "ndcg@" + "9" * 5000)),
    Case("a metric is in capitals", 2, ("'NDCG'", "ndcg"), train("--metric", "NDCG@50")),
    Case("a search has no metric of that name", 2, ("'f1'", "precision"),
         run("tune", "EVENTS", "--metric", "f1@5")),
    Case("a comparison has no metric of that name", 2, ("'auc'", "Known: ", "ndcg"),
         run("compare", "EVENTS", "--metric", "auc")),
    Case("most popular is given a metric to stop by", 2, ("--metric", "popular", "Leave it out"),
         train("--system", "popular", "--metric", "recall@5")),
    Case("the paper's protocol is given a metric", 2, ("--metric", "ndcg@50", "Leave it out"),
         train("--protocol", "paper", "--metric", "recall@5")),
    Case("a metric is given as a setting", 2, ("use --metric",),
         setting("early_stopping__metric=recall@5")),
    Case("an estimator has a metric of another name", 2, ("'auc'",),
         fitted(early_stopping__metric="auc@5")),
    Case("an estimator has a number as metric", 2, ("metric", "5"),
         fitted(early_stopping__metric=5)),
    Case("a network is to run on the compiled loop", 2, ("Adapter", 'engine="auto"'),
         train("--discriminator", "lightgcn", "--engine", "fused-cpu", "--device", "cpu")),
    Case("a composition has no such optimiser", 2, ("'adamw'", "adagrad"),
         setting("optimizer=adamw", "--sampler", "uniform")),
    Case("a composition has a rate that is no number", 2, ("learning_rate", "'fast'"),
         setting("learning_rate=fast", "--sampler", "uniform")),
]  # fmt: skip


@table(CASES)
def test_a_mistake_is_reported_with_its_cure(case, tmp_path):
    check(case, tmp_path)
    assert not (tmp_path / "run").exists()


def screen_of(width: int = 80, *, terminal: bool = False) -> tuple[Screen, io.StringIO]:
    out, screen = io.StringIO(), Screen()
    screen.console = Console(
        file=out, width=width, force_terminal=terminal, highlight=False, soft_wrap=True
    )
    return screen, out


def test_long_lines_break_between_words_under_their_label_and_long_words_stay_whole():
    screen, out = screen_of()
    path = "/a/" + "x" * 90
    screen.say("note", f"{'some words ' * 12}{path} end")
    first, *rest = out.getvalue().splitlines()
    assert first.startswith("note    some words")
    assert all(line.startswith(" " * 8) and line[8] != " " for line in rest)
    assert f"        {path}" in rest
    assert all(len(line) <= 80 for line in (first, *rest) if path not in line)
    assert " ".join(f"{first[8:]} {' '.join(rest)}".split()).endswith(f"some words {path} end")


def test_a_command_stays_on_one_line_to_be_copied():
    screen, out = screen_of()
    screen.say("next", "sdgar train " + "--set a=1 " * 20)
    assert len(out.getvalue().splitlines()) == 1


def looks(n: int, best: int) -> list[EpochRecord]:
    return [
        EpochRecord(e, 4.5839, 123.4, 1.0, 1.2, metric=0.2682, best=e <= best, effective=20.0,
                    health_line="Q 9/12,000 · KL 0.50")
        for e in range(5, 5 * n + 1, 5)
    ]  # fmt: skip


@pytest.mark.parametrize("metric", ["ndcg@50", "precision@1000"])
def test_an_epoch_is_one_line_of_80_columns_and_verbose_adds_to_it(metric):
    shown = {}
    for verbose in (False, True):
        screen, out = screen_of()
        with training(screen, FitOptions(metric=metric), verbose=verbose) as on_epoch:
            for record in looks(4, best=5):
                on_epoch("choose", record)
            on_epoch("final", EpochRecord(1, 4.5839, 123.4))
        shown[verbose] = out.getvalue()
        assert metric in shown[verbose].splitlines()[0]
    lines = shown[False].splitlines()
    assert len(lines) == 6  # the head, four looks, and what comes next
    assert all(len(line) <= 80 for line in lines)
    assert "the best epoch is 5; training as long on all training rows" in lines[-1]
    assert "ess" not in shown[False]
    assert "ess 20.00 · Q 9/12,000 · KL 0.50" in shown[True]


def test_the_report_fits_into_80_columns_with_any_number_of_lists(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    learned, held_out = split(rows(), "paper")
    report = MostPopular().fit(learned).evaluate(held_out, ks=(1, 2, 3, 4, 1000))
    print_report(Screen(), report, report, "sdgar-printed", metric="recall@2")
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "sdgar-printed: recall@2" in said
    assert said.count("precision ") == 2  # two tables, of three lengths and of two
    assert "popular @1000" in said
    assert DEFINITIONS["ndcg"][:30] not in said


def test_a_line_about_the_system_has_what_is_not_default_and_what_a_rule_decides():
    screen, out = screen_of()
    print_system(screen, Composed(sampler="uniform"), rows())
    print_system(screen, SDSoftmax(), rows())
    said = " ".join(out.getvalue().split())
    assert said.startswith("system composed · sampler=uniform rule optimizer=adagrad")
    assert "learning_rate=0.15" in said
    by_rule = (
        "rule epochs=12 batch_size=2048 sampler__positives_per_visit=2 "
        "item_memory__neighbours=50 tau=0.5 by the number of training rows; --set overrides it"
    )
    assert said.endswith(f"system sdsoftmax · defaults {by_rule}")


@pytest.mark.parametrize("terminal", [False, True])
def test_without_a_terminal_a_plain_line_says_how_far_the_work_is(monkeypatch, terminal):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    screen, out = screen_of(terminal=terminal)
    with training(screen, FitOptions(evaluate_every=5)) as on_epoch:
        on_epoch("choose", EpochRecord(1, 0.5, 0.1))
    with work(screen, 1) as watch:
        watch.begin("bpr seed 0", FitOptions(evaluate_every=5))("choose", EpochRecord(2, 0.5, 0.1))
        watch.end("run", "over")
    assert ("training: epoch 1 of at most 200, loss 0.5000\n" in out.getvalue()) == (not terminal)
    assert ("bpr seed 0: epoch 2 of at most 200, loss 0.5000\n" in out.getvalue()) == (not terminal)


@pytest.mark.parametrize("words", [(), ("tune",), ("data",), ("data", "stats")])
def test_commands_on_every_level_take_h(words):
    done = sdgar(*words, "-h")
    assert done.returncode == 0
    assert f"Usage: {' '.join(('sdgar', *words))} " in done.stdout


def test_the_shell_can_complete(monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    assert "_SDGAR_COMPLETE=complete_bash" in sdgar("--show-completion").stdout
    monkeypatch.setenv("_SDGAR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "sdgar tr")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert sdgar().stdout == "train\n"


def test_training_is_stopped_by_the_metric_that_is_named(tmp_path):
    train_rows, valid = rows(), rows()
    with pytest.warns(UserWarning, match="training rows"):
        model = BPR(**QUICK, early_stopping__metric="recall@3").fit(train_rows, valid)
    assert model.recommender_.about["hyper_parameters"]["early_stopping__metric"] == "recall@3"
    words = ("--system", "bpr", *FEW, "--metric", "recall@3", "--json")
    done = sdgar("train", events(tmp_path), "--out", tmp_path / "run", *words)
    reported = result_of(done)
    assert "recall@3" in done.stderr.splitlines()[4]
    assert f"bpr: recall@3 {reported['test']['recall@3']:.4f}" in done.stderr
    assert reported["definitions"] == DEFINITIONS


def test_the_default_metric_gives_the_same_model_named_or_not():
    one, other = (
        BPR(**QUICK, **more).fit(rows()) for more in ({}, {"early_stopping__metric": "ndcg@50"})
    )
    assert np.array_equal(one.recommender_.factors.user_UD, other.recommender_.factors.user_UD)


def test_a_search_looks_for_the_metric_that_is_named():
    found = tune(BPR(**QUICK), rows(), trials=2, metric="hit@2")
    assert found.as_dict()["metric"] == "hit@2"
    for tried in found.trials:
        assert tried.value * 8 == pytest.approx(round(tried.value * 8))  # hits of up to 8 users
    assert tune(IALS(dim=2, device="cpu"), rows(), trials=1, metric="mrr@2").metric == "mrr@2"


def test_a_comparison_is_sorted_by_the_metric_that_is_named_and_one_seed_settles_nothing(tmp_path):
    words = ("--systems", "popular,bpr", "--seeds", "1", "--metric", "recall@3", *FEW)
    done = sdgar("compare", events(tmp_path), *words, "--json", "--split", "paper")
    reported = result_of(done)
    assert reported["metric"] == "recall@3"
    values = [row["recall@3"] for row in reported["systems"]]
    assert values == sorted(values, reverse=True)
    assert "With one seed p is about these runs only" in done.stderr
    assert "p of these runs" in done.stderr
    next_line = next(line for line in done.stderr.splitlines() if line.startswith("next"))
    assert ("--metric recall@3" in next_line) == (reported["systems"][0]["system"] == "bpr")


def test_the_picture_of_a_comparison_has_paired_differences_with_intervals():
    train_rows, test = rows(), rows()
    with pytest.warns(UserWarning, match="training rows"):
        found = compare(
            [Candidate(MostPopular()), Candidate(IALS(dim=2, device="cpu"))],
            Conditions(folds=(Split(train_rows, test, "given"),), ks=(3,), seeds=(0,)),
        )
    values, differences = comparison_figure(found).axes
    paired = found.standings[1].versus
    line, point, zero = differences.get_lines()
    assert list(line.get_xdata()) == [paired.low, paired.high]
    assert list(point.get_xdata()) == [paired.difference]
    assert zero.get_xdata()[0] == 0
    assert len(values.get_lines()) == 6
    assert found.against in differences.get_xlabel()


@pytest.mark.parametrize(
    ("parts", "twin"),
    [
        ({}, SDSoftmax),
        ({"discriminator": "factorization", "sampler": "uniform", "objective": "bpr"}, BPR),
        ({"discriminator": "factorization", "objective": "sdgar"}, SDGAR),
        ({"discriminator": "factorization", "sampler": "first-violation", "objective": "warp"},
         WARP),
        ({"discriminator": "metric", "sampler": "uniform", "objective": "cml"}, CML),
    ],
)  # fmt: skip
def test_a_composition_of_the_parts_of_a_named_system_is_that_system(parts, twin):
    how = {"epochs": 3, "early_stopping": False, "engine": "eager", "device": "cpu"}
    composed, named = Composed(**parts, **how).fit(rows()), twin(**how).fit(rows())
    for name in ("user_UD", "item_ID", "bias_I"):
        own, theirs = (getattr(m.recommender_.factors, name) for m in (composed, named))
        assert np.array_equal(own, theirs)
    assert composed.recommender_.about["decided"]["optimizer"] == "adagrad"


def test_networks_keep_adam_and_what_is_given_stays():
    decided = recipe_of(Composed(discriminator="lightgcn")).decided(rows())
    assert (decided["optimizer"], decided["learning_rate"], decided["l2"]) == ("adam", 0.003, 0.0)
    assert recipe_of(Composed(optimizer="adam")).optimizer == ("adam", 0.003)
    assert recipe_of(Composed(learning_rate=0.2)).optimizer == ("adagrad", 0.2)
    assert "dim" not in recipe_of(Composed(dim=8)).decided(rows())
    assert searched_of(Composed(), ())["learning_rate"] == RATES["adagrad"]
    network = Composed(discriminator="lightgcn")
    assert searched_of(network, ())["learning_rate"] == RATES["adam"]


def test_the_reason_why_a_fast_engine_was_not_used_is_reported():
    system = recipe_of(Composed(discriminator="lightgcn", dim=4)).compose(rows(), seed=0)
    engine, why = choose_engine("auto", system, CPU)
    assert engine.name == "eager"
    assert "fused-cpu cannot: it has no code for the discriminator Adapter" in why


def test_pieces_of_the_paper_are_named_in_words():
    key = {"data": "citeulike", "real": False, "system": "bpr", "seed": 0, "protocol": "validated",
           "settings": {}, "label": "bpr"}  # fmt: skip
    piece = Piece(key=key, measure=lambda _: {})
    assert piece.label == "data citeulike, system bpr, seed 0, protocol validated, synthetic rows"
    timed = {"system": "sdgar", "users": 1250, "device": "cpu", "like": "amazon"}
    said = Piece(key=timed, measure=lambda _: {}).label
    assert said == "system sdgar, users 1250, device cpu, like amazon"


def test_a_model_that_is_behind_most_popular_is_reported(capsys):
    learned, held_out = split(rows(), "paper")
    good = IALS(dim=2).fit(learned).evaluate(held_out, ks=(2,))
    bad = MostPopular().fit(learned).evaluate(held_out, ks=(2,))
    if good.means()["ndcg@2"] < bad.means()["ndcg@2"]:
        good, bad = bad, good
    assert good.means()["ndcg@2"] > bad.means()["ndcg@2"]
    for ours, popular, is_shown in ((bad, good, True), (good, bad, False), (good, good, False)):
        print_report(Screen(), ours, popular, "mine")
        assert ("most popular is ahead here" in capsys.readouterr().out) == is_shown
