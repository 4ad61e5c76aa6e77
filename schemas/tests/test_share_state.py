"""A share's record: its JSON is what the topic holds, so it must not change by chance; later fields are passed over."""

import msgspec
import pytest
from coldnotify_schemas.channels import check_id
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX
from coldnotify_schemas.share_state import (
    HELD_MAX,
    NOBODY,
    SHARE_CHARS_MAX,
    SHARE_FORMAT,
    HandOutState,
    ShareRecord,
    StoredHandOut,
    check_share,
    dead_letter_id,
    dead_letters_channel,
    share_key,
)
from coldnotify_schemas.wire_pb2 import HELD_BACK, ClientFrame, HeldMessage, HeldShare, Hold

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


@pytest.mark.parametrize(
    ("share", "channel", "fault"),
    [
        ("a/b", "tasks", "share: 'a/b' is not a name"),
        ("", "tasks", "share: '' is not a name"),
        ("s" * (SHARE_CHARS_MAX + 1), "tasks", "share: has 45 characters"),
        ("s", "c" * 249, "share: its dead letters' channel has 256 bytes"),
    ],
)
def test_a_share_whose_dead_letters_could_not_be_written_is_refused(share: str, channel: str, fault: str) -> None:
    with pytest.raises(InvalidName, match=fault):
        check_share(share, channel)


def test_all_that_a_client_may_hold_fits_in_a_frame() -> None:
    longest = HeldMessage(offset=(1 << 63) - 1, hand_out=(1 << 32) - 1, state=HELD_BACK, after_s=86_400)
    each_a_share = [HeldShare(share=1, messages=[longest]) for _ in range(64)]
    hold = Hold(number=(1 << 32) - 1, all=True, shares=[*each_a_share, HeldShare(share=1)])
    hold.shares[-1].messages.extend([longest] * (HELD_MAX - 64))
    assert ClientFrame(hold=hold).ByteSize() <= CLIENT_FRAME_BYTES_MAX


def test_the_longest_share_has_dead_letters() -> None:
    share = check_share("s" * SHARE_CHARS_MAX, "c" * (255 - SHARE_CHARS_MAX - 6))
    assert check_id(dead_letter_id(share, (1 << 63) - 1)).endswith("/9223372036854775807")
    assert dead_letters_channel("tasks", "workers") == "tasks.workers.dead"
