"""The engine, the export and the endpoint of docs/bring-your-own.md work as written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sdgar
from sdgar.engines.choose import ENGINES
from sdgar.exports.export import WRITERS
from sdgar.systems.recipe import recipe_of

PAGE = Path(__file__).parents[1] / "docs" / "bring-your-own.md"


def run_block(name: str) -> None:
    (code,) = re.findall(rf"```python\n(# {name}\n.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(code, name, "exec"), {"__name__": name})


@pytest.fixture
def data() -> sdgar.Interactions:
    return sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])


def test_an_engine_is_used_by_its_name(data):
    run_block("my_engine.py")
    try:
        settings = {"engine": "counting", "epochs": 2, "early_stopping": False}
        model = sdgar.BPR(**settings).fit(data, verbose=False)
        assert recipe_of(model).trained.engine == "counting"
        assert ENGINES["counting"].epochs == 2
    finally:
        del ENGINES["counting"]


def test_an_export_is_written_by_its_name(data, tmp_path):
    run_block("my_export.py")
    try:
        sdgar.export(sdgar.MostPopular().fit(data, verbose=False), "item-ids", tmp_path / "out")
    finally:
        del WRITERS["item-ids"]
    assert json.loads((tmp_path / "out" / "items.json").read_text()) == ["a", "b", "c"]


def test_an_endpoint_is_answered_and_described(data, tmp_path):
    pytest.importorskip("fastapi", reason="the server needs an extra")
    from sdgar.serve.routes.common import ROUTERS
    from sdgar.serve.settings import ServerSettings

    from .serve.conftest import Client

    sdgar.MostPopular().fit(data, verbose=False).save(tmp_path / "run")
    run_block("my_endpoint.py")
    try:
        client = Client(ServerSettings(models={"main": (str(tmp_path / "run"), 1.0)}))
        assert client.get("/v1/sizes") == {"users": 3, "items": 3}
        assert "/v1/sizes" in client.get("/v1/openapi.json")["paths"]
        client.close()
    finally:
        del ROUTERS["sizes"]
