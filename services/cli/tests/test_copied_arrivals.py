"""Versions by arrival are said in the records that are copied."""

import msgspec
from coldnotify_cli.copied_arrivals import CopiedArrivals
from coldnotify_cli.copied_records import Headers, SourceRecord
from coldnotify_schemas.arrival_versions import arrival_header, checkpoint_header
from coldnotify_schemas.partitioner import partition_of

TOPIC, NOW_MS = "a.objects", 1_700_000_000_000
HOME = partition_of("d", "g", 4)


def record(offset: int, value: bytes | None = b"{}", headers: Headers | None = None, name: str = "o") -> SourceRecord:
    said: Headers = [arrival_header()] if headers is None else headers
    return SourceRecord(TOPIC, HOME, offset, f"d/g/{name}".encode(), value, said, NOW_MS)


def newest(arrivals: CopiedArrivals) -> list[tuple[bytes | None, int, int]]:
    found = [(one.key, msgspec.json.decode(one.value or b"")) for one in arrivals.newest(TOPIC)]
    return [(key, said["version"], said["incarnation"]) for key, said in found]


def test_a_partition_is_read_from_its_beginning_once_it_has_such_a_record() -> None:
    arrivals = CopiedArrivals(4)
    arrivals.read(record(7, b'{"version":41}', []))
    assert not arrivals.begins(record(7, b'{"version":41}', []))
    assert arrivals.begins(record(8))
    arrivals.begin(HOME)
    assert not arrivals.begins(record(8))
    for one in (record(7, b'{"version":41}', []), record(8), record(9), record(10, b'{"version":5}', [], "other")):
        arrivals.read(one)
    assert arrivals.first_unwritten(HOME) == 8
    assert newest(arrivals) == [(b"d/g/o", 43, 0)]
    assert (arrivals.first_unwritten(HOME), newest(arrivals)) == (None, [])
    arrivals.read(record(11))
    assert newest(arrivals) == [(b"d/g/o", 44, 0)]


def test_a_checkpoint_has_the_version_that_compaction_took() -> None:
    arrivals = CopiedArrivals(4)
    arrivals.begin(HOME)
    said = b'{"version":101,"incarnation":0}'
    for one in (record(8), record(9, said, [checkpoint_header(77, 8)]), record(10), record(11, None, [("x", b"y")])):
        arrivals.read(one)
    assert newest(arrivals) == [(b"d/g/o", 102, 0)]


def test_descriptions_and_unreadable_records_are_passed_over() -> None:
    arrivals = CopiedArrivals(4)
    arrivals.begin(HOME)
    arrivals.read(record(8)._replace(key=b"describe:d/g/o"))
    arrivals.read(record(9)._replace(key=None))
    arrivals.read(record(10)._replace(headers=None))
    assert newest(arrivals) == []


def test_the_newest_version_has_its_properties() -> None:
    arrivals = CopiedArrivals(4)
    arrivals.begin(HOME)
    arrivals.read(record(8, headers=[arrival_header(), ("mqtt-qos", b"0"), ("mqtt-content-type", b"text")]))
    (found,) = arrivals.newest(TOPIC)
    assert found.headers == [("mqtt-qos", b"0"), ("mqtt-content-type", b"text")]
