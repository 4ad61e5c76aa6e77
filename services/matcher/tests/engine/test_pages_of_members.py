"""Pages to clients with queries that ask how the members are described."""

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.interests import query_hash
from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, GROUP, Bench, pages


def test_who_comes_back_is_told_how_an_object_is_described_that_was_deleted_meanwhile() -> None:
    """Its sets are computed anew, and are the same as before: nothing else says that the object had gone."""
    bench = Bench()
    every = "NAME STARTS WITH 'x'"
    asked = internal_pb2.Open(digest=query_hash(every), epoch=EPOCH, ask=1, descriptions=True)
    bench.version("x", 1)
    bench.describe("x", b'{"description":{"a":1}}', timestamp_ms=1)
    first = internal_pb2.Open(queries=[wire_pb2.Query(text=every)])
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
