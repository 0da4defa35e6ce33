"""Whatever fits the description gets an answer, and whatever does not gets its code."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

schemathesis = pytest.importorskip("schemathesis")


@pytest.mark.parametrize("examples", [3, pytest.param(150, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_the_description_holds(live, mode, examples):
    """Every operation keeps its promises, for valid and for invalid requests."""
    from schemathesis import GenerationMode
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    checks = [CHECKS.get_one(name) for name in CHECKS.get_all_names()]
    schema = schemathesis.openapi.from_url(f"{live.url}/v1/openapi.json")
    found = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if mode == "negative" and is_always_right(operation):
            continue
        try:
            strategy = operation.as_strategy(generation_mode=GenerationMode(mode))

            @settings(
                max_examples=examples, deadline=None, derandomize=True, database=None,
                phases=[Phase.generate], suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(case=strategy)
            def holds(case: Any) -> None:
                case.call_and_validate(checks=checks)

            holds()
        except (Unsatisfiable, SkipTest):
            continue
        found += 1
    assert found >= 10


def is_always_right(operation: Any) -> bool:
    """Whether there is nothing to get wrong: any text in the path is an id.

    It would take a thousand attempts at each of them to find that out.
    """
    parts = (operation.query, operation.headers, operation.cookies, operation.body)
    ids = [one.definition["schema"] for one in operation.path_parameters]
    return not any(list(part) for part in parts) and all(one["type"] == "string" for one in ids)
