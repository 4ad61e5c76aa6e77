"""What clients say of interests, as the matcher is told it."""

from coldnotify_gateway.core import interests
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.wire_pb2 import INTEREST_CHANNEL, INTEREST_QUERY, SINCE_POSITION, Interest

QUERY = Interest(kind=INTEREST_QUERY, text="Kind = lamp", held=0, reached="o7", reached_at=9)
CHANNEL = Interest(kind=INTEREST_CHANNEL, text="tasks", attributes=["a", "b"], since=SINCE_POSITION, at=3)
SAID = [QUERY, CHANNEL]


def test_queries_and_channels_are_listed_apart():
    (query,) = interests.queries(SAID)
    assert query == internal_pb2.Query(text="Kind = lamp", held=0, reached="o7", reached_at=9)
    assert query.HasField("held")
    (channel,) = interests.channels(SAID)
    assert channel == internal_pb2.Channel(name="tasks", attributes=["a", "b"], since=SINCE_POSITION, at=3)
    assert interests.has_channels(SAID)
    assert not interests.has_channels([QUERY])


def test_requests_say_what_their_clients_say():
    register = interests.register(wire_pb2.Register(request=3, objects=["o"], interests=SAID))
    assert (register.request, list(register.objects)) == (3, ["o"])
    assert (len(register.queries), len(register.channels)) == (1, 1)
    chunk = interests.sync(wire_pb2.SyncChunk(index=2, last=True, objects=["o"], interests=SAID))
    assert (chunk.index, chunk.last, list(chunk.objects)) == (2, True, ["o"])
    assert (len(chunk.queries), len(chunk.channels)) == (1, 1)


def test_a_hash_may_be_of_a_query_or_of_a_channel():
    unregister = interests.unregister(wire_pb2.Unregister(request=3, objects=["o"], interests=[7, 8]))
    assert (list(unregister.queries), list(unregister.channels)) == ([7, 8], [7, 8])
    assert (unregister.request, list(unregister.objects)) == (3, ["o"])
