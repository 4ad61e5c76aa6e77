"""What became of a record is said as of the log's end, to whoever may see its object."""

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_testkit.engine_bench import EngineBench


def test_what_became_of_a_record_is_said_as_of_the_logs_end() -> None:
    bench = EngineBench()
    bench.opened("o")
    values = [b'{"version":5}', b'{"version":5}', b'{"version":5,"payload":1}', b'{"version":4}', b'{"verson":4}']
    for value in [*values, b'{"version":2,"incarnation":1}']:
        bench.publish("o", value, timestamp_ms=77)
    for ask, offset in enumerate([*range(len(values) + 1), 999], 1):
        bench.request(ask_outcome=internal_pb2.AskOutcome(object="o", offset=offset, ask=ask))
    bench.request(ask_outcome=internal_pb2.AskOutcome(object="p", offset=0, ask=9))
    became = [item.became for item in bench.items() if item.HasField("became")]
    assert {one.session for one in became} == {1}
    said = [one.outcome for one in became]
    assert [(one.ask, one.kind) for one in said] == [
        (1, wire_pb2.OUTCOME_PUBLISHED),
        (2, wire_pb2.OUTCOME_REPEATED),
        (3, wire_pb2.OUTCOME_ALTERED),
        (4, wire_pb2.OUTCOME_STALE),
        (5, wire_pb2.OUTCOME_REJECTED),
        (6, wire_pb2.OUTCOME_PUBLISHED),
        (7, wire_pb2.OUTCOME_UNKNOWN),
        (9, wire_pb2.OUTCOME_UNKNOWN),
    ]
    assert (said[3].version, said[3].incarnation, said[3].published_ms) == (5, 0, 77)
    assert (said[5].version, said[5].incarnation) == (2, 1)
    assert said[4].reason.startswith("record: ")
    assert not said[4].HasField("version")
    assert "remembered" in said[6].reason
    assert "another record" in said[7].reason
