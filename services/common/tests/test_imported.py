"""Names of modules and attributes are looked up when they are needed."""

import pytest
from coldnotify_common import settings as module
from coldnotify_common.imported import imported, settings_classes
from coldnotify_common.settings import ServiceSettings, Settings

PAIR = (Settings, ServiceSettings)


def test_a_name_is_a_module_or_what_a_module_has():
    assert imported("coldnotify_common.settings") is module
    assert imported("coldnotify_common.settings:ServiceSettings") is ServiceSettings


def test_a_name_may_stand_for_several_classes(monkeypatch):
    monkeypatch.setattr(module, "PAIR", PAIR, raising=False)
    names = ["coldnotify_common.settings:ServiceSettings", "coldnotify_common.settings:PAIR"]
    assert settings_classes(names) == (ServiceSettings, *PAIR)


@pytest.mark.parametrize("name", ["coldnotify_common.settings:PREFIX", "coldnotify_common.settings:load"])
def test_what_is_not_a_class_of_settings_is_refused(name):
    with pytest.raises(TypeError, match="is not a class of settings"):
        settings_classes([name])
