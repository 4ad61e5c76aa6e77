"""A slip in what says how fresh a client is breaks P11: in a random schedule, or in one that is scripted for it.

Stands for: fresh_clients
"""

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from coldnotify._core.session.proofs import SessionProofs
from coldnotify._core.session.session import ClientSession
from coldnotify_gateway.core import partition_view
from coldnotify_gateway.core.from_matcher import FromMatcher
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_matcher.engine.inputs.stream_requests import StreamRequests
from coldnotify_matcher.engine.rules.rules import Intervals
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_simulation import second_opinion
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.matcher import SimulatedRun
from coldnotify_simulation.matcher_readers import MatcherReaders
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.scripted import connected, gateway_of, link_of, must, until_item
from coldnotify_simulation.slips import Slip, find, run_alone
from coldnotify_simulation.world import World
from coldnotify_streams.core.seen_ends import SeenEnds

SLIPS = {
    "an age stands still while no answer comes": Slip(
        Identified,
        "ages",
        "age_said(self.as_of_s(self.objects), now_s)",
        "age_said(max(self.as_of_s(self.objects), now_s - 6), now_s)",
        10,
    ),
    "an absent age is taken for none": Slip(
        SessionProofs,
        "_prove",
        "self._delivery.prove(asked_at - (said.age_s or AGE_UNSAID_S))",
        "self._delivery.prove(asked_at - said.age_s)",
        170,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


# ---- scripted


def publish(world: World) -> None:
    (client,) = world.clients
    world.publish_next(client.key_of("o1"))


def a_pong_waits_on_its_way(world: World) -> None:
    link = link_of(world.clients[0])
    link.stall(1e9)
    world.run(11)  # it pings
    publish(world)
    world.run(9)
    must(link.one_frame(), "its Pong waits")
    world.run(1)


def a_device_sleeps(world: World) -> None:
    (client,) = world.clients
    client.stop()
    for matcher in world.matchers:
        matcher.stop()
    publish(world)
    world.run(40)
    client.go_on()
    world.run(1)


def an_answer_to_a_beat_waits_in_the_inbox(world: World) -> None:
    gateway = gateway_of(world, world.clients[0])
    gateway.inbox_held = True
    until_item(world, "beat", gateway.core.inbox)
    for matcher in world.matchers:
        matcher.stop()
    publish(world)
    world.run(7)
    gateway.inbox_held = False
    world.run(12)


def a_publish_is_held_back(world: World) -> None:
    for matcher in world.matchers:
        matcher.kill()
        matcher.rules = replace(matcher.rules, conflation=Intervals(others_ms=40_000))
        matcher.start()
    world.run(30)
    publish(world)
    publish(world)
    world.run(30)


def kafka_answers_late(world: World) -> None:
    """And a transaction is open: nobody reads what is published."""
    world.run(4)
    world.open_transaction(0, 40)
    publish(world)
    world.run(20)


def a_transaction_is_open(world: World) -> None:
    world.open_transaction(0, 40)
    publish(world)
    world.run(30)


def a_log_ends_below_what_was_read(world: World) -> None:
    for _ in range(20):
        publish(world)
    world.run(10)
    world.truncate_objects(0, 3, new_epoch=False)
    world.run(6)
    publish(world)
    world.run(20)


def a_session_is_slow(world: World) -> None:
    (client,) = world.clients
    link_of(client).stall(1e9)
    for _ in range(20):
        publish(world)
        world.run(0.2)
    must(gateway_of(world, client).core.counters.slow_phases == 1, "it is slow")
    publish(world)
    world.run(14)
    gateway_of(world, client).requests_held = True
    link_of(client).read_on()
    world.run(2)


def a_matcher_does_not_know_the_session(world: World) -> None:
    (client,) = world.clients
    for matcher in world.matchers:
        if matcher.run is not None and 0 in matcher.run.core.partitions:
            partition = matcher.run.core.partitions[0]
            assert isinstance(partition, MatcherPartition)
            state = partition.engine.state
            state.end_session(state.clients[client.key])
    publish(world)
    world.run(25)


BLIND = Slip(MatcherReaders, "_checked_log", "recreated or position > log.end", "recreated", 0)
"""Its reader does not find out."""
SLOW = "self.matcher.later(self.random.uniform(0.001, 0.3), lambda: tell(seen))"
Script = Callable[[World], None]
SCRIPTED: dict[str, tuple[Script, list[Slip], list[Slip]]] = {
    "the device anchors an age where its answer arrives": (
        a_pong_waits_on_its_way,
        [],
        [
            Slip(
                ClientSession,
                "_take",
                "asked_at = self._freshness.pong()",
                "asked_at = now if self._freshness.pong() is not None else None",
                0,
            )
        ],
    ),
    "a clock stands still while the device is suspended": (
        a_device_sleeps,
        [],
        [
            Slip(
                SimulatedClient,
                "go_on",
                "super().go_on()",
                "self.stopped and self.driver and self.driver._client._delivery.prove("
                "(self.driver.status(0).fresh_as_of or -1e9) + self.clock.now_s - self._asleep_since_s)"
                "; super(SimulatedClient, self).go_on()",
                0,
            )
        ],
    ),
    "the gateway anchors an age where its answer arrives": (
        an_answer_to_a_beat_waits_in_the_inbox,
        [],
        [
            Slip(
                FromMatcher,
                "_on_beat",
                "complete = beat.complete if",
                "view.freshness.forget(); view.freshness.sent(beat.serial, now_s); complete = beat.complete if",
                0,
            )
        ],
    ),
    "the age is that of the position, not of what is told": (
        a_publish_is_held_back,
        [],
        [Slip(StreamRequests, "_say_held", "self._conflation.held_domains()", "()", 0)],
    ),
    "the time of an end is that of its answer": (
        kafka_answers_late,
        [Slip(SimulatedRun, "_look_at_ends", SLOW, "self.matcher.later(10.0, lambda: tell(seen))", 0)],
        [
            Slip(
                SimulatedRun,
                "_look_at_ends",
                SLOW,
                "self.matcher.later(10.0, lambda: tell(EndsSeen(self.matcher.clock.now_s, seen.ends)))",
                0,
            )
        ],
    ),
    "an end is the last stable offset": (
        a_transaction_is_open,
        [],
        [Slip(SimulatedRun, "_look_at_ends", "self.kafka.log(*where).end", "self.kafka.log(*where).stable_end", 0)],
    ),
    "an end below the position counts": (
        a_log_ends_below_what_was_read,
        [BLIND],
        [BLIND, Slip(SeenEnds, "on_seen", "if end < asked.get((topic, number), 0):", "if False:", 0)],
    ),
    "a slow session is as fresh as its partition": (
        a_session_is_slow,
        [],
        [Slip(Identified, "as_of_s", "if stream.live else stream.as_of_s", "", 0)],
    ),
    "an answer that did not agree counts": (
        a_matcher_does_not_know_the_session,
        [],
        [
            Slip(StreamRequests, "on_beat", "self._state.now_s) if agreed else None", "self._state.now_s)", 0),
            Slip(
                PartitionView,
                "beat_answered",
                "if agreed:\n",
                "self.freshness.answered(serial, ages, OBJECTS_LOG)\nif agreed:\n",
                0,
            ),
        ],
    ),
}


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("name", SCRIPTED)
def test_a_scripted_slip_is_found(name: str, wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    script, surroundings, slips = SCRIPTED[name]
    monkeypatch.setattr(MatcherPartition, "wants_ends", True)  # also while it knows of no session
    monkeypatch.setattr(partition_view, "_DISAGREEMENTS_BEFORE_ANNOUNCING", 100)
    for slip in slips if wrong else surroundings:
        monkeypatch.setattr(slip.owner, slip.method, vars(slip.owner)[slip.method])
        slip.make()
    world = connected("o1")
    world.run(12)
    script(world)
    if not wrong:
        second_opinion.ask(world)
        return
    with pytest.raises(Broken, match="P11"):
        second_opinion.ask(world)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
