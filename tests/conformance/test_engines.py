"""What every engine owes: the updates of the eager engine, for all that its plan has code for."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

from sdgar.data.interactions import Interactions
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.choose import ENGINES
from sdgar.engines.eager import EagerEngine
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.engines.fused.plan import CPU as CPU_PLAN
from sdgar.engines.fused.plan import GPU as GPU_PLAN
from sdgar.engines.fused.plan import Plan
from sdgar.engines.protocol import Coverage, Engine
from sdgar.errors import NumericalError, UsageError
from sdgar.maths.optimizers import SGD, Adam
from sdgar.objectives import PairwiseLogistic
from sdgar.samplers.score_aware import FirstViolation
from sdgar.samplers.static import Uniform

from ..engines.compositions import (
    CPU,
    DISCRIMINATORS,
    GPU,
    MET,
    METRIC,
    OBJECTIVES,
    OPTIMIZERS,
    PAIRWISE_ADAM,
    POPULAR,
    RANKS_ADAGRAD,
    SAMPLERS,
    SDGAR,
    SOFTMAX_ADAM,
    Composition,
    assert_same_bytes,
    assert_same_epochs,
    every_composition,
    some_data,
)
from ..triton_interpreter import INTERPRETED, NO_GPU


class Subject(NamedTuple):
    """An engine, where it runs, and how much of it is affordable there."""

    engine: type[Engine]
    device: torch.device
    plan: Plan | None
    epochs: int
    batch_size: int
    data: dict[str, int]


SUBJECTS = {
    "eager": Subject(EagerEngine, CPU, None, 3, 12, {}),
    "fused-cpu": Subject(FusedCpuEngine, CPU, CPU_PLAN, 3, 12, {}),
    # Triton's interpreter takes seconds for what a GPU does in microseconds.
    "fused-gpu": Subject(FusedGpuEngine, GPU, GPU_PLAN, 1, 24, {"users": 16, "items": 14}),
}
FUSED = {name: one for name, one in SUBJECTS.items() if one.plan is not None}


def cases(names, compositions, *, exhaustive: bool = False, interpreted=None):
    """(engine, composition) for all that an engine covers; only eager has no plan.

    Where ``interpreted`` is given, all but those are left to the long run in Triton's interpreter.
    """
    found = []
    for name, one in itertools.product(names, compositions):
        plan = SUBJECTS[name].plan
        if plan is not None and plan.misfit(one.probe()) is not None:
            continue
        left = name == "fused-gpu" and interpreted is not None and one not in interpreted
        marks = [pytest.mark.exhaustive] if exhaustive or left else []
        if name == "fused-gpu":
            if one.fields:
                continue
            if not INTERPRETED and not torch.cuda.is_available():
                marks.append(pytest.mark.skip(reason=NO_GPU))
            marks.append(pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"))
        found.append(pytest.param(name, one, id=f"{name}-{one}", marks=marks))
    return found


def made(name: str, one: Composition, data: Interactions, **changes) -> Engine:
    subject = SUBJECTS[name]
    system = one.system(data, **({"batch_size": subject.batch_size} | changes))
    return subject.engine(system, data, seed=5, device=subject.device)


def test_every_engine_is_tested():
    assert SUBJECTS.keys() == ENGINES.keys()
    assert all(one.engine is ENGINES[name] for name, one in SUBJECTS.items())


@pytest.mark.parametrize("name", FUSED)
def test_every_lowering_is_tested(name):
    """What is a key of a plan can be made here, and meets eager in every run of the suite."""
    plan = FUSED[name].plan
    assert plan is not None
    met = [case.values[1] for case in cases([name], MET)]
    for part, makers in (
        ("discriminator", DISCRIMINATORS),
        ("sampler", SAMPLERS),
        ("objective", OBJECTIVES),
        ("optimizer", OPTIMIZERS),
    ):
        table = plan.tables[part]
        assert table.keys() <= makers.keys()
        assert table.keys() == {getattr(one, part) for one in met}


@pytest.mark.parametrize("name", FUSED)
def test_covariances_of_a_metric_are_not_covered(name):
    assert "covariances" in str(FUSED[name].plan.misfit(METRIC.system(some_data(), l2=0.1)))


def assert_like_eager(name: str, one: Composition, per_visit: int) -> None:
    subject = SUBJECTS[name]
    data = one.data(weighted=per_visit > 1, **subject.data)
    _, last = assert_same_epochs(
        subject.engine,
        subject.device,
        one,
        data,
        epochs=subject.epochs,
        refit=per_visit == 1,
        positives_per_visit=per_visit,
        batch_size=subject.batch_size,
    )
    # The context that has every item is never answered, by any sampler.
    assert last.unanswered >= data.n_items


# Samplers are fitted again where a visit has one positive, as every visit of FirstViolation has.
ONE_A_VISIT = [SDGAR, SOFTMAX_ADAM, RANKS_ADAGRAD]
ONE_A_VISIT += [one for one in MET if one.sampler is FirstViolation]


@pytest.mark.parametrize(("name", "one"), cases(FUSED, MET, interpreted=ONE_A_VISIT))
def test_epochs_are_those_of_the_eager_engine(name, one):
    assert_like_eager(name, one, 1)


@pytest.mark.parametrize(
    ("name", "one"), cases(FUSED, MET, interpreted=[one for one in MET if one not in ONE_A_VISIT])
)
def test_epochs_with_three_positives_a_visit_are_those_of_the_eager_engine(name, one):
    assert_like_eager(name, one, 3)


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize(
    ("name", "one"),
    cases(FUSED, [one for one in every_composition() if one not in MET], exhaustive=True),
)
def test_all_compositions_are_those_of_the_eager_engine(name, one, per_visit):
    assert_like_eager(name, one, per_visit)


# On the GPU what is kept differs by optimizer and sampler alone, and the interpreter is slow.
@pytest.mark.parametrize(
    ("name", "one"),
    cases(SUBJECTS, MET, interpreted=(SOFTMAX_ADAM, RANKS_ADAGRAD)),
)
def test_training_goes_on_from_a_state_as_if_never_interrupted(name, one):
    data = one.data(users=10, items=12)

    def fresh() -> Engine:
        return made(name, one, data, batch_size=80)

    unbroken, resumed, elsewhere = fresh(), fresh(), fresh()
    unbroken.refit(1)
    unbroken.run_epoch(1)
    kept = unbroken.state()
    unbroken.run_epoch(2)  # what was kept must not move with the engine
    resumed.load_state(kept)
    resumed.run_epoch(2)
    elsewhere.run_epoch(2)  # without what was kept, another end
    end, reached = unbroken.state(), resumed.state()
    assert reached.keys() == end.keys()
    for key, tensor in end.items():
        assert torch.equal(tensor, reached[key]), key
    assert not torch.equal(elsewhere.state()["model.user_UD"], end["model.user_UD"])


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize(("name", "one"), cases(["eager", "fused-cpu"], MET))
def test_the_number_of_threads_changes_no_bit(name, one, set_threads):
    data = one.data(users=120, items=90, density=0.06)
    found = []
    for threads in (1, 2):
        set_threads(threads)
        engine = made(name, one, data, positives_per_visit=2, batch_size=150)
        stats = [engine.run_epoch(epoch) for epoch in (1, 2)]
        found.append(([(s.loss, s.unanswered, s.effective) for s in stats], engine.state()))
    assert_same_bytes(found)


# NumPy, which the interpreter computes with, warns of what a GPU passes over.
@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
# On the GPU the loss finds it, whose slopes would be no numbers either.
@pytest.mark.parametrize(
    ("name", "one"),
    cases(SUBJECTS, MET, interpreted={one.objective: one for one in reversed(MET)}.values()),
)
def test_a_parameter_that_is_not_a_number_stops_the_run(name, one):
    data = one.data(**SUBJECTS["fused-gpu"].data)
    subject = SUBJECTS[name]
    for number in (torch.nan, torch.inf):
        system = one.system(data, batch_size=subject.batch_size)
        with torch.no_grad():
            system.discriminator.item_ID[7, 2] = number
        engine = subject.engine(system, data, seed=5, device=subject.device)
        with pytest.raises(NumericalError, match="Lower the learning rate") as error:
            engine.run_epoch(1)
        assert error.value.code == "diverged"


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
@pytest.mark.parametrize("rate", [1e5, 1e30])
@pytest.mark.parametrize(("name", "one"), cases(SUBJECTS, [POPULAR]))
def test_divergence_stops_the_run_and_says_what_to_lower(name, one, rate):
    data = one.data(**SUBJECTS[name].data)
    engine = made(name, one, data, l2=1e3, optimizer=SGD(rate))

    def train():
        for epoch in range(1, 20):
            engine.run_epoch(epoch)

    with pytest.raises(NumericalError, match="Lower the learning rate") as error:
        train()
    assert error.value.code == "diverged"


class OtherDiscriminator(MatrixFactorization):
    """Scores by some other rule."""


class OtherSampler(Uniform):
    """Proposes by some other rule."""


class OtherObjective(PairwiseLogistic):
    """Minimises something else."""


@pytest.mark.parametrize(("name", "one"), cases(FUSED, [PAIRWISE_ADAM]))
def test_an_engine_says_what_it_covers_and_why_not(name, one):
    engine, device = SUBJECTS[name].engine, SUBJECTS[name].device
    system = one.probe()
    assert engine.covers(system, device).runs
    for part, other in (
        ("optimizer", Adam(0.1)),
        ("sampler", OtherSampler()),
        ("objective", OtherObjective()),
        ("discriminator", OtherDiscriminator(2, 2, 3, seed=0)),
    ):
        changed = replace(system, **{part: other})
        answer = engine.covers(changed, device)
        assert not answer.runs
        assert f"no {FUSED[name].plan.code} for the {part} {type(other).__name__}" in answer.why
        with pytest.raises(UsageError, match=f"for the {part}") as error:
            engine(changed, one.data(), seed=0, device=device)
        assert error.value.code == "not_covered"
    if name == "fused-cpu":
        answer = engine.covers(system, torch.device("cuda"))
        assert answer == Coverage(False, "it runs on the CPU, not on cuda")
