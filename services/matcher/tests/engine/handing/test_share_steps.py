"""Shares in an engine: what members are handed, when, and what is durable by then.

Stands for: holds, known_shares, one_share, share_reads, share_registering
"""

import msgspec
import pytest
from coldnotify_matcher.engine.channel_logs import tail
from coldnotify_matcher.engine.handing import share_steps
from coldnotify_matcher.engine.handing.share_steps import FORGOTTEN_AFTER_MS
from coldnotify_matcher.engine.inputs.registering import share_registering
from coldnotify_matcher.engine.objects.object_map import ObjectMap
from coldnotify_matcher.engine.shares.one_share import Definition
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.matcher_state import FORMAT_WITH_SHARES, RegistrationsRecord
from coldnotify_schemas.records import REASON_HEADER
from coldnotify_schemas.share_names import TOPIC_IS_AN_OBJECT
from coldnotify_schemas.wire_pb2 import HELD_BACK, HELD_BEGUN, HELD_DONE, HELD_REJECTED, HELD_WAITS, INTEREST_SHARE
from coldnotify_testkit.channels_bench import TOPICS
from coldnotify_testkit.engine_bench import PREFIX
from coldnotify_testkit.shares_bench import CHANNEL, HASH, LEASE_S, Handed, SharesBench

LEASE_MS = LEASE_S * 1000


@pytest.fixture
def bench() -> SharesBench:
    return SharesBench()


def offsets(handed: list[Handed]) -> list[int]:
    return [one.offset for one in handed]


def refusals(bench: SharesBench) -> list[str]:
    return [one.reason for item in bench.take() if item.HasField("opened") for one in item.opened.refused]


# --- registering


def test_a_member_is_registered_in_its_bucket_and_the_share_has_a_record(bench: SharesBench) -> None:
    bench.send("tasks")
    bench.join("a", session=1)
    bench.settle()

    (opened,) = [item.opened for item in bench.take() if item.HasField("opened")]
    assert opened.kinds & wire_pb2.KINDS_SHARES
    assert (opened.in_sync, opened.digest) == (True, HASH)
    bucket = msgspec.json.decode(bench.stored[TOPICS.registrations][f"{PREFIX}a/0"], type=RegistrationsRecord)
    assert (bucket.format, bucket.interests[0].text) == (FORMAT_WITH_SHARES, "workers\x00tasks")
    assert (bench.stored_share().base, bench.stored_share().since) == (0, wire_pb2.SINCE_NOW)


def test_the_first_member_defines_the_share(bench: SharesBench) -> None:
    bench.join("a", session=1, attributes=["x"])
    bench.join("b", session=2, attributes=["y"])
    bench.join("c", session=3, attributes=["x"], since=wire_pb2.SINCE_BEGINNING)
    bench.settle()

    other, since = refusals(bench)
    assert other == "attributes: the share workers has x, as its first member said"
    assert since == "since: the share workers began with now, as its first member said"


def test_a_share_is_refused_for_its_name_or_a_limit(bench: SharesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_registering, "SHARES_MAX", 1)
    bench.join("a", session=1, share="a/b")
    bench.join("b", session=2)
    bench.join("c", session=3, share="another")
    bench.settle()
    name, many = refusals(bench)
    assert name.startswith("share: ")
    assert many.startswith("share: at most 1 shares")

    monkeypatch.setattr(share_registering, "MEMBERS_MAX", 1)
    bench.join("d", session=4)
    bench.settle()
    assert refusals(bench)[0].startswith("share: at most 1 members")


def test_nothing_of_shares_is_offered_without_their_topic_or_by_an_old_gateway(bench: SharesBench) -> None:
    bench.request(1, "a", open=internal_pb2.Open(digest=0, ask=1))
    bench.settle()
    (opened,) = [item.opened for item in bench.take() if item.HasField("opened")]
    assert not opened.kinds & wire_pb2.KINDS_SHARES

    bench.engine.state.shares.offered = False
    bench.join("b", session=2)
    bench.settle()
    (opened,) = [item.opened for item in bench.take() if item.HasField("opened")]
    assert not opened.kinds & wire_pb2.KINDS_SHARES
    assert not bench.stored[TOPICS.shares]


@pytest.mark.parametrize("shares", [True, False])
def test_a_new_owner_offers_shares_to_whom_it_has_not_heard_of(bench: SharesBench, *, shares: bool) -> None:
    """A gateway may pass on a Register before it knows of the takeover: then its session is not announced yet."""
    bench.join("a", session=1)
    bench.settle()
    bench.take_over()
    bench.take()
    one = wire_pb2.Interest(kind=INTEREST_SHARE, share="others", text=CHANNEL)
    bench.request(1, "a", register=wire_pb2.Register(request=1, interests=[one]), shares=shares)
    bench.settle()

    (answered,) = [item.answered for item in bench.take() if item.HasField("answered")]
    assert bool(answered.kinds & wire_pb2.KINDS_SHARES) is shares


# --- handing out


def test_a_member_that_closes_the_share_keeps_what_it_holds_and_is_handed_nothing_more(bench: SharesBench) -> None:
    bench.begin("a", session=1, prefetch=2)
    first = bench.send("tasks", b"1")
    second = bench.send("tasks", b"2")
    bench.settle()
    assert offsets(bench.handed(1)) == [first, second]

    bench.hold("a", session=1, number=2, held=[(first, 1, HELD_BEGUN), (second, 1, HELD_BACK)], closed=True)
    bench.settle()
    assert bench.handed(1) == []
    bench.begin("b", session=2)
    assert bench.handed(2) == [Handed(second, 2, 0, 1, payload=b"2")]
    bench.hold("a", session=1, number=3, held=[(first, 1, HELD_DONE)], closed=True)
    bench.settle()
    assert bench.leases(1)[-1] == (3, [])


def test_each_message_is_handed_to_one_member_that_has_said_a_hold(bench: SharesBench) -> None:
    bench.join("a", session=1)
    bench.begin("b", session=2)
    first = bench.send("tasks", b"1")
    second = bench.send("tasks", b"2")
    bench.settle()

    assert bench.handed(1) == []
    assert bench.handed(2) == [Handed(first, 1, 0, 1, payload=b"1")]

    bench.hold("b", session=2, number=2, held=[(first, 1, HELD_DONE)])
    bench.settle()
    assert bench.leases(2) == [(1, []), (2, [])]
    assert bench.handed(2) == [Handed(second, 1, 0, 2, payload=b"2")]
    assert bench.stored_share().base == first


def test_nothing_is_handed_out_before_its_record_is_durable(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    bench.send("tasks")
    bench.read()
    step = bench.step(writes_lost=slice(0, None))

    assert any(write.topic == TOPICS.shares for write in step.state)  # flushed before the inboxes
    bench.take_over()
    bench.settle()
    assert bench.stored_share().handed_out == []


def test_a_message_for_other_attributes_is_passed_over(bench: SharesBench) -> None:
    bench.join("a", session=1, attributes=["x"])
    bench.settle()
    hash_ = next(iter(bench.engine.state.clients[f"{PREFIX}a"].shares))
    bench.hold("a", session=1, first=True, hash_=hash_)
    bench.send("tasks", headers=MessageHeaders(to=("y",)))
    wanted = bench.send("tasks", headers=MessageHeaders(to=("x",)))
    bench.settle()

    assert offsets(bench.handed(1)) == [wanted]


def test_another_member_gets_what_a_dead_one_held_after_its_lease(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    offset = bench.send("tasks")
    bench.settle()
    assert offsets(bench.handed(1)) == [offset]
    bench.begin("b", session=2)
    bench.request(1, "a", leave=internal_pb2.Leave())  # its session ends: its lease does not
    bench.settle()
    bench.passes(LEASE_MS - 1_000)
    assert bench.handed(2) == []

    bench.hold("b", session=2, number=2)
    bench.passes(2_000)
    assert bench.handed(2) == [Handed(offset, 2, 0, 2, payload=b"x")]

    bench.join("a", session=3)
    bench.settle()
    bench.hold("a", session=3, first=True, held=[(offset, 1, HELD_BEGUN)])
    bench.settle()
    assert bench.leases(3) == [(1, [offset])]


def test_bye_and_unregister_give_back_at_once(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    offset = bench.send("tasks")
    bench.settle()
    bench.begin("b", session=2)
    bench.request(1, "a", leave=internal_pb2.Leave(bye=True))
    bench.settle()
    assert bench.handed(2) == [Handed(offset, 2, 0, 1, payload=b"x")]

    bench.begin("c", session=3)
    bench.request(2, "b", unregister=wire_pb2.Unregister(request=1, interests=[HASH]))
    bench.settle()
    assert bench.handed(3) == [Handed(offset, 3, 0, 1, payload=b"x")]
    assert bench.engine.state.shares.by_key[f"{PREFIX}workers/tasks"].members == {"a", "c"}


def test_a_takeover_keeps_each_lease_whole(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    offset = bench.send("tasks")
    bench.settle()
    bench.handed(1)
    bench.passes(LEASE_MS - 2_000)

    bench.take_over()
    bench.begin("b", session=2)
    bench.passes(10_000)
    assert bench.handed(2) == []  # it began anew at the takeover
    bench.join("a", session=1)
    bench.settle()
    bench.hold("a", session=1, number=2, first=True, held=[(offset, 1, HELD_DONE)])
    bench.settle()
    assert bench.leases(1)[-1] == (2, [])
    assert bench.stored_share().base == offset


def test_a_hold_without_terms_says_nothing_of_presence_to_a_new_owner(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    bench.take_over()
    bench.hold("a", session=1, number=2)
    offset = bench.send("tasks")
    bench.settle()
    assert bench.handed(1) == []

    bench.hold("a", session=1, number=3, first=True)
    bench.settle()
    assert bench.handed(1) == [Handed(offset, 1, 0, 3, payload=b"x")]


def test_requests_that_come_again_change_nothing(bench: SharesBench) -> None:
    bench.begin("a", session=1, prefetch=2)
    first, second = bench.send("tasks"), bench.send("tasks")
    bench.settle()
    bench.hold("a", session=1, number=2, held=[(first, 1, HELD_BEGUN), (second, 1, HELD_BEGUN)])
    bench.hold("a", session=1, number=3, held=[(first, 1, HELD_DONE), (second, 1, HELD_BACK, 60)])
    bench.settle()
    before = bench.stored_share()

    bench.requests_committed = 0
    bench.take_over()
    bench.settle()

    after = bench.stored_share()
    assert (after.base, after.settled) == (before.base, before.settled)
    assert [one[:4] for one in map(msgspec.structs.astuple, after.handed_out)] == [
        one[:4] for one in map(msgspec.structs.astuple, before.handed_out)
    ]
    assert after.handed_out[0].attempts == 1


def test_a_new_session_is_sent_again_all_that_it_does_not_name(bench: SharesBench) -> None:
    bench.begin("a", session=1, prefetch=2)
    first, second = bench.send("tasks", b"1"), bench.send("tasks", b"2")
    bench.settle()
    assert offsets(bench.handed(1)) == [first, second]
    bench.join("a", session=5)
    bench.settle()
    bench.hold("a", session=5, first=True, prefetch=2, held=[(first, 1, HELD_WAITS)])
    bench.settle()

    assert bench.handed(5) == [Handed(second, 1, 0, 1, payload=b"2")]


def test_an_unknown_hand_out_is_lost(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    offset = bench.send("tasks")
    bench.settle()
    unknown = [(offset, 7, HELD_BEGUN), (offset + 5, 1, HELD_WAITS)]
    bench.hold("a", session=1, number=2, held=unknown)
    bench.hold("a", session=1, number=3, held=[(3, 1, HELD_WAITS)], hash_=99)
    bench.settle()

    assert bench.leases(1)[1:] == [(2, [offset, offset + 5]), (3, [3])]


def test_a_member_that_left_settles_nothing(bench: SharesBench) -> None:
    """What it held was given back when it left: others are handed it."""
    bench.begin("a", session=1)
    offset = bench.send("tasks")
    bench.settle()
    bench.request(1, "a", unregister=wire_pb2.Unregister(request=1, interests=[HASH]))
    bench.hold("a", session=1, number=2, held=[(offset, 1, HELD_DONE)])
    bench.settle()

    assert bench.leases(1)[1:] == [(2, [offset])]
    bench.begin("b", session=2)
    assert bench.handed(2) == [Handed(offset, 2, 0, 1, payload=b"x")]


def test_keys_are_in_order_over_a_retry(bench: SharesBench) -> None:
    bench.begin("a", session=1, prefetch=3)
    keyed = MessageHeaders(key="k")
    first = bench.send("tasks", headers=keyed)
    second = bench.send("tasks", headers=keyed)
    other = bench.send("tasks")
    bench.settle()
    assert offsets(bench.handed(1)) == [first, other]

    bench.hold("a", session=1, number=2, held=[(first, 1, HELD_BACK, 20), (other, 1, HELD_DONE)])
    bench.settle()
    bench.passes(10_000)
    bench.hold("a", session=1, number=3)
    bench.settle()
    assert bench.handed(1) == []
    bench.passes(11_000)
    assert offsets(bench.handed(1)) == [first]
    bench.hold("a", session=1, number=4, held=[(first, 2, HELD_DONE)])
    bench.settle()
    assert offsets(bench.handed(1)) == [second]


def test_an_expired_message_becomes_a_notice(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    offset = bench.send("tasks", headers=MessageHeaders(expires_at=bench.now_ms - 1))
    bench.settle()

    assert bench.handed(1) == [Handed(offset, 1, 0, 1, wire_pb2.EXPIRED)]
    assert bench.stored_share().base == offset - 1
    bench.hold("a", session=1, number=2, held=[(offset, 1, HELD_DONE)])
    bench.settle()
    assert bench.stored_share().base == offset


def test_removed_messages_become_one_notice(bench: SharesBench) -> None:
    bench.join("a", session=1, since=wire_pb2.SINCE_BEGINNING)
    bench.settle()
    for _ in range(3):
        bench.send("tasks")
    bench.settle()
    bench.remove_below(2)
    bench.engine.channels.on_log_start(bench.retention, 2)
    bench.hold("a", session=1, first=True, prefetch=5)
    bench.settle()

    assert bench.handed(1) == [Handed(0, 1, 0, 1, wire_pb2.RETENTION), Handed(2, 1, 0, 1, payload=b"x")]


def test_a_share_reads_old_messages_in_blocks(bench: SharesBench) -> None:
    sent = [bench.send("tasks" if place % 3 else "others", b"%d" % place) for place in range(30)]
    bench.committed = bench.end
    bench.take_over()
    bench.engine.state.channel_logs[bench.retention].tail = tail.Tail(bench.end, 10**6, 1000)
    bench.read()
    bench.join("a", session=1, since=wire_pb2.SINCE_BEGINNING)
    bench.settle()
    bench.hold("a", session=1, first=True, prefetch=100)
    for _ in range(20):
        bench.settle()

    assert offsets(bench.handed(1)) == [offset for place, offset in enumerate(sent) if place % 3]


def test_a_log_that_was_made_anew_begins_with_other_numbers(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    bench.send("tasks")
    bench.settle()
    bench.handed(1)
    bench.epoch += 1
    bench.log.clear()
    bench.end, bench.committed = 0, None
    bench.take_over()
    bench.join("a", session=1)
    offset = bench.send("tasks", b"new")
    bench.settle()
    bench.hold("a", session=1, number=2, first=True, held=[(offset, 1, HELD_BEGUN)])
    bench.settle()

    assert bench.leases(1)[-1] == (2, [offset])
    (handed,) = bench.handed(1)
    assert (handed.payload, handed.hand_out) == (b"new", 1_000_001)


def test_messages_removed_from_another_log_are_missed_from_its_beginning_on(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    bench.epoch += 1
    bench.log.clear()
    bench.end, bench.committed = 0, None
    for _ in range(3):
        bench.send("tasks")
    bench.remove_below(2)
    bench.take_over()
    bench.begin("a", session=1, prefetch=5)
    bench.settle()

    missed, handed = bench.handed(1)
    assert (missed.offset, missed.reason) == (0, wire_pb2.RETENTION)
    assert handed.offset == 2


def test_large_messages_go_in_several_steps(bench: SharesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_steps, "STEP_BYTES_MAX", 100)
    bench.begin("a", session=1, prefetch=10)
    sent = [bench.send("tasks", b"x" * 60) for _ in range(5)]
    bench.read()
    bench.step()
    assert offsets(bench.handed(1)) == sent[:2]
    bench.settle()
    assert offsets(bench.handed(1)) == sent[2:]


def test_a_log_that_was_not_read_yet_is_gone_on_with_a_second_later(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    sent = bench.send("tasks")
    bench.committed = bench.end
    bench.take_over()
    bench.join("a", session=1)
    bench.settle()
    log = bench.engine.state.channel_logs[bench.retention]
    log.read = 0  # the records before the commit are on their way
    bench.hold("a", session=1, number=2, first=True)
    bench.engine.on_requests(list(enumerate(bench.requests))[-1:], bench.now_ms)
    bench.handled = len(bench.requests)
    bench.step()
    assert bench.handed(1) == []

    log.read = log.position
    bench.passes(1_000)
    assert offsets(bench.handed(1)) == [sent]


def test_a_lost_hand_out_waits_until_its_message_is_read(bench: SharesBench) -> None:
    """A new owner may be behind in the log when a member says that it has nothing of what it was handed."""
    bench.begin("a", session=1)
    sent = bench.send("tasks")
    bench.settle()
    assert offsets(bench.handed(1)) == [sent]
    bench.committed = sent
    bench.take_over()
    bench.join("a", session=5)
    bench.hold("a", session=5, first=True)
    bench.engine.on_requests(list(enumerate(bench.requests))[-2:], bench.now_ms)
    bench.handled = len(bench.requests)
    bench.step()
    assert bench.engine.state.channel_logs[bench.retention].position <= sent
    assert bench.handed(5) == []

    bench.settle()
    assert bench.handed(5) == [Handed(sent, 1, 0, 1, payload=b"x")]


# --- dead letters


def letters(bench: SharesBench) -> list[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
    return [(one.key, one.value, dict(one.headers)) for one in bench.moved]


def test_a_message_becomes_a_dead_letter_after_ten_attempts_and_is_settled_then(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    offset = bench.send("tasks", b"poison", MessageHeaders(source="sender", key="k"))
    bench.settle()
    for number in range(1, 11):
        assert offsets(bench.handed(1)) == [offset]
        begun = [(offset, number, HELD_BEGUN)]
        bench.hold("a", session=1, number=2 * number, held=begun)
        bench.hold("a", session=1, number=2 * number + 1, held=[(offset, number, HELD_BACK)])
        bench.settle()

    assert bench.handed(1) == []
    ((key, value, headers),) = letters(bench)
    assert (key, value) == (f"{PREFIX}tasks.workers.dead".encode(), b"poison")
    assert headers == {
        "id": b"workers/%d" % offset,
        "source": b"sender",
        "key": b"k",
        "why": b"attempts",
        "attempts": b"10",
        "offset": b"%d" % offset,
        "holder": b"a",
    }
    assert bench.stored_share().base == offset


def test_a_rejected_message_is_dead_at_once_and_stays_so_until_its_letter_is_durable(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    offset = bench.send("tasks", b"bad")
    bench.settle()
    bench.hold("a", session=1, number=2, held=[(offset, 1, HELD_REJECTED)])
    bench.handle()
    bench.step(writes_lost=slice(0, 0), told_lost=True)  # durable, and the matcher dies before the next step
    assert bench.stored_share().base == offset - 1

    bench.take_over()
    bench.settle()
    assert [headers["id"] for _, _, headers in letters(bench)] == [b"workers/%d" % offset] * 2
    assert bench.stored_share().base == offset


def test_nobody_else_writes_to_a_channel_of_dead_letters(bench: SharesBench) -> None:
    bench.send("tasks.workers.dead", headers=MessageHeaders(id="workers/1"))
    bench.send("tasks.workers.dead", headers=MessageHeaders(id="workers/1", letter=True))
    bench.settle()

    (rejected,) = bench.rejected
    assert dict(rejected.headers)[REASON_HEADER] == b"channel: takes dead letters, which matchers alone send"


# --- forgetting


def test_a_share_without_members_is_forgotten_after_180_days(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    bench.request(1, "a", unregister=wire_pb2.Unregister(request=1, interests=[HASH]))
    bench.settle()
    bench.passes(2_000)
    assert bench.stored_share().empty_since > 0

    bench.now_ms += FORGOTTEN_AFTER_MS
    bench.passes(3_000)
    assert not bench.stored[TOPICS.shares]
    assert not bench.engine.state.shares.by_key


def test_a_forgotten_client_gives_back(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    offset = bench.send("tasks")
    bench.settle()
    bench.begin("b", session=2)
    bench.request(0, "a", forget=internal_pb2.Forget(reason="gone"))
    bench.settle()

    assert offsets(bench.handed(2)) == [offset]


def test_a_share_whose_record_is_lost_goes_on_from_its_members(bench: SharesBench) -> None:
    bench.begin("a", session=1)
    bench.stored[TOPICS.shares].clear()
    bench.take_over()
    bench.join("a", session=1)
    bench.settle()

    share = bench.engine.state.shares.by_key[f"{PREFIX}workers/{CHANNEL}"]
    assert (share.members, share.definition) == ({"a"}, Definition((), 0, 0))


def test_a_definition_that_was_lost_is_not_made_up_for_the_next_owner(bench: SharesBench) -> None:
    bench.join("a", session=1, attributes=["x"], since=wire_pb2.SINCE_BEGINNING)
    bench.settle()
    bench.stored[TOPICS.shares].clear()
    for _ in range(2):
        bench.take_over()
        bench.settle()
    (share,) = bench.engine.state.shares
    assert (share.definition, share.attributes) == (None, frozenset({"x"}))
    bench.join("a", session=1, attributes=["x"], since=wire_pb2.SINCE_BEGINNING)
    bench.settle()
    bench.take_over()
    (share,) = bench.engine.state.shares
    assert share.definition == Definition(("x",), wire_pb2.SINCE_BEGINNING, 0)


# --- members whose sets are kept here: MQTT clients


def kept_member(bench: SharesBench, session: int, *, client: str = "device", channel: str = CHANNEL) -> None:
    """An MQTT client opens a session, subscribes, and is there."""
    kept = internal_pb2.Kept(expiry_s=3_600, protocol="mqtt 5.0")
    bench.request(session, client, open=internal_pb2.Open(ask=1, shares=True, kept=kept))
    one = wire_pb2.Interest(kind=wire_pb2.INTEREST_SHARE, share="workers", text=channel, options=1, identifier=3)
    bench.request(session, client, register=wire_pb2.Register(request=1, interests=[one]))
    bench.settle()
    bench.hold(client, session=session, first=True)
    bench.settle()


def test_a_kept_client_joins_a_share_as_it_is_and_is_refused_for_an_object(
    bench: SharesBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectMap, "is_published", lambda _, key: key.endswith("/lamp"))
    bench.join("a", session=1, attributes=["x"], since=wire_pb2.SINCE_BEGINNING)
    bench.settle()
    bench.take()
    kept_member(bench, 2)
    kept_member(bench, 3, client="other", channel="lamp")
    said = [item.answered for item in bench.take() if item.HasField("answered")]
    assert [[one.reason for one in answered.refused] for answered in said] == [[], [TOPIC_IS_AN_OBJECT]]
    (share,) = bench.engine.state.shares
    assert share.members == {"a", "device"}


def test_a_kept_clients_lease_lasts_until_its_set_expires_and_it_is_handed_the_message_again(
    bench: SharesBench,
) -> None:
    kept_member(bench, 1)
    bench.begin("other", session=9)
    offset = bench.send(CHANNEL)
    bench.settle()
    (handed,) = bench.handed(1)
    assert (handed.offset, handed.hand_out, handed.attempts) == (offset, 1, 0)
    bench.hold("device", session=1, number=2, held=[(offset, 1, HELD_BEGUN)])
    bench.request(1, "device", leave=internal_pb2.Leave())
    bench.settle()
    for number in range(2, 14):
        bench.passes(LEASE_MS // 3)
        bench.hold("other", session=9, number=number, lease_s=LEASE_S)
        bench.settle()
    assert bench.handed(9) == []

    bench.take()
    bench.request(2, "device", open=internal_pb2.Open(ask=1, shares=True, kept=internal_pb2.Kept(expiry_s=3_600)))
    bench.settle()
    (opened,) = [item.opened for item in bench.take() if item.HasField("opened")]
    (share,) = opened.kept.filters
    assert (share.share, share.text, share.options, share.identifier) == ("workers", CHANNEL, 1, 3)
    bench.hold("device", session=2, first=True)
    bench.settle()
    (again,) = bench.handed(2)
    assert (again.offset, again.hand_out, again.attempts) == (offset, 2, 1)
    bench.request(2, "device", leave=internal_pb2.Leave(bye=True))
    bench.settle()
    assert offsets(bench.handed(9)) == [offset]


def test_a_set_that_is_not_kept_any_more_leaves_its_shares(bench: SharesBench) -> None:
    kept_member(bench, 1)
    bench.request(2, "device", open=internal_pb2.Open(ask=1, shares=True, kept=internal_pb2.Kept(clean=True)))
    bench.settle()
    (share,) = bench.engine.state.shares
    assert not share.members
    opened = [item.opened for item in bench.take() if item.HasField("opened")]
    assert not opened[-1].kept.filters
