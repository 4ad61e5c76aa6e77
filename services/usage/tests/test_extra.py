"""Whether the usage job can run here."""

import importlib.util

import pytest
from coldnotify_usage import app, extra
from coldnotify_usage.settings import UsageSettings


def test_a_checkout_has_faust() -> None:
    assert extra.is_installed()


def test_without_faust_the_command_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "faust" else found(name))
    assert app.run(UsageSettings()) == 1
    assert "pip install 'coldnotify-server[usage]'" in capfd.readouterr().err
