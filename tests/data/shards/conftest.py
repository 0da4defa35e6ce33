"""Tests of shards do not wait for the disk: what they look at lies in memory until it is gone."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
