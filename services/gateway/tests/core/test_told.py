"""The value of what is told: it says what may go in front of it."""

import pytest
from coldnotify_gateway.core.told import Fence, Frame, Told, joined, of_entry, size_of
from coldnotify_schemas.wire_pb2 import GatewayFrame, Message, Missed


@pytest.mark.parametrize(
    ("entry", "offset"),
    [
        (GatewayFrame(message=Message(channel=7, offset=9)), 9),
        (GatewayFrame(missed=Missed(channel=7, before=9)), 8),
    ],
)
def test_an_entry_is_of_a_channel_and_tells_it_up_to_an_offset(entry, offset):
    assert of_entry(entry) == Told(channel=7, offset=offset, entry=entry)


def test_a_part_of_a_page_can_be_said_again_as_it_is():
    assert of_entry(GatewayFrame(message=Message(channel=7, offset=9, paged=True))).entry is None


def test_frames_are_as_long_as_their_bytes_and_joined_in_their_order():
    frames = [Frame(b"ab"), Frame(b"c", Told(Fence.WELCOME))]
    assert (size_of(frames), joined(frames)) == (3, b"abc")


def test_in_front_of_a_welcome_even_less_goes_than_in_front_of_a_registered():
    assert list(Fence) == sorted([Fence.NONE, Fence.REGISTERED, Fence.WELCOME])
