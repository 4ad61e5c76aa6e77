"""Channels through a matcher's process over a real Kafka: what is sent is told, whatever becomes of matcher and topics.

Stands for: channel_logs
"""

import time
from pathlib import Path
from typing import Any

import pytest
from coldnotify_kafka import topic_plan
from coldnotify_kafka import topics as topic_specs
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import MessageHeaders, message_headers
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.records import MOVED_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.channels_bench import channel_fan_outs, channel_pages, entry_of, hash_of
from coldnotify_testkit.engine_bench import opened
from coldnotify_testkit.matcher_process import (
    DOMAIN,
    GROUP,
    PARTITION,
    PARTITIONS,
    MatcherProcess,
    Player,
    records_of,
    timed_records_of,
)
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka
LOG = TOPICS.channels_1d
MIB = 1024 * 1024


class Listener:
    """A session with one channel, `tasks`, and who sends messages to it as any Kafka client does."""

    def __init__(self, bootstrap: str, player: Player) -> None:
        self.player = player
        self.session = 0
        self.asks = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def send(
        self,
        *payloads: bytes,
        headers: "MessageHeaders | dict[str, bytes] | None" = None,
        partition: int = PARTITION,
        topic: str = LOG,
    ) -> None:
        key = f"{DOMAIN}/{GROUP}/tasks".encode()
        said: Any = message_headers(headers) if isinstance(headers, MessageHeaders) else headers
        for payload in payloads:
            self._producer.produce(LOG, payload, key, partition, headers=said)
            self._producer.poll(0)
        assert self._producer.flush(WAIT_S) == 0

    def open(
        self,
        since: "wire_pb2.Since | None" = None,
        at: int = 0,
        *,
        cursor: int | None = None,
        epoch: int | None = None,
    ) -> internal_pb2.Opened:
        """A new session of the client, that says its cursor, or registers the channel. Returns the answer."""
        self.session += 1
        self.asks += 1
        channels = (
            []
            if since is None
            else [wire_pb2.Interest(kind=wire_pb2.INTEREST_CHANNEL, text="tasks", since=since, at=at)]
        )
        body = internal_pb2.Open(
            digest=hash_of("tasks") % MODULUS,
            ask=self.asks,
            interests=channels,
            streams=[internal_pb2.OpenStream(ask=self.asks, cursor=cursor, epoch=epoch)],
        )
        self.player.request(self.session, open=body)
        session = self.session
        self.player.wait(lambda items: any(one.session == session for one in opened(items)), "an answer")
        return next(one for one in reversed(opened(self.player.items)) if one.session == session)

    def caught_up(self) -> list[tuple[object, ...]]:
        """The entries of all pages up to the last one, which are acknowledged one by one."""
        entries: list[tuple[object, ...]] = []
        page = 0
        while True:
            page += 1
            found = self.page(page)
            if found is None:
                return entries
            entries += map(entry_of, found.entries)
            if found.last:
                return entries
            ask = internal_pb2.CatchUp(ask=self.asks, page=page, paging=found.paging)
            self.player.request(self.session, stream_catch_up=ask)

    def page(self, number: int) -> internal_pb2.Page | None:
        """One page; None: nothing lacks."""
        ask = self.asks

        def said(items: list[internal_pb2.Item]) -> bool:
            return bool(self._page(number, items)) or any(
                stream.ask == ask for one in items for stream in one.page.streams
            )

        self.player.wait(said, f"page {number}")
        found = self._page(number, self.player.items)
        return found[-1] if found else None

    def _page(self, number: int, items: list[internal_pb2.Item]) -> list[internal_pb2.Page]:
        return [one for one in channel_pages(items) if one.ask == self.asks and one.page == number]

    @property
    def live(self) -> list[bytes]:
        """The payloads that it was told as they came."""
        return [one.entry.message.payload for one in channel_fan_outs(self.player.items)]

    def wait_live(self, *payloads: bytes) -> None:
        self.player.wait(lambda _: all(one in self.live for one in payloads), f"{payloads} as they come")


@pytest.fixture
def listener(bootstrap: str, player: Player) -> Listener:
    return Listener(bootstrap, player)


def wait_committed(bootstrap: str) -> None:
    """Until the matcher has written what it knows of the log."""
    wait_for(lambda: records_of(bootstrap, TOPICS.channels_state, PARTITION), "the log's state")


def test_messages_are_told_across_a_matcher_that_is_killed(bootstrap: str, listener: Listener, tmp_path: Path) -> None:
    listener.send(b"before")
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        answer = listener.open(wire_pb2.SINCE_NOW)
        epoch = answer.streams[0].epoch
        assert [(one.interest, one.position) for one in answer.streams[0].positions] == [(hash_of("tasks"), 0)]
        assert listener.caught_up() == []
        listener.send(b"first")
        listener.wait_live(b"first")
        wait_committed(bootstrap)
        process.kill()
    listener.send(b"second", b"third")
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        again = listener.open(cursor=1, epoch=epoch)
        assert not again.streams[0].HasField("epoch"), "the log is the same"
        assert listener.caught_up() == [(2, 1), (3, 2)]
        listener.send(b"fourth")
        listener.wait_live(b"fourth")
        assert listener.live == [b"first", b"fourth"]


def test_a_repeat_is_told_to_nobody_also_after_a_takeover(bootstrap: str, listener: Listener, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        epoch = listener.open(wire_pb2.SINCE_NOW).streams[0].epoch
        listener.caught_up()
        listener.send(b"once", headers=MessageHeaders(id="17"))
        listener.send(b"again", headers=MessageHeaders(id="17"))
        listener.send(b"other", headers=MessageHeaders(id="18"))
        listener.wait_live(b"other")
        wait_committed(bootstrap)
        assert process.stop() == 0
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        listener.open(cursor=2, epoch=epoch)
        listener.caught_up()
        listener.send(b"and again", headers=MessageHeaders(id="17"))
        listener.send(b"last")
        listener.wait_live(b"last")
    assert listener.live == [b"once", b"other", b"last"]


def test_what_is_no_message_is_rejected_and_what_is_elsewhere_is_moved(
    bootstrap: str, listener: Listener, tmp_path: Path
) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        listener.open(wire_pb2.SINCE_NOW)
        listener.caught_up()
        listener._producer.produce(
            LOG, b"no expiry", f"{DOMAIN}/{GROUP}/tasks", PARTITION, headers={"expires_at": b"x"}
        )
        listener.send(b"moved", partition=(PARTITION + 1) % PARTITIONS)
        listener.wait_live(b"moved")
        (moved,) = [headers for _, value, headers in records_of(bootstrap, LOG, PARTITION) if value == b"moved"]
        assert MOVED_HEADER in moved

        def rejected() -> list[bytes | None]:
            return [value for number in range(2) for _, value, _ in records_of(bootstrap, TOPICS.rejected, number)]

        wait_for(lambda: b"no expiry" in rejected(), "its being rejected")
    assert listener.live == [b"moved"]


def test_who_is_far_behind_is_told_all_by_blocks(bootstrap: str, listener: Listener, tmp_path: Path) -> None:
    settings = {"matcher_channels_bytes_max": 3 * MIB}
    with MatcherProcess(bootstrap, tmp_path / "log", **settings) as process:
        process.wait_serving()
        listener.send(*[b"%d" % number + 1000 * b"x" for number in range(3500)])
        listener.open(wire_pb2.SINCE_OLDEST)
        entries = listener.caught_up()
        assert [one[0] for one in entries] == list(range(3500))
        assert all(known == offset - 1 for offset, known in entries if isinstance(offset, int))
        assert process.metric('coldnotify_matcher_events_total{event="blocks_read"}') >= 2
        listener.send(b"live")
        listener.wait_live(b"live")


def test_a_subscription_begins_at_a_time(bootstrap: str, listener: Listener, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        listener.send(b"0", b"1")
        wait_for(lambda: int(time.time() * 1000) > _last_ms(bootstrap), "another millisecond")
        at_ms = int(time.time() * 1000)
        listener.send(b"2")
        answer = listener.open(wire_pb2.SINCE_TIME, at_ms)
        assert [one.position for one in answer.streams[0].positions] == [1]
        assert listener.caught_up() == [(2, 1)]


def _last_ms(bootstrap: str) -> int:
    return max(timestamp_ms for *_, timestamp_ms in timed_records_of(bootstrap, LOG, PARTITION))


def test_who_was_away_for_longer_than_retention_is_told_so(bootstrap: str, listener: Listener, tmp_path: Path) -> None:
    listener.send(*[b"%d" % number for number in range(30)])
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        epoch = listener.open(wire_pb2.SINCE_NOW).streams[0].epoch
        wait_committed(bootstrap)
        process.kill()
    listener.send(b"30")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.delete_records([TopicPartition(LOG, PARTITION, 20)]).values():
        answer.result(WAIT_S)
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        listener.open(wire_pb2.SINCE_POSITION, 9, cursor=29, epoch=epoch)
        entries = listener.caught_up()
        assert entries[0] == ("RETENTION", 9, 20)
        assert [one[0] for one in entries[1:]] == list(range(20, 31))
        assert process.metric('coldnotify_matcher_missed_total{reason="retention"}') == 1


def test_a_log_that_is_made_anew_is_followed_anew_and_clients_are_told(
    bootstrap: str, listener: Listener, tmp_path: Path
) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        epoch = listener.open(wire_pb2.SINCE_NOW).streams[0].epoch
        listener.caught_up()
        listener.send(b"0", b"1")
        listener.wait_live(b"1")
        wait_committed(bootstrap)
        delete(bootstrap, LOG)
        specs = topic_specs.load(topic_specs.EMBEDDED_PARTITIONS)
        topic_plan.apply(AdminClient({"bootstrap.servers": bootstrap}), specs, timeout=60)
        wait_for(lambda: "all state dropped" in process.log.read_text(), "its noticing")
        process.wait_serving()
        listener.send(b"anew")
        again = listener.open(cursor=1, epoch=epoch)
        assert again.streams[0].epoch != epoch
        entries = listener.caught_up()
        assert [one[0] for one in entries] == ["LOST", 0]


def test_without_topics_of_channels_a_matcher_serves_all_else(
    bootstrap: str, player: Player, listener: Listener, tmp_path: Path
) -> None:
    """As under release 0.1.0: its topics are there, and those of this release are not applied yet."""
    delete(bootstrap, *TOPICS.channels, TOPICS.channels_state)
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        assert process.log.read_text().count("there are no channels") == 1
        player.open("camera", session=99, client="other")
        player.wait_opened(99)
        player.version("camera", 1)
        player.wait_told("camera", 1)
        assert not opened(player.items)[-1].kinds & wire_pb2.KINDS_CHANNELS
        specs = topic_specs.load(topic_specs.EMBEDDED_PARTITIONS)
        topic_plan.apply(AdminClient({"bootstrap.servers": bootstrap}), specs, timeout=60)
        wait_for(lambda: "all state dropped" in process.log.read_text(), "its noticing")
        process.wait_serving()
        assert listener.open(wire_pb2.SINCE_NOW).kinds & wire_pb2.KINDS_CHANNELS
        listener.caught_up()
        listener.send(b"told")
        listener.wait_live(b"told")


def delete(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.delete_topics(list(names)).values():
        answer.result(WAIT_S)

    def gone() -> bool:
        return not set(names) & admin.list_topics(timeout=WAIT_S).topics.keys()

    wait_for(gone, "their being gone")
