"""A share's record: its JSON is what the topic holds, so it must not change by chance; later fields are passed over."""

import msgspec
from coldnotify_schemas.share_state import (
    NOBODY,
    SHARE_FORMAT,
    HandOutState,
    ShareRecord,
    StoredHandOut,
    share_key,
)

HANDED = [
    StoredHandOut(11, 2, 1, HandOutState.BEGUN, 0, 30),
    StoredHandOut(14, 1, 0, HandOutState.WAITS, NOBODY, 60),
    StoredHandOut(15, 1, 0, HandOutState.HELD, 0, 30, 1, 19),
]
RECORD = ShareRecord(SHARE_FORMAT, 3, 17, 9, 10, [12, 13], ["worker-1"], HANDED, since=1, attributes=["camera"])
ENCODED = (
    b'{"format":1,"generation":3,"applied":17,"epoch":9,"base":10,"settled":[12,13],"members":["worker-1"],'
    b'"handed_out":[[11,2,1,2,0,30,0,-1],[14,1,0,0,-1,60,0,-1],[15,1,0,1,0,30,1,19]],"since":1,'
    b'"attributes":["camera"]}'
)


def test_the_json_of_a_share() -> None:
    assert msgspec.json.encode(RECORD) == ENCODED
    assert msgspec.json.decode(ENCODED, type=ShareRecord) == RECORD
    assert RECORD.table == (10, [12, 13], ["worker-1"], HANDED)


def test_an_empty_share_is_short() -> None:
    encoded = b'{"format":1,"generation":3,"applied":17,"epoch":9,"base":-1}'
    assert msgspec.json.encode(ShareRecord(SHARE_FORMAT, 3, 17, 9, -1)) == encoded


def test_later_fields_are_passed_over() -> None:
    later = ENCODED.replace(b"30,0,-1]", b'30,0,-1,"later"]').replace(b'"since"', b'"later":{"a":1},"since"')
    assert msgspec.json.decode(later, type=ShareRecord) == RECORD


def test_a_key_names_the_share_before_the_channel() -> None:
    assert share_key("d", "g", "workers", "tasks/north") == "d/g/workers/tasks/north"
