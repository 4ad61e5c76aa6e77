"""What both forms of `Notify` share, without a connection."""

from typing import Any

import pytest
from coldnotify import Connection, Notify, State


def notify(**how: Any) -> Notify:
    arguments: dict[str, Any] = {"domain": "d", "group_id": "g", "client_id": "c", "state": State(None)} | how
    return Notify(**arguments)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("domain", "a/b"),
        ("group_id", ""),
        ("client_id", "x" * 65),
        ("tries_max", 0),
        ("tries_max", 1.5),
        ("retry_min_s", -1),
        ("save_interval_s", "x"),
    ],
)
def test_the_argument_that_is_wrong_is_named(argument, value):
    with pytest.raises(ValueError, match=f"^{argument}:"):
        notify(**{argument: value})


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800"])
def test_an_object_that_is_no_name_is_refused_and_changes_nothing(name):
    client = notify(connection=Connection())
    with pytest.raises(ValueError, match=r"^object:"):
        client.register(name)
    with pytest.raises(ValueError, match=r"^object:"):
        client.unregister(name)
    with pytest.raises(ValueError, match=r"^object:"):
        client.register_only(["fine", name])
    assert client._wishes.steps == {}
    assert client._wishes.only is None


def test_register_only_takes_several_names_not_one():
    with pytest.raises(ValueError, match=r"^object_ids:"):
        notify().register_only("camera-config")


def test_a_callback_that_is_not_callable_raises():
    with pytest.raises(ValueError, match=r"^callback:"):
        notify().register("a").subscribe("b")  # type: ignore[arg-type]


def test_before_connect_it_is_stopped():
    client = notify()
    assert client.status.phase == "stopped"
    assert not client.connected
    assert not client.caught_up
