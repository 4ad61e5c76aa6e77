"""The frame codec: any cut of a stream gives the same frames, and nothing but FrameError ever comes out of garbage."""

import contextlib

import pytest
from coldnotify_schemas.frames import (
    FrameBuffer,
    FrameError,
    FrameTooLarge,
    ack_complete,
    encode,
    encode_length,
    parse_client_frame,
    parse_gateway_frame,
)
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_NAMES,
    CAPABILITY_RAW,
    Ack,
    Bye,
    CaughtUp,
    ClientFrame,
    GatewayFrame,
    Hello,
    Stream,
    Welcome,
)
from hypothesis import given
from hypothesis import strategies as st


@given(bodies=st.lists(st.binary(max_size=300), max_size=8), cuts=st.lists(st.integers(1, 50), min_size=1))
def test_any_cut_of_the_stream_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(encode_length(len(body)) + body for body in bodies)
    buffer = FrameBuffer(300)
    received: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        received += buffer.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert received == bodies
    assert len(buffer) == 0


def test_frames_are_found_one_byte_at_a_time() -> None:
    buffer = FrameBuffer(1000)
    frame = encode(ClientFrame(ack=Ack(complete=7, page=300)))
    assert [body for byte in frame for body in buffer.feed(bytes((byte,)))] == [frame[1:]]


def test_a_length_over_the_limit_is_refused_before_its_bytes_come() -> None:
    assert list(FrameBuffer(127).feed(encode_length(127))) == []
    with pytest.raises(FrameTooLarge, match="128 bytes, at most 127"):
        list(FrameBuffer(127).feed(encode_length(128)))


def test_frames_before_the_bad_one_are_handed_out() -> None:
    frames = FrameBuffer(10).feed(b"\x01a" + b"\x00" + encode_length(11))
    assert next(frames) == b"a"
    assert next(frames) == b""
    with pytest.raises(FrameTooLarge):
        next(frames)


def test_a_length_of_more_than_five_bytes_is_refused() -> None:
    assert list(FrameBuffer(10).feed(b"\xff" * 4)) == []
    with pytest.raises(FrameError, match="varint"):
        list(FrameBuffer(10).feed(b"\xff" * 5))


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_garbage_raises_frame_errors_only(chunks: list[bytes]) -> None:
    buffer = FrameBuffer(64)
    with contextlib.suppress(FrameError):
        for chunk in chunks:
            for body in buffer.feed(chunk):
                for parse in (parse_client_frame, parse_gateway_frame):
                    with contextlib.suppress(FrameError):
                        parse(body)
            assert len(buffer) <= 64 + 5


@given(complete=st.integers(0, 2**64 - 1), page=st.integers(0, 3), cut=st.integers(0, 30))
def test_an_ack_alone_is_read_as_the_parser_reads_it(complete: int, page: int, cut: int) -> None:
    data = encode(ClientFrame(ack=Ack(complete=complete, page=page)))
    assert ack_complete(data) == (None if page else complete)
    assert ack_complete(data[:cut] + data) == (None if cut or page else complete)
    assert ack_complete(data + data) is None


@given(body=st.binary(min_size=11, max_size=11))
def test_only_an_ack_alone_is_read_as_one(body: bytes) -> None:
    for one in (body, b"\x2a\x09\x09" + body[3:]):
        complete = ack_complete(encode_length(len(one)) + one)
        assert complete is None or parse_client_frame(one) == ClientFrame(ack=Ack(complete=complete))


def test_an_unknown_kind_of_frame_and_an_empty_one_have_no_frame() -> None:
    unknown = bytes.fromhex("a20603") + b"abc"  # field 100, three bytes
    for body in (unknown, b""):
        assert parse_client_frame(body).WhichOneof("frame") is None
        assert parse_gateway_frame(body).WhichOneof("frame") is None


def test_unknown_fields_are_skipped() -> None:
    known = GatewayFrame()
    known.pong.complete = 5
    assert parse_gateway_frame(known.SerializeToString() + bytes.fromhex("a2060161")).pong.complete == 5


def wake(*, channels: bool, session: int = 0) -> list[bytes]:
    """The frames of a wake that missed nothing, with names of 15, 8 and 10 characters."""
    streams = [Stream(complete=41)] if channels else []
    hello = Hello(
        protocol=1, capabilities=CAPABILITY_NAMES | CAPABILITY_RAW,
        domain="animal.observer", group="region-1", client="client-001", digest=1, epoch=7, cursor=5,
        streams=[Stream(epoch=77, complete=41)] if channels else [],
    )  # fmt: skip
    said = [
        ClientFrame(hello=hello, session=session),
        GatewayFrame(welcome=Welcome(in_sync=True), session=session),
        GatewayFrame(caught_up=CaughtUp(complete=5, streams=streams), session=session),
        ClientFrame(bye=Bye(), session=session),
    ]
    return [encode(frame) for frame in said]


def test_an_unchanged_wake_has_89_bytes_and_27_more_with_channels() -> None:
    assert [len(frame) for frame in wake(channels=False)] == [69, 5, 12, 3]
    assert [len(frame) for frame in wake(channels=True)] == [69 + 16, 5, 12 + 11, 3]


@pytest.mark.parametrize("channels", [False, True])
def test_a_session_number_costs_two_bytes_a_frame_and_the_first_session_none(channels: bool) -> None:
    first, *others = (wake(channels=channels, session=session) for session in range(4))
    for other in others:
        assert [len(frame) - len(same) for frame, same in zip(other, first, strict=True)] == [2, 2, 2, 2]
    # Four sessions on one connection: what each has alone, and two bytes for each frame of three of them.
    total = sum(len(frame) for frames in (first, *others) for frame in frames)
    assert total == 4 * (89 + 27 * channels) + 3 * 4 * 2
