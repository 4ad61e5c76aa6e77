"""What both forms of `Notify` share, without a connection."""

from random import Random
from typing import Any

import pytest
from coldnotify import Connection, Notify, State
from coldnotify._core.client import Client
from coldnotify._core.document import Document
from coldnotify._core.reconnect import Address
from coldnotify._core.registrations import Kind
from coldnotify._core.session import Identity
from coldnotify._core.settings import Settings
from coldnotify._shell import _Asked


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
    assert client._asked.steps == {}
    assert client._asked.only is None


def test_register_only_takes_several_names_not_one():
    with pytest.raises(ValueError, match=r"^object_ids:"):
        notify().register_only("camera-config")


def test_what_cannot_be_called_cannot_subscribe():
    with pytest.raises(ValueError, match=r"^callback:"):
        notify().register("a").subscribe("b")  # type: ignore[arg-type]


def test_before_connect_it_is_stopped():
    client = notify()
    assert client.status.phase == "stopped"
    assert not client.connected
    assert not client.caught_up


def test_what_was_asked_for_before_the_start_is_applied_to_the_document():
    document = Document(identity=Identity("d", "g", "c"), wanted=frozenset("abc"), applied={"a": (0, 1), "b": (0, 1)})
    asked = _Asked()
    asked.unregister("a")
    asked.register("a")
    asked.register("b")
    asked.unregister("c")
    asked.register("new")
    client = Client(document, [Address("h", 1)], Settings(), Random(0), 0.0)
    asked.apply(client)
    after = client._document()
    assert after.wanted == set("ab") | {"new"}
    assert after.pending == {"a": Kind.REGISTER, "c": Kind.UNREGISTER, "new": Kind.REGISTER}
    assert after.applied == {"b": (0, 1)}, "a is to be told again, b is not"


def test_register_only_before_the_start_forgets_what_was_asked_before():
    asked = _Asked()
    asked.register("x")
    asked.register("a")
    asked.unregister("b")
    asked.register_only({"a", "b"})
    asked.register("later")
    client = Client(
        Document(identity=Identity("d", "g", "c"), wanted=frozenset("bz")),
        [Address("h", 1)],
        Settings(),
        Random(0),
        0.0,
    )
    asked.apply(client)
    assert client._document().wanted == {"a", "b", "later"}
