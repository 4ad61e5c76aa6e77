"""Publishing on the session: order, resends, refusals; and against a gateway that refuses and breaks at random."""

from collections import deque
from functools import partial

from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._core.publishing.publications import Publications, PublishAnswer
from coldnotify_schemas import wire_pb2 as wire
from hypothesis import given
from hypothesis import strategies as st


def message(number: int) -> Outgoing:
    return Outgoing("d", "g", "c", is_message=True, payload=b"x", id=str(number))


def say(publications: Publications, *numbers: int) -> list[tuple[int, PublishAnswer]]:
    told: list[tuple[int, PublishAnswer]] = []

    def tell(number: int, answer: PublishAnswer) -> None:
        told.append((number, answer))

    publications.say([(message(number), partial(tell, number)) for number in numbers])
    return told


def drain(publications: Publications, now: float = 0) -> list[tuple[int, str]]:
    sent = []
    while (publish := publications.next(now)) is not None:
        sent.append((publish.request, publish.id))
    return sent


def test_at_most_64_are_unanswered():
    publications = Publications()
    told = say(publications, *range(70))
    assert len(drain(publications)) == 64
    publications.published(1, 7)
    assert told == [(0, PublishAnswer(7))]
    assert drain(publications) == [(65, "64")]


def test_a_refused_one_comes_again_before_the_rest_once_its_time_is_over():
    publications = Publications()
    told = say(publications, 1, 2, 3)
    drain(publications)
    publications.published(1, 7)
    publications.not_published(2, "too much", 500, 10.0)
    assert drain(publications, 99) == []  # the third is not answered yet
    publications.not_published(3, "an earlier one", 9000, 10.0)
    assert publications.deadline() == 10.5
    assert drain(publications, 10.4) == []
    assert drain(publications, 10.5) == [(2, "2"), (3, "3")]
    publications.not_published(2, "payload: is odd", 0, 11)
    publications.published(3, 8)
    assert told == [(1, PublishAnswer(7)), (2, PublishAnswer(None, "payload: is odd")), (3, PublishAnswer(8))]


def test_in_a_new_session_all_that_is_not_answered_is_said_again():
    publications = Publications()
    say(publications, 1, 2, 3)
    drain(publications)
    publications.published(1, 7)
    publications.begin_session()
    assert drain(publications) == [(1, "2"), (2, "3")]


def test_one_that_is_said_once_has_no_request_and_goes_with_the_session():
    publications = Publications()
    publications.say_once(message(1))
    assert drain(publications) == [(0, "1")]
    publications.say_once(message(2))
    publications.begin_session()
    assert drain(publications) == []


def test_a_withdrawn_publish_is_not_sent_again():
    publications = Publications()
    told = say(publications, *range(70))
    drain(publications)
    publications.withdraw()
    publications.published(1, 7)
    assert drain(publications) == []
    assert told == []
    publications.begin_session()
    assert len(publications) == 0


def test_a_version_says_all_its_fields():
    publications = Publications()
    outgoing = Outgoing("d", "g", "o", payload=b"{}", version=7, incarnation=2, deleted=True, expires_at=9)
    publications.say([(outgoing, lambda _: None)])
    assert publications.next(0) == wire.Publish(
        request=1, object="o", payload=b"{}", version=7, incarnation=2, deleted=True, expires_at=9
    )


@given(st.lists(st.sampled_from(["send", "answer", "answer", "refuse", "break", "say"]), max_size=80))
def test_whatever_happens_all_is_published_in_order(steps: list[str]):
    """The gateway is docs/protocol.md's: after a refusal it takes nothing before the refused one."""
    publications, wire_, kept = Publications(), deque[wire.Publish](), list[str]()
    refused, said, now = 0, 0, 0.0

    def answer(refuse: bool) -> None:
        nonlocal refused
        if not wire_:
            return
        publish = wire_.popleft()
        if (refused and publish.request != refused) or refuse:
            refused = refused or publish.request
            publications.not_published(publish.request, "no", 1000, now)
            return
        refused = 0
        kept.append(publish.id)
        publications.published(publish.request, len(kept))

    for step in [*steps, *["break"], *["send", "answer"] * (len(steps) * 2 + 2)]:
        now += 1
        if step == "say":
            say(publications, said)
            said += 1
        elif step == "send":
            while (publish := publications.next(now)) is not None:
                wire_.append(publish)
        elif step == "break":
            wire_.clear()
            refused = 0
            publications.begin_session()
        else:
            answer(step == "refuse")
    assert list(dict.fromkeys(kept)) == [str(number) for number in range(said)]
    assert len(publications) == 0
