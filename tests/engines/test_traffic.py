"""What processes send in a step is counted as the documentation says."""

from sdgar.scale import traffic


def test_factors_of_visits_go_to_every_other_machine():
    assert traffic.to_all(10, 4, 7, 3) == 2 * 10 * (4 * 4 + 8 * 7 + 16)
    assert traffic.to_all(10, 4, 7, 1) == 0


def test_each_thing_that_another_worker_owns_adds_its_bytes():
    nothing = dict.fromkeys(("draws", "rows", "visits", "entries"), 0)
    of = {"dim": 8, "states": 4, "workers": 3}
    lengths = traffic.to_owners(**nothing, **of)
    assert lengths == 4 * 8 * 2
    assert traffic.to_owners(**nothing, **of | {"states": 0}) == 2 * 8 * 2
    each = {name: traffic.to_owners(**nothing | {name: 1}, **of) - lengths for name in nothing}
    assert each == {"draws": 12 + 4, "rows": 4 + 4 * (8 + 1 + 4), "visits": 4 * 10, "entries": 12}
