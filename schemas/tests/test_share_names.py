"""A share's name leaves room for its dead letters, and all that a client holds for one frame."""

import pytest
from coldnotify_schemas.channels import check_id
from coldnotify_schemas.interests import by_channel, by_share, share_of
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX
from coldnotify_schemas.share_names import (
    HELD_MAX,
    SHARE_CHARS_MAX,
    check_no_dead_letters,
    check_share,
    dead_letter_id,
    dead_letters_channel,
)
from coldnotify_schemas.wire_pb2 import HELD_BACK, ClientFrame, HeldMessage, HeldShare, Hold


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
    each_a_share = [HeldShare(share=1, messages=[longest], lease_s=86_400, prefetch=HELD_MAX) for _ in range(64)]
    hold = Hold(number=(1 << 32) - 1, all=True, shares=[*each_a_share, HeldShare(share=1)])
    hold.shares[-1].messages.extend([longest] * (HELD_MAX - 64))
    assert ClientFrame(hold=hold).ByteSize() <= CLIENT_FRAME_BYTES_MAX


def test_the_longest_share_has_dead_letters() -> None:
    share = check_share("s" * SHARE_CHARS_MAX, "c" * (255 - SHARE_CHARS_MAX - 6))
    assert check_id(dead_letter_id(share, (1 << 63) - 1)).endswith("/9223372036854775807")
    assert dead_letters_channel("tasks", "workers") == "tasks.workers.dead"


def test_a_registration_names_share_channel_and_attributes() -> None:
    interest = by_share("workers", "tasks/north", ["b", "a"])
    assert share_of(interest.text) == ("workers", "tasks/north", ["a", "b"])
    assert interest.hash != by_channel("workers", ["tasks"]).hash
    assert share_of(by_share("workers", "tasks").text) == ("workers", "tasks", [])


def test_a_channel_of_a_share_has_no_zero_byte() -> None:
    with pytest.raises(InvalidName, match="channel: "):
        by_share("workers", "tasks\x00b")


def test_nobody_else_sends_to_a_channel_of_dead_letters() -> None:
    assert check_no_dead_letters("a.dead/b") == "a.dead/b"
    with pytest.raises(InvalidName, match=r"channel: 'tasks\.workers\.dead' takes dead letters"):
        check_no_dead_letters(dead_letters_channel("tasks", "workers"))
