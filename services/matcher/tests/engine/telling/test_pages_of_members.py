"""Pages to clients with queries that ask how the members are described."""

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.interests import query_hash
from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, GROUP, EngineBench, pages, query_interest


def test_who_comes_back_is_told_how_an_object_is_described_that_was_deleted_meanwhile() -> None:
    """Its sets are computed anew, and are the same as before: nothing else says that the object had gone."""
    bench = EngineBench()
    every = "NAME STARTS WITH 'x'"
    asked = internal_pb2.Open(digest=query_hash(every), epoch=EPOCH, ask=1, descriptions=True)
    bench.version("x", 1)
    bench.describe("x", b'{"description":{"a":1}}', timestamp_ms=1)
    first = internal_pb2.Open(interests=[query_interest(every)])
    first.MergeFrom(asked)
    bench.request(open=first)
    cursor = pages(bench.items())[-1].complete
    bench.publish("x", b'{"version":2,"deleted":true}')
    bench.describe("x", b'{"description":{"a":2}}', timestamp_ms=2)
    bench.publish("x", b'{"version":3,"source":"client-1"}')
    bench.settle()
    groups = bench.engine.state.members.groups
    assert list(groups.redescribed_first(f"{DOMAIN}/{GROUP}")) == [("x", cursor + 3)]
    asked.cursor = cursor
    bench.request(session=2, open=asked)
    told = [newest for page in pages(bench.items()) for newest in page.newest]
    assert told[-1].description == b'{"a":2}'


def test_the_set_of_a_client_may_come_to_a_matcher_that_never_saw_its_session_begin() -> None:
    """It announces no session of a client without queries: that this one is told descriptions, the set says."""
    bench = EngineBench()
    every = "NAME STARTS WITH 'x'"
    bench.describe("x", b'{"description":{"a":1}}', timestamp_ms=1)
    asked = internal_pb2.Open(digest=query_hash(every), epoch=EPOCH, ask=1, descriptions=True, register=["a"])
    bench.request(open=asked)
    bench.settle()
    bench.commit()
    bench.sync(0, queries=[every], last=True, descriptions=True)
    bench.take_over()
    bench.settle()

    told = [newest for page in pages(bench.items()) for newest in page.newest]
    assert [newest.description for newest in told] == [b'{"a":1}']
