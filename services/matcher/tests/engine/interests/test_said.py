"""Said: frames' three lists are one list of interests, each with its kind and what is said of it."""

from coldnotify_matcher.engine.interests.said import (
    Gone,
    Said,
    gone_in_open,
    gone_in_unregister,
    hashes_in,
    hashes_of,
    names_in,
    names_of,
    of_kind,
    refused_hash,
    said_in_chunk,
    said_in_open,
    said_in_register,
)
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import Kind, channel_hash, channel_text, query_hash

QUERY = internal_pb2.Query(text="has a", held=3, reached="m", reached_at=9)
CHANNEL = internal_pb2.Channel(name="c", attributes=["x", "y"], since=wire_pb2.SINCE_TIME, at=7)
SAID = [
    Said(Kind.NAME, "o"),
    Said(Kind.QUERY, "has a", held=3, reached="m", reached_at=9),
    Said(Kind.CHANNEL, channel_text("c", ["x", "y"]), wire_pb2.SINCE_TIME, 7),
]


def test_an_open_and_a_register_say_the_same_list() -> None:
    assert said_in_open(internal_pb2.Open(register=["o"], queries=[QUERY], channels=[CHANNEL])) == SAID
    assert said_in_register(internal_pb2.Register(objects=["o"], queries=[QUERY], channels=[CHANNEL])) == SAID


def test_a_digest_of_zero_is_said_and_none_is_not() -> None:
    queries = [internal_pb2.Query(text="a", held=0), internal_pb2.Query(text="b")]
    assert [one.held for one in said_in_register(internal_pb2.Register(queries=queries))] == [0, None]


def test_names_of_a_set_that_may_be_large_are_their_texts_and_what_is_held_does_not_count() -> None:
    said = said_in_chunk(internal_pb2.SyncChunk(objects=["o"], queries=[QUERY], channels=[CHANNEL]))
    assert said == ["o", Said(Kind.QUERY, "has a"), SAID[2]]
    assert names_of(said) == names_of(SAID) == ["o"]
    assert of_kind(Kind.QUERY, said) == [Said(Kind.QUERY, "has a")]


def test_what_is_unregistered_is_one_list_too() -> None:
    gone = [Gone(Kind.NAME, "o"), Gone(Kind.QUERY, hash=4), Gone(Kind.CHANNEL, hash=5)]
    opened = internal_pb2.Open(unregister=["o"], unregister_queries=[4], unregister_channels=[5])
    assert gone_in_open(opened) == gone
    assert gone_in_unregister(internal_pb2.Unregister(objects=["o"], queries=[4], channels=[5])) == gone
    assert (names_in(gone), hashes_in(Kind.QUERY, gone), hashes_in(Kind.CHANNEL, gone)) == (["o"], [4], [5])


def test_hashes_are_those_of_the_wire() -> None:
    assert hashes_of(SAID) == [query_hash("has a"), channel_hash(channel_text("c", ["x", "y"]))]
    refusals = [wire_pb2.Refusal(object="o"), wire_pb2.Refusal(interest=4), wire_pb2.Refusal(interest=5)]
    assert [refused_hash(one) for one in refusals] == [object_digest("o"), 4, 5]
