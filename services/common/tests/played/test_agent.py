"""The agent that plays a device's part: against the gateway's core, with the matcher played."""

from collections import deque
from typing import Any

import pytest
from coldnotify_common.played.agent import Agent, PlayedDevice
from coldnotify_gateway.core import JSON, Frame, Gateway, Limits, Produce, Send, SendAll, SendUrgent, values_of
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame
from coldnotify_schemas.interests import by_name, by_query, digest_of, query_hash
from coldnotify_schemas.internal_pb2 import Inbox
from coldnotify_schemas.protocol import AGE_UNKNOWN_S, AGE_UNSAID_S
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_DESCRIPTIONS,
    CAPABILITY_NAMES,
    CAPABILITY_QUERIES,
    CAPABILITY_UNSETTLED,
    INTEREST_CHANNEL,
    KINDS_NAMES,
    KINDS_QUERIES,
    CaughtUp,
    ClientFrame,
    GatewayFrame,
    Interest,
    Notification,
    PageEnd,
    Pong,
    Refusal,
    Registered,
    Stream,
    Wait,
    Welcome,
)
from coldnotify_testkit.device_frames import EPOCH
from coldnotify_testkit.examples import examples
from coldnotify_testkit.gateway_bench import WireDouble, inbox_outputs
from coldnotify_testkit.matcher_double import MatcherDouble
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

KEY = "d/g/c"
KINDS = KINDS_NAMES | KINDS_QUERIES
NAMES = ["a", "b", "c", "d"]


def device(*registrations: str, cursor: int | None = None) -> PlayedDevice:
    return PlayedDevice("d", "g", "c", registrations, None if cursor is None else EPOCH, cursor)


def frames(data: bytes) -> list[ClientFrame]:
    return [parse_client_frame(body) for body in FrameBuffer(1 << 20).feed(data)]


def said(**frame: Any) -> list[GatewayFrame]:
    return [GatewayFrame(**frame)]


def welcomed(agent: Agent) -> Agent:
    agent.begin()
    assert agent.receive(said(welcome=Welcome(in_sync=True))) == b""
    return agent


def test_it_resumes_where_it_was_and_with_a_cursor_of_another_epoch_from_the_beginning():
    agent = Agent(device("a", cursor=41))
    (frame,) = frames(agent.begin())
    assert (frame.hello.epoch, frame.hello.cursor, frame.hello.digest) == (EPOCH, 41, digest(["a"]))
    agent.receive(said(welcome=Welcome(in_sync=True, epoch=EPOCH + 1)))
    assert (agent.epoch, agent.cursor) == (EPOCH + 1, None)
    agent.receive(said(notification=Notification(name="a", version=1, offset=7, behind=2)))
    assert agent.cursor == 5
    agent.receive(said(caught_up=CaughtUp(complete=9)))
    assert (agent.cursor, agent.caught_up) == (9, True)


def test_an_age_is_that_of_the_last_answered_question() -> None:
    agent = Agent(device("a", cursor=41))
    agent.begin()
    agent.receive(said(welcome=Welcome(in_sync=True)))
    assert (agent.unanswered, agent.age_s) == (1, None)
    agent.receive(said(caught_up=CaughtUp(complete=50)))
    assert (agent.unanswered, agent.age_s) == (0, AGE_UNSAID_S)
    agent.ping()
    assert agent.unanswered == 1
    agent.receive(said(pong=Pong(age_s=40)))
    assert (agent.unanswered, agent.age_s) == (0, 40)
    agent.receive(said(caught_up=CaughtUp(complete=51)))
    assert (agent.unanswered, agent.age_s) == (0, AGE_UNSAID_S), "a second CaughtUp answers nothing"
    agent.ping()
    agent.receive(said(pong=Pong(age_s=AGE_UNKNOWN_S)))
    assert (agent.unanswered, agent.age_s) == (0, None)


def test_with_channels_the_older_of_both_ages_counts() -> None:
    tasks = Interest(kind=INTEREST_CHANNEL, text="tasks")
    agent = Agent(PlayedDevice("d", "g", "c", ["a"], EPOCH, 41, channels={7: tasks}))
    agent.begin()
    agent.receive(said(welcome=Welcome(in_sync=True)))
    agent.receive(said(caught_up=CaughtUp(complete=50, age_s=9)))
    assert (agent.unanswered, agent.age_s) == (1, None)
    agent.receive(said(page_end=PageEnd(stream=1, last=True, age_s=20)))
    assert (agent.unanswered, agent.age_s) == (0, 20)
    agent.ping()
    agent.receive(said(pong=Pong(age_s=30, streams=[Stream(complete=3)])))
    assert agent.age_s == 30
    agent.ping()
    agent.receive(said(pong=Pong()))
    assert agent.age_s is None, "the channels are not live"


def looking_for(*texts: str) -> Agent:
    agent = Agent(PlayedDevice("d", "g", "c", ["a"], EPOCH, 41, texts))
    (frame,) = frames(agent.begin())
    assert frame.hello.capabilities == CAPABILITY_NAMES | CAPABILITY_QUERIES | CAPABILITY_UNSETTLED
    assert frame.hello.digest == digest_of([by_name("a"), *map(by_query, texts)])
    return agent


def test_queries_are_said_behind_the_names_of_the_whole_set():
    agent = looking_for(*(f"Room = {'1' * 1000}{i}" for i in range(20)))
    chunks = [frame.sync for frame in frames(agent.receive(said(welcome=Welcome(in_sync=False, kinds=KINDS))))]
    assert [(chunk.index, len(chunk.objects), len(chunk.interests), chunk.last) for chunk in chunks] == [
        (0, 1, 0, False),
        (1, 0, 16, False),
        (2, 0, 4, True),
    ]


ONE, OTHER = map(query_hash, ("Room = 1", "Room = 2"))


def in_doubt(**doubt: Any) -> tuple[Agent, list[str]]:
    """One that is registered for both, and the texts that it asks for at the CaughtUp behind the doubt."""
    agent = looking_for("Room = 1", "Room = 2")
    agent.receive(said(welcome=Welcome(in_sync=True, kinds=KINDS)))
    changed = Notification(name="b", version=2, offset=50, behind=9)
    assert agent.receive(said(notification=changed)) == b""
    (frame,) = frames(
        agent.receive((said(**doubt) if doubt else []) + said(caught_up=CaughtUp(complete=50, sets_digest=7)))
    )
    assert frame.register.request == 1
    return agent, [query.text for query in frame.register.interests]


@pytest.mark.parametrize("doubt", [{}, {"page_end": PageEnd(page=1, sets_unknown=True)}])
def test_where_not_all_differences_are_known_all_members_are_asked_for_once_it_is_caught_up(doubt):
    agent, asked = in_doubt(**doubt)
    assert asked == ["Room = 1", "Room = 2"]
    assert (agent.caught_up, agent.found) == (False, []), "b comes with the answers"
    assert agent.receive(said(page_end=PageEnd(page=2, sets_unknown=True))) == b"", "nothing more until CaughtUp"


def test_while_members_are_in_doubt_only_what_is_registered_by_name_is_told():
    agent = looking_for("Room = 1")
    agent.receive(said(welcome=Welcome(in_sync=True, kinds=KINDS)) + said(page_end=PageEnd(page=1, sets_unknown=True)))
    for name in ("a", "b"):
        agent.receive(said(notification=Notification(name=name, version=3, offset=45)))
    assert [one.name for one in agent.found if isinstance(one, Notification)] == ["a"]


def test_no_version_comes_between_the_question_for_members_and_their_answer():
    agent, _ = in_doubt(page_end=PageEnd(page=1, sets_unknown=True))
    live = Notification(name="b", version=3, offset=51)
    urgent = Notification(name="b", version=4, offset=52, answer=True)
    member = Notification(name="b", version=4, offset=52, answer=True, entered=[ONE])
    agent.receive(said(notification=live) + said(notification=urgent) + said(registered=Registered(request=1)))
    assert agent.found == []
    agent.receive(said(registered=Registered(begun=[ONE, OTHER])) + said(notification=member))
    agent.receive(said(notification=urgent))
    assert [one.version for one in agent.found if isinstance(one, Notification)] == [4, 4]


def test_members_that_were_asked_for_end_the_doubt_when_all_are_answered_or_refused():
    agent, _ = in_doubt(page_end=PageEnd(page=1, sets_unknown=True))
    agent.receive(said(registered=Registered(begun=[ONE])) + said(registered=Registered(answered=[ONE])))
    assert not agent.caught_up
    refused = Refusal(interest=OTHER, reason="query: too many")
    agent.receive(said(registered=Registered(refused=[refused])) + said(caught_up=CaughtUp(complete=52)))
    assert (agent.caught_up, agent.cursor, agent.refused) == (True, 52, {"Room = 2": "query: too many"})
    assert [list(found.begun or found.answered) for found in agent.found if isinstance(found, Registered)] == [
        [ONE],
        [ONE],
    ]


def test_that_the_service_cannot_tell_yet_is_known_until_it_is_caught_up():
    agent = looking_for("Room = 1")
    agent.receive(said(welcome=Welcome(in_sync=True, kinds=KINDS)))
    agent.receive(said(wait=Wait(seconds=30)) + said(registered=Registered(begun=[ONE])))
    assert (agent.waits, agent.caught_up) == (True, False)
    agent.receive(said(registered=Registered(answered=[ONE])) + said(caught_up=CaughtUp(complete=52)))
    assert (agent.waits, agent.caught_up) == (False, True)


def test_an_answer_that_was_lost_is_asked_for_again_and_not_for_ever():
    agent, _ = in_doubt(page_end=PageEnd(page=1, sets_unknown=True))
    caught_up = said(caught_up=CaughtUp(complete=52))
    assert agent.receive(caught_up) == b"", "it may have left before the request came"
    lost = said(registered=Registered(request=1)) + said(registered=Registered(answered=[ONE])) + caught_up
    (frame,) = frames(agent.receive(lost))
    assert [query.text for query in frame.register.interests] == ["Room = 1", "Room = 2"]
    for number in (2, 3):
        assert not agent.stuck
        agent.receive(said(registered=Registered(request=number)) + caught_up)
    assert (agent.stuck, agent.caught_up) == (True, False)


def test_a_query_that_is_refused_is_in_no_doubt():
    agent = looking_for("Room = 1")
    refused = Refusal(interest=ONE, reason="query: it has too many members")
    agent.receive(said(welcome=Welcome(in_sync=True, kinds=KINDS, refused=[refused])))
    assert agent.receive(said(caught_up=CaughtUp(complete=52, sets_digest=7))) == b""
    assert agent.caught_up


@pytest.mark.parametrize(("descriptions", "asked"), [(True, CAPABILITY_DESCRIPTIONS), (False, 0)])
def test_descriptions_are_asked_for_by_who_has_a_query(descriptions, asked):
    agent = Agent(PlayedDevice("d", "g", "c", queries=["Room = 1"], descriptions=descriptions))
    always = CAPABILITY_NAMES | CAPABILITY_UNSETTLED
    assert frames(agent.begin())[0].hello.capabilities == always | CAPABILITY_QUERIES | asked
    by_name_only = Agent(PlayedDevice("d", "g", "c", ["a"], descriptions=descriptions))
    assert frames(by_name_only.begin())[0].hello.capabilities == always


def test_a_service_that_knows_names_only_refuses_queries():
    agent = looking_for("Room = 1")
    agent.receive(said(welcome=Welcome(in_sync=False)))
    assert agent.refused == {"Room = 1": "query: this service is older, and knows names only"}
    agent.receive(said(welcome=Welcome(in_sync=True)) + said(caught_up=CaughtUp(complete=50)))
    assert agent.caught_up


def test_the_whole_set_is_said_in_chunks_where_the_service_has_another():
    agent = Agent(device(*(f"n{i}" for i in range(65))))
    agent.begin()
    first, last = frames(agent.receive(said(welcome=Welcome(in_sync=False))))
    assert (len(first.sync.objects), first.sync.last, last.sync.index, last.sync.last) == (64, False, 1, True)
    assert agent.was_in_sync is False


def test_what_is_refused_is_known_with_the_reason():
    agent = Agent(device("a", "b"))
    agent.begin()
    agent.receive(said(welcome=Welcome(in_sync=False)))
    agent.receive(said(welcome=Welcome(in_sync=True, refused=[Refusal(object="b", reason="no room")])))
    assert (agent.refused, agent.digest) == ({"b": "no room"}, digest(["a", "b"]))


def test_what_was_taken_is_acknowledged_and_nothing_twice():
    agent = welcomed(Agent(device("a")))
    assert agent.acknowledge() == b""
    agent.page_end = 3
    (frame,) = frames(agent.acknowledge())
    assert (frame.ack.page, agent.page_end) == (3, 0)
    assert agent.acknowledge() == b""


def test_who_does_not_come_back_is_unregistered_whatever_the_service_has():
    agent = Agent(device(*(f"n{i}" for i in range(65))))
    agent.begin()
    requests = [one.unregister for one in frames(agent.forget())]
    assert [(one.request, len(one.objects)) for one in requests] == [(1, 64), (2, 1)]
    assert Agent(device()).forget() == b""


class Connected(RuleBasedStateMachine):
    """A device that comes back at any time; what it says and hears is under way for as long as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.gateway = Gateway(7, 3, 1, Limits())
        self.matcher = MatcherDouble(page_objects=2)
        self.requests: deque[Produce] = deque()
        self.records: deque[Inbox] = deque()
        self.taken: dict[str, int] = {}
        self.versions = 0
        self.lost = False
        self.come(device("a"))

    def come(self, who: PlayedDevice) -> None:
        self.agent, self.wire, self.to_gateway = Agent(who), WireDouble(), b""
        self.to_agent: list[Frame] = []
        self.do(self.gateway.on_connect(self.wire, "127.0.0.1", self.now_s, dialect=JSON))
        self.to_gateway += self.agent.begin()

    def do(self, outputs) -> None:
        for output in outputs:
            match output:
                case Send(peer, frames) if peer is self.wire:
                    self.to_agent += frames
                case SendAll(peers, frame) if self.wire in peers:
                    self.to_agent.append(frame)
                case SendUrgent(peers, urgent) if self.wire in peers:
                    self.to_agent.append(urgent.alone)
                case Produce():
                    self.requests.append(output)

    @rule(name=st.sampled_from(NAMES), urgent=st.booleans())
    def publish(self, name: str, urgent: bool) -> None:
        self.versions += 1
        self.matcher.publish(name, self.versions, urgent=urgent)
        self.matcher_says()

    @rule(names=st.none() | st.sets(st.sampled_from(NAMES)))
    def resume(self, names: set[str] | None) -> None:
        """The device comes back with its set, and the cursor that somebody kept for it; or with another set."""
        agent = self.agent
        self.do(self.gateway.on_disconnected(self.wire, self.now_s))
        if names is not None:
            self.come(device(*sorted(names)))
        else:
            epoch = agent.epoch if agent.cursor is not None else None
            self.come(PlayedDevice("d", "g", "c", agent.device.registrations, epoch, agent.cursor))

    @rule()
    def registrations_are_lost(self) -> None:
        for registered in self.matcher.registrations.values():
            registered.clear()
        self.lost = True

    @rule()
    def gateway_hears(self) -> None:
        data, self.to_gateway = self.to_gateway, b""
        self.do(self.gateway.on_client_bytes(self.wire, data, self.now_s))

    @rule()
    def matcher_hears(self) -> None:
        if self.requests:
            self.matcher.on_request(self.requests.popleft().request)
            self.matcher_says()

    def matcher_says(self) -> None:
        self.records.extend(record for _, record in self.matcher.take_records())

    @rule()
    def gateway_is_told(self) -> None:
        if self.records:
            self.do(inbox_outputs(self.gateway, self.records.popleft(), self.now_s))

    @rule(size=st.sampled_from([1, 1000]))
    def agent_hears(self, size: int) -> None:
        frames, self.to_agent = self.to_agent[:size], self.to_agent[size:]
        self.to_gateway += self.agent.receive(values_of(frames))
        for one in self.agent.found:
            if isinstance(one, Notification) and one.name and one.HasField("version"):
                self.taken[one.name] = max(self.taken.get(one.name, 0), one.version)
        if self.agent.page_end:
            self.to_gateway += self.agent.acknowledge()

    @invariant()
    def it_is_never_sent_away(self) -> None:
        assert self.agent.closed is None

    def flow(self) -> None:
        while self.to_gateway or self.requests or self.records or self.to_agent:
            self.gateway_hears()
            self.matcher_hears()
            self.gateway_is_told()
            self.agent_hears(1000)

    def teardown(self) -> None:
        """In the end the service has the device's set, and it has come to know the newest of everything in it."""
        self.flow()
        if self.lost:  # it shows by the digest of the next Hello
            self.resume(None)
            self.flow()
        assert self.agent.caught_up
        registrations = self.agent.device.registrations
        assert self.matcher.registrations.get(KEY, set()) == set(registrations)
        for name in registrations:
            newest = self.matcher.newest(name)
            if newest is not None:
                assert self.taken.get(name) == newest.version


TestConnected = Connected.TestCase
TestConnected.settings = settings(max_examples=examples(0.6), stateful_step_count=40, deadline=None)
