"""Whether the usage job can run here."""

import importlib.util

import pytest
from coldnotify_usage import app, extra
from coldnotify_usage.settings import UsageSettings


def test_faust_is_there_in_a_checkout() -> None:
    assert extra.is_installed()


def test_without_its_extra_it_says_which(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "faust" else found(name))
    assert app.run(UsageSettings()) == 1
    assert "pip install 'coldnotify-server[usage]'" in capfd.readouterr().err
