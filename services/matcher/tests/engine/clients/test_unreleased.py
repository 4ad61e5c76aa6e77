"""PUBLISHes of QoS 2 that clients have not released: versions that are given, and whose messages are in Kafka."""

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.unreleased import UnreleasedPublishes
from coldnotify_matcher.engine.objects.object_map import ObjectMap
from coldnotify_schemas.matcher_state import UnreleasedRecord

NOW_MS = 1_700_000_000_000


def kept(name: str = "lamp") -> RegisteredClient:
    client = RegisteredClient(f"farm/barn/{name}")
    client.keep("mqtt 5.0", 60)
    return client


def test_a_version_is_given_once_until_it_is_dropped() -> None:
    unreleased, client = UnreleasedPublishes(ObjectMap()), kept()
    key = "farm/barn/door"
    assert unreleased.version_for(key, NOW_MS) == NOW_MS
    one = UnreleasedRecord(1, 10, object="door", version=NOW_MS)
    unreleased.put(client, one)
    assert unreleased.version_for(key, NOW_MS) == NOW_MS + 1
    assert unreleased.version_for("farm/barn/gate", NOW_MS) == NOW_MS
    unreleased.put(kept("other"), UnreleasedRecord(1, 11, object="door", version=NOW_MS + 1))
    unreleased.drop(client, one)
    assert unreleased.version_for(key, NOW_MS) == NOW_MS + 2, "the other one has it still"
    assert client.filters.unreleased == {}


def test_a_message_is_marked_by_its_id_once() -> None:
    unreleased, client = UnreleasedPublishes(ObjectMap()), kept()
    unreleased.put(client, UnreleasedRecord(1, 10, id="a"))
    unreleased.put(client, UnreleasedRecord(2, 11, id="b"))
    assert unreleased.written("c") is None
    assert unreleased.written("b") is client
    assert unreleased.written("b") is None
    assert [one.written for one in client.filters.unreleased.values()] == [False, True]


def test_nothing_is_known_of_a_client_that_is_dropped() -> None:
    unreleased, client = UnreleasedPublishes(ObjectMap()), kept()
    unreleased.put(client, UnreleasedRecord(1, 10, id="a"))
    unreleased.drop_all(client)
    assert unreleased.written("a") is None
    assert not kept().filters.unreleased
