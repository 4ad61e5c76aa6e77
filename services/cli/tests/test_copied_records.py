"""Records as they are written under another prefix."""

from collections.abc import Sequence

import msgspec
import pytest
from coldnotify_cli.copied_records import (
    LOWERED,
    NOT_UNDERSTOOD,
    STRAYS,
    CopiedRecord,
    CopiedRecords,
    Headers,
    SourceRecord,
)
from coldnotify_schemas.arrival_versions import arrival_header, checkpoint_header
from coldnotify_schemas.interests import Kind
from coldnotify_schemas.matcher_state import (
    FORMAT,
    GENERATION_KEY,
    RegistrationsRecord,
    SessionRecord,
    StoredInterest,
    StoredWill,
    UnsettledRecord,
    WillRecord,
)
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import (
    INCARNATION_MAX,
    MOVED_HEADER,
    SINCE_HEADER,
    PublicRecord,
    carrying,
    encode_public_record,
    parse_public_record,
    payload_header,
)
from coldnotify_schemas.topics import TopicNames

OLD, NEW = TopicNames("a."), TopicNames("b.")
HOME, NEW_HOME = partition_of("d", "g", 4), partition_of("d", "g", 7)


@pytest.fixture
def records() -> CopiedRecords:
    return CopiedRecords(OLD, NEW, source_partitions=4, target_partitions=7)


def source(
    topic: str,
    key: bytes | None,
    value: bytes | None = b"{}",
    headers: Sequence[tuple[str, str | bytes | None]] | None = (),
    partition: int = HOME,
) -> SourceRecord:
    return SourceRecord(topic, partition, 9, key, value, None if headers is None else list(headers), 1234)


@pytest.mark.parametrize("incarnation", [None, INCARNATION_MAX + 1])
def test_bytes_are_copied_with_the_header_that_says_so(records: CopiedRecords, incarnation: int | None) -> None:
    said = carrying(PublicRecord(version=1, incarnation=incarnation), bytes(4096))
    copied = records.of(source(OLD.objects, b"d/g/o", encode_public_record(said), [payload_header()]))
    assert copied is not None
    assert copied.headers == [payload_header()]
    assert parse_public_record(copied.value or b"", raw=True).payload_bytes == bytes(4096)


@pytest.mark.parametrize("key", [b"d/g/o", b"describe:d/g/o"])
@pytest.mark.parametrize("value", [b'{"version":3,"incarnation":2}', None])
def test_a_version_keeps_what_it_says_and_its_time(records: CopiedRecords, key: bytes, value: bytes | None) -> None:
    headers = [("priority", b"high"), (SINCE_HEADER, b"0000/3"), (MOVED_HEADER, b"2@4"), ("coldnotify-removes", b"1/2")]
    copied = records.of(source(OLD.objects, key, value, headers))
    kept: Headers = [("priority", b"high"), ("coldnotify-removes", b"1/2")]
    assert copied == CopiedRecord(NEW.objects, NEW_HOME, key, value, kept, 1234)


def test_a_condition_is_left_out_and_what_it_became_is_copied(records: CopiedRecords) -> None:
    decided = [("coldnotify-decided", b"0000004d/3 won 6 0")]
    assert records.of(source(OLD.objects, b"d/g/o", b'{"if_version":5}', [])) is None
    assert records.of(source(OLD.objects, b"d/g/o", None, decided)) is None
    copied = records.of(source(OLD.objects, b"d/g/o", b'{"version":6,"incarnation":0}', decided))
    assert copied is not None
    assert (copied.value, copied.headers) == (b'{"version":6,"incarnation":0}', [])


def test_a_version_by_arrival_is_copied_once_it_is_known(records: CopiedRecords) -> None:
    without: Headers = [("coldnotify-arrival", None)]
    assert records.of(source(OLD.objects, b"d/g/o", b"{}", [arrival_header()])) is None
    assert records.of(source(OLD.objects, b"d/g/o", b"{}", without)) is None
    said = b'{"version":3,"incarnation":0}'
    copied = records.of(source(OLD.objects, b"d/g/o", said, [checkpoint_header(77, 2)]))
    assert copied == CopiedRecord(NEW.objects, NEW_HOME, b"d/g/o", said, [], 1234)
    stray = source(OLD.objects, b"d/g/o", b"{}", [arrival_header()], partition=(HOME + 1) % 4)
    assert records.of_stray(stray) == CopiedRecord(NEW.objects, NEW_HOME, b"d/g/o", b"{}", [arrival_header()], 1234)


def test_a_too_high_incarnation_is_lowered(records: CopiedRecords) -> None:
    copied = records.of(source(OLD.objects, b"d/g/o", b'{"version":3,"incarnation":%d}' % (INCARNATION_MAX + 5)))
    assert copied is not None
    assert copied.value == b'{"version":3,"incarnation":%d}' % INCARNATION_MAX
    assert records.counts[LOWERED] == 1


def test_a_message_has_its_old_place_by_which_repeats_are_known(records: CopiedRecords) -> None:
    topic = OLD.channels_1d
    copied = records.of(source(topic, b"d/g/c", b"payload", [("id", b"x")]))
    place = (MOVED_HEADER, b"%s%d@9" % (OLD.prefix.encode(), HOME))
    assert copied == CopiedRecord(NEW.channels_1d, NEW_HOME, b"d/g/c", b"payload", [("id", b"x"), place], 1234)
    moved = records.of(source(topic, b"d/g/c", b"payload", [(MOVED_HEADER, b"1@2"), ("id", b"x")]))
    assert moved is not None
    assert moved.headers == [("id", b"x"), (MOVED_HEADER, OLD.prefix.encode() + b"1@2")]
    stray = records.of_stray(source(topic, b"d/g/c", b"payload", [("id", b"x")], partition=(HOME + 1) % 4))
    assert stray is not None
    assert stray.headers == [("id", b"x"), (MOVED_HEADER, b"%s%d@9" % (OLD.prefix.encode(), (HOME + 1) % 4))]


@pytest.mark.parametrize("topic", [OLD.objects, OLD.channels_1h])
def test_a_stray_is_copied_only_where_nobody_has_moved_it(records: CopiedRecords, topic: str) -> None:
    stray = source(topic, b"d/g/o", partition=(HOME + 1) % 4)
    assert records.of(stray) is None
    assert records.counts[STRAYS] == 1
    copied = records.of_stray(stray)
    assert copied is not None
    assert copied.partition == NEW_HOME
    for other in (
        source(topic, b"d/g/o"),
        stray._replace(value=None),
        stray._replace(headers=[(MOVED_HEADER, b"0@0")]),
        stray._replace(topic=OLD.registrations),
        stray._replace(topic=OLD.tenants),
    ):
        assert records.of_stray(other) is None


@pytest.mark.parametrize(
    "record",
    [
        source(OLD.objects, None),
        source(OLD.objects, b"d/g"),
        source(OLD.channels_1d, b"\xff/g/o"),
        source(OLD.channels_1d, b"d/g/o", headers=None),
        source(OLD.sessions, GENERATION_KEY.encode()),
        source(OLD.sessions, b"d/g/c", b"no JSON"),
        source(OLD.registrations, b"d/g/c/0", b'{"format": 1}'),
    ],
)
def test_records_without_a_group_or_sense_are_counted(records: CopiedRecords, record: SourceRecord) -> None:
    assert records.of(record) is None
    assert records.counts[NOT_UNDERSTOOD] == 1


def test_a_session_is_over_and_its_cursor_stays_of_the_old_epoch(records: CopiedRecords) -> None:
    said = SessionRecord(FORMAT, 3, 17, True, "0123456789abcdef", 5, 9, 77, 1000, 1234567, 8, 78, 55)
    copied = records.of(source(OLD.sessions, b"d/g/c", msgspec.json.encode(said)))
    assert copied is not None
    assert copied.value is not None
    assert copied.partition == NEW_HOME
    over = msgspec.structs.replace(said, online=False, gateway="0" * 16, inbox=0, session=0)
    assert msgspec.json.decode(copied.value, type=SessionRecord) == over


def test_registrations_stay_and_unsettled_positions_go(records: CopiedRecords) -> None:
    said = RegistrationsRecord(
        2,
        3,
        17,
        ["o"],
        [StoredInterest(Kind.CHANNEL, "c", 40, 78)],
        [UnsettledRecord(hash=3, since=5, position=41), UnsettledRecord("o", since=5)],
    )
    copied = records.of(source(OLD.registrations, b"d/g/c/0", msgspec.json.encode(said)))
    assert copied is not None
    assert copied.value is not None
    unsettled = [UnsettledRecord(hash=3, since=5), UnsettledRecord("o", since=5)]
    expected = msgspec.structs.replace(said, unsettled=unsettled)
    assert msgspec.json.decode(copied.value, type=RegistrationsRecord) == expected
    later = msgspec.json.encode(msgspec.structs.replace(said, format=9))
    copied = records.of(source(OLD.registrations, b"d/g/c/0", later))
    assert copied is not None
    assert copied.value == later


def test_wills_are_copied_as_they_are(records: CopiedRecords) -> None:
    will = StoredWill("0123456789abcdef", 9, 1000, "gone", b"\xff", retain=True)
    said = msgspec.json.encode(WillRecord(3, 3, 17, will, [msgspec.structs.replace(will, version=8)]))
    assert records.of(source(OLD.registrations, b"d/g/c/will", said)) == CopiedRecord(
        NEW.registrations, NEW_HOME, b"d/g/c/will", said, [], 1234
    )
    assert records.of(source(OLD.registrations, b"d/g/c/will", b'{"format":3}')) is None
    assert records.counts[NOT_UNDERSTOOD] == 1


def test_topics_without_groups_are_copied_as_they_are(records: CopiedRecords) -> None:
    record = source(OLD.usage_state, b"t/n/b", b"1", [("x", b"y")], partition=6)
    assert records.of(record) == CopiedRecord(NEW.usage_state, 6, b"t/n/b", b"1", [("x", b"y")], 1234)


def test_properties_go_with_a_stray_by_arrival(records: CopiedRecords) -> None:
    headers: Headers = [arrival_header(), ("mqtt-user-b", b"2"), ("x", b"y"), ("mqtt-user-a", b"1")]
    stray = source(OLD.objects, b"d/g/o", b"{}", headers, partition=(HOME + 1) % 4)
    found = records.of_stray(stray)
    assert found is not None
    assert found.headers == [arrival_header(), ("mqtt-user-b", b"2"), ("mqtt-user-a", b"1")]
