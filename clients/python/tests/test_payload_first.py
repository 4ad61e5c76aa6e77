"""payload_first: calls with a version in front of the payload, and calls without."""

import inspect
import json
from typing import Any

import pytest
from coldnotify import Connection, Notify, State
from coldnotify._payload_first import payload_first
from coldnotify.http_publisher import HttpPublisher
from coldnotify.publisher import Publisher
from coldnotify.testing import FakeService

WAIT_S = 60


@payload_first
def publish(name: str, payload: object = None, *, version: int | None = None, deleted: bool = False) -> Any:
    return name, version, payload, deleted


any_order: Any = publish
"""`publish` for what its types refuse."""


@pytest.mark.parametrize(
    ("given", "keywords", "said"),
    [
        ((), {}, (None, None)),
        (({"x": 1},), {}, (None, {"x": 1})),
        ((True,), {}, (None, True)),
        ((None,), {}, (None, None)),
        ((), {"version": 7, "payload": 5}, (7, 5)),
        ((5,), {"version": 7}, (7, 5)),
        ((5,), {"version": None}, (None, 5)),
    ],
)
def test_the_payload_comes_first(given: Any, keywords: Any, said: Any) -> None:
    assert publish("o", *given, **keywords, deleted=True) == ("o", *said, True)


@pytest.mark.parametrize(
    ("given", "keywords", "said"),
    [
        ((7,), {}, (7, None)),
        ((7, {"x": 1}), {}, (7, {"x": 1})),
        ((None, 5), {}, (None, 5)),
        ((7,), {"payload": 5}, (7, 5)),
        ((None,), {"payload": 5}, (None, 5)),
    ],
)
def test_a_version_before_it_is_still_accepted_with_a_warning(given: Any, keywords: Any, said: Any) -> None:
    with pytest.warns(DeprecationWarning, match="^publish: version is a keyword: ") as warned:
        assert any_order("o", *given, **keywords, deleted=True) == ("o", *said, True)
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("given", "keywords"), [(({"x": 1}, 7), {}), ((7, 5, 3), {}), ((7, 5), {"payload": 3}), ((7, 5), {"version": 3})]
)
def test_other_orders_are_type_errors(given: Any, keywords: Any) -> None:
    with pytest.raises(TypeError):
        any_order("o", *given, **keywords)


@pytest.mark.parametrize(
    "publish",
    [Publisher.publish, Publisher.publish_async, HttpPublisher.publish, Notify.publish, FakeService.publish],
)
def test_all_publishers_have_the_same_order(publish: Any) -> None:
    found = [one for one in inspect.signature(publish).parameters.values() if one.name in ("payload", "version")]
    assert [one.name for one in found] == ["payload", "version"]
    assert found[1].kind is inspect.Parameter.KEYWORD_ONLY


def test_both_orders_publish_the_same_on_a_session() -> None:
    with FakeService() as service:
        notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port))
        try:
            assert notify.connect(WAIT_S)
            any_order: Any = notify.publish
            with pytest.warns(DeprecationWarning, match="^publish: version is") as warned:
                any_order("o", 7, {"x": 1}).wait(WAIT_S)
            notify.publish("p", {"x": 1}, version=7).wait(WAIT_S)
        finally:
            notify.disconnect()
        with service.lock:
            objects = service.service.partition("d", "g").objects
            said = [(objects[name].version, json.loads(objects[name].payload)) for name in ("o", "p")]
    assert said == [(7, {"x": 1})] * 2
    assert warned[0].filename == __file__
