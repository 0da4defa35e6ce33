"""A run with everything decided goes to JSON and back, and is checked before data is read."""

import json
from dataclasses import asdict, replace

import pytest
from typer.testing import CliRunner

from sdgar.cli.app import app
from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError
from sdgar.runs.job import Job, interrupted
from sdgar.runs.workspace import Workspace
from sdgar.systems.bpr import BPR
from sdgar.systems.ease import EASE
from sdgar.systems.make import estimator_from_params, estimator_from_text
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of
from sdgar.systems.solver import MostPopular


def rows() -> Interactions:
    return Interactions.from_arrays([1, 1, 2, 2, 3, 3, 4], list("abbccad"))


def job() -> Job:
    estimator = BPR(dim=4, epochs=2, early_stopping=False)
    return Job.of(estimator, seed=3, files=["/x/events.csv"])


def test_a_job_comes_back_from_the_folder_of_its_run(tmp_path):
    reported = job()
    with Workspace(tmp_path / "run", {"seed": 0}, command=asdict(reported)):
        found = interrupted(tmp_path / "run")
    assert json.dumps(asdict(found)) == json.dumps(asdict(reported))  # JSON has no tuples
    assert found.read_options().context == ("user",)
    assert recipe_of(found.estimator()).settings == reported.settings


def test_a_setting_that_the_system_does_not_have_is_not_dropped():
    with pytest.raises(UsageError, match="epoch"):
        estimator_from_params("bpr", {"epoch": 3})
    with pytest.raises(UsageError, match="sead"):
        estimator_from_text("bpr", {}, common={"sead": 3})
    assert estimator_from_text("popular", {}, common={"seed": 3}).get_params() == {}
    reported = replace(job(), settings={**job().settings, "states": 4})
    with pytest.raises(UsageError, match="states"):
        reported.estimator()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sampler", "hardest", "--objective", "sdsoftmax"), "HardestOf"),
        (("--set", "l2=-1"), "l2"),
        (("--set", "early_stopping__every=0"), "early_stopping__every"),
        (("--protocol", "papre"), "papre"),
    ],
)
@pytest.mark.parametrize("command", ["train", "tune"])
def test_wrong_parts_and_settings_are_reported_before_a_file_is_looked_for(
    command, words, said, tmp_path
):
    if command == "tune" and words[0] != "--set":
        pytest.skip("tune has no such option")
    out = ("--out", str(tmp_path / "run")) if command == "train" else ()
    done = CliRunner().invoke(app, [command, str(tmp_path / "none.csv"), *out, *words])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)
    assert "none.csv" not in str(done.exception)


def test_a_setting_too_large_for_memory_is_refused_and_not_tried(tmp_path):
    words = ["train", str(tmp_path / "none.csv"), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*words, "--system", "bpr", "--set", "dim=2147483647"])
    assert getattr(done.exception, "code", None) == "out_of_memory"


@pytest.mark.parametrize("system", [MostPopular(), EASE(l2=1.0, device="cpu")])
def test_what_is_computed_at_once_also_says_how_it_came_to_be(system):
    data = rows()
    trained = recipe_of(system.fit(data)).trained
    assert (trained.engine, trained.epochs, trained.chosen_epoch) == (
        recipe_of(system).spec.computed_by,
        0,
        None,
    )
    assert trained.log == ()
    assert recipe_of(system).loop is None
    assert "Computed in" in repr(trained)
    more = Interactions.from_arrays([5, 5], ["a", "e"])
    assert len(system.fit(data, more).recommender_.users) == 4
    assert len(system.fit(data, more, refit=True).recommender_.users) == 5


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_defaults_of_every_system_pass_the_check_before_data_is_read(name):
    recipe_of(SYSTEMS[name]()).check()
