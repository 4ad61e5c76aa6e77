"""The world keeps its history true: what a record means is what it says there."""

from functools import partial

import msgspec
import pytest
from coldnotify._core.interests.since import OLDEST
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.matcher_state import RegistrationsRecord
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation import second_opinion
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.scripted import connected, link_of
from coldnotify_simulation.world import CLAIMS, DOMAIN, GROUPS, World

TOPICS = TopicNames()


def test_the_history_contains_what_a_record_means_in_another_epoch() -> None:
    """A null of the epoch before removes nothing in the new one: what came behind it is of the old incarnation."""
    world = World(1)
    key = f"{DOMAIN}/{GROUPS[0]}/o"
    world.publish(key, 0, incarnation=1)
    removed = f"1/0@{world.promises.epoch:08x}/0".encode()
    world.write_null(0, key.encode(), ((REMOVES_HEADER, removed),))
    world.publish(key, 5)
    world.truncate_objects(0, 3, new_epoch=True)
    said = [(one["version"], one["incarnation"]) for one in world.trace.history if one["event"] == "publish"]
    assert said == [(0, 1), (5, 0), (5, 1)]


def test_a_world_with_an_unserved_partition_is_not_at_rest() -> None:
    """Compaction comes hours after a nonsensical record: by then who serves the partition has repaired what it hides,
    though nobody is online there, and the partition waits for another look at a record of a later release."""
    world = World(1, clients=1)
    world.start()
    world.start_client(world.clients[0])
    world.run(5.0)
    world.write_newer_state(1)
    world.run(1.0)
    key = f"{DOMAIN}/{GROUPS[1]}/o"
    world.describe(key, {"Room": 1})
    world.kafka.append(TOPICS.objects, 1, world.clock.now_ms, f"{KEY_PREFIX}{key}".encode(), b"nonsense")
    world.calm()
    world.settle([world.clients[0]])
    assert b'{"Room":1}' in b"".join(entry.value or b"" for entry in world.kafka.log(TOPICS.objects, 1).entries)


def test_a_version_told_to_a_failed_callback_is_not_a_floor_after_a_removal() -> None:
    """The client asks for it again when it starts, and is told what there is by then."""
    world = World(1, clients=1, late_s=0.001)
    world.start()
    client = world.clients[0]
    client.wish, client.failing = {"o"}, 1.0
    key = client.key_of("o")
    world.publish(key, 2)
    world.start_client(client)
    world.clock.run_until(lambda: world.promises.told(client, "o") == (0, 2))
    world.shut_down(client)
    world.write_null(0, key.encode(), ((REMOVES_HEADER, b"0/2"),))
    world.publish(key, 1)
    world.start_client(client)
    client.mend()
    world.settle([client])
    second_opinion.ask(world)


def test_a_client_registers_channels_from_where_it_is_once_two_topics_are_lost() -> None:
    """Without the sessions nobody knows that its registrations refer to the lost requests: they are not believed."""
    world = connected("o", channels=True)
    (client,) = world.clients
    world.send(client.key_of("x"), b"{}", [])
    world.register_channel(client, "x", (), OLDEST)
    for _ in range(20):  # the record of its registrations names a late request
        world.register_channel(client, "y", (), OLDEST)
        world.run(1.0)
        world.unregister_channel(client, "y")
        world.run(1.0)
    world.send(client.key_of("x"), b"{}", [])
    world.run(5.0)
    world.lose_topic(TOPICS.requests)
    world.run(15.0)
    world.lose_topic(TOPICS.sessions)
    world.settle([client])
    assert world.wrong_at_rest([client]) == []


def test_a_client_on_a_dead_connection_is_not_connected_at_the_end() -> None:
    """It has not noticed by then: it is caught up, and hears nothing."""
    world = connected("a")
    (client,) = world.clients
    cut = partial(link_of(client).cut, "died", client_notices_s=float("inf"), gateway_notices_s=float("inf"))
    world.clock.later(20.0, cut)
    world.settle([client])
    assert link_of(client).is_cut
    assert [one["connected"] for one in world.trace.history if one["event"] == "end"] == [[]]


def test_a_null_under_a_record_below_the_last_claim_forgets_nobody() -> None:
    """A matcher that was taken for dead has written the record: the owner ignores it, and overwrites it."""
    world = World(1)
    world.forgets_nobody = True
    key = f"{DOMAIN}/{GROUPS[0]}/c/0".encode()

    def write(generation: int) -> None:
        record = msgspec.json.encode(RegistrationsRecord(1, generation, 0, ["o"]))
        world.kafka.append(TOPICS.registrations, 0, world.clock.now_ms, key, record)

    world.kafka.append(TOPICS.sessions, 0, world.clock.now_ms, CLAIMS, b'{"generation":2}')
    write(1)
    world.kafka.append(TOPICS.registrations, 0, world.clock.now_ms, key, None)
    write(2)
    write(1)
    with pytest.raises(Broken, match="P5"):
        world.kafka.append(TOPICS.registrations, 0, world.clock.now_ms, key, None)
