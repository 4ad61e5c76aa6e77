"""The interests of a request: told apart by their kinds, hashed, and packed while a set is still being received."""

from coldnotify_matcher.engine.interests.kinds import channels_in, hashes_of, packed, queries_in, refused_hash
from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import channel_hash, channel_text, query_hash
from coldnotify_schemas.wire_pb2 import INTEREST_CHANNEL, INTEREST_QUERY, SINCE_TIME, Interest, Refusal

QUERY = Interest(kind=INTEREST_QUERY, text="has a", held=3, reached="m", reached_at=9)
CHANNEL = Interest(kind=INTEREST_CHANNEL, text="c", attributes=["x", "y"], since=SINCE_TIME, at=7)
UNKNOWN = Interest(kind=9, text="p/*")  # type: ignore[arg-type]
ALL = [CHANNEL, UNKNOWN, QUERY]


def test_each_kind_is_told_apart_and_an_unknown_one_is_passed_over() -> None:
    assert queries_in(ALL) == [QUERY]
    assert channels_in(ALL) == [CHANNEL]
    assert hashes_of(ALL) == [channel_hash(channel_text("c", ["x", "y"])), query_hash("has a")]


def test_a_packed_interest_is_the_same_without_what_its_client_holds_of_the_answer() -> None:
    assert Interest.FromString(packed(CHANNEL)) == CHANNEL
    assert Interest.FromString(packed(QUERY)) == Interest(kind=INTEREST_QUERY, text="has a")
    assert packed(QUERY) == packed(Interest(kind=INTEREST_QUERY, text="has a", held=4))


def test_the_hash_of_a_refusal_is_that_of_its_name_or_of_its_interest() -> None:
    assert refused_hash(Refusal(object="o")) == object_digest("o")
    assert refused_hash(Refusal(interest=5)) == 5
