"""P13, by histories: what is in order, and each way in which a share may hand out, settle and bury wrongly.

Stands for: shares_kept, share_lines, share_records
"""

from collections.abc import Callable
from typing import Any

import pytest
from coldnotify_checker import judge, read_histories
from coldnotify_checker.histories import (
    End,
    Event,
    HistoryWriter,
    LogTrimmed,
    Published,
    Record,
    Send,
    Topic,
    TopicLost,
)
from coldnotify_checker.share_lines import (
    ShareBegun,
    ShareGivenBack,
    ShareHolding,
    ShareJoined,
    ShareLeaseLost,
    ShareMissed,
    ShareSettled,
    ShareSettling,
)
from coldnotify_checker.shares_kept import NEEDS_A_DUMP, NEEDS_AN_END, WAS_LOST
from coldnotify_schemas.topics import TopicNames

GROUP = "animal.observer/region-1"
CHANNEL, SHARE = f"{GROUP}/tasks", "crew"
KEY = f"{GROUP}/{SHARE}/tasks"
LETTERS = f"{CHANNEL}.{SHARE}.dead"
LOG = "coldnotify.channels.1d"
LEASE_US = 30_000_000
WAITS, HELD, BEGUN, DYING = range(4)


class Desk:
    """A share, its members and its log. What it hands out and settles is first in a record, as it should be."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.t = 1_000_000
        self.offset = -1
        self.base = -1
        self.settled: list[int] = []
        self.handed: dict[int, list[Any]] = {}
        """By offset: number, attempts, state, member, reason."""
        self.generation = 1
        self.epoch = 7
        self._records = 0
        self._dead = 0
        for name in "abc":
            joined = ShareJoined(t=self.t, client=f"{GROUP}/{name}", channel=CHANNEL, share=SHARE, since="oldest")
            self.events.append(joined)
        self.write()

    def tick(self, us: int = 1_000) -> int:
        self.t += us
        return self.t

    def names(self, member: str, offset: int) -> dict[str, Any]:
        number = self.handed[offset][0] if offset in self.handed else 1
        return {
            "t": self.tick(), "client": f"{GROUP}/{member}", "channel": CHANNEL, "share": SHARE, "offset": offset,
            "hand_out": number,
        }  # fmt: skip

    # --- the log

    def send(self, message: str, key: str | None = None, **said: Any) -> int:
        self.offset += 1
        names: dict[str, Any] = {"publisher": "p", "id": message}
        payload = {"of": message}
        self.events.append(
            Send(t=self.tick(), channel=CHANNEL, message=message, payload=payload, key=key, **names, **said)
        )
        self.events.append(Published(t=self.tick(), outcome="acknowledged", offset=self.offset, **names))
        headers = {"id": message, **({} if key is None else {"key": key})}
        self.record(CHANNEL, self.offset, payload, headers)
        return self.offset

    def record(self, channel: str, offset: int, value: Any, headers: dict[str, str]) -> None:
        self.events.append(
            Record(
                t=self.t,
                topic=LOG,
                partition=0,
                offset=offset,
                timestamp=self.t // 1_000,
                key=channel,
                value=value,
                headers=headers,
            )
        )

    def letter(self, offset: int, message: str, why: str, attempts: int, at: int | None = None) -> None:
        self._dead += 1
        self.tick()
        headers = {"id": f"{SHARE}/{offset}", "why": why, "attempts": str(attempts), "offset": str(offset)}
        self.record(LETTERS, 1_000 + self._dead if at is None else at, {"of": message}, headers)

    # --- the owner

    def write(self) -> None:
        """A record of the share, as it is now."""
        while self.base + 1 in self.settled:
            self.base += 1
        runs = [one for offset in sorted(self.settled) if offset > self.base for one in (offset, offset)]
        members = sorted({one[3] for one in self.handed.values() if one[3]})
        table = [
            [offset, number, attempts, state, members.index(member) if member else -1, 30, reason, -1]
            for offset, (number, attempts, state, member, reason) in sorted(self.handed.items())
        ]
        value = {
            "format": 1, "generation": self.generation, "applied": 0, "epoch": self.epoch, "base": self.base,
            "settled": runs, "members": members, "handed_out": table,
        }  # fmt: skip
        self.tick()
        self.events.append(
            Record(
                t=self.t,
                topic="coldnotify.shares",
                partition=0,
                offset=self._records,
                timestamp=self.t // 1_000,
                key=KEY,
                value=value,
            )
        )
        self._records += 1

    def hand(self, member: str, offset: int, reason: int = 0) -> None:
        number, attempts, *_ = self.handed.get(offset, [0, 0])
        self.handed[offset] = [number + 1, attempts, HELD, member, reason]
        self.write()

    def close(self, offset: int) -> None:
        self.handed.pop(offset, None)
        self.settled.append(offset)
        self.write()

    # --- members

    def begin(self, member: str, offset: int, lease_us: int = LEASE_US, *, counts: bool = True) -> None:
        names = self.names(member, offset)
        messages = {one.offset: one for one in self.events if isinstance(one, Record) and one.key == CHANNEL}
        said = messages[offset].headers
        attempts = self.handed[offset][1] if offset in self.handed else 0
        until = names["t"] + lease_us
        self.events.append(ShareBegun(attempts=attempts, message=said["id"], key=said.get("key"), until=until, **names))
        if counts:
            self.handed[offset][1:3] = attempts + 1, BEGUN
            self.write()

    def work(self, member: str, offset: int) -> None:
        """Hand it out, and begin."""
        self.hand(member, offset)
        self.begin(member, offset)

    def settle(self, member: str, offset: int, *, answered: bool = True) -> None:
        names = self.names(member, offset)
        self.events.append(ShareSettling(**names))
        self.close(offset)
        if answered:
            self.events.append(ShareSettled(**{**names, "t": self.tick()}))

    def do(self, member: str, *offsets: int) -> None:
        for offset in offsets:
            self.work(member, offset)
            self.settle(member, offset)

    def back(self, member: str, offset: int, how: Any = "failed") -> None:
        self.events.append(ShareGivenBack(how=how, **self.names(member, offset)))
        self.handed[offset][2:4] = DYING if how == "rejected" else WAITS, ""
        self.write()

    def lose(self, member: str, offset: int) -> None:
        """Its lease is over."""
        self.tick(LEASE_US)
        self.events.append(ShareLeaseLost(**self.names(member, offset)))
        self.handed[offset][2:4] = WAITS, ""
        self.write()

    def miss(self, member: str, offset: int, before: int, reason: str) -> None:
        self.hand(member, offset, reason=1)
        names = {"client": f"{GROUP}/{member}", "channel": CHANNEL, "share": SHARE}
        self.events.append(ShareMissed(t=self.tick(), after=offset - 1, before=before, reason=reason, **names))
        for one in range(offset, before):
            self.handed.pop(one, None)
            self.settled.append(one)
        self.write()

    # ---

    def end(self, starts: int = 0) -> None:
        topics = ("coldnotify.shares", *TopicNames().channels)
        self.events.append(End(t=self.tick(), connected=[]))
        for topic in topics:
            self.events.append(Topic(t=self.t, topic=topic, partitions=1, starts=[starts if topic == LOG else 0]))

    def wrong(self) -> list[str]:
        return [one.what for one in judge(self.events).violations if one.promise == "P13"]


def at_work() -> Desk:
    """Three tasks are done, and the fourth one, sent meanwhile, is in b's hand."""
    desk = Desk()
    for number in range(4):
        desk.send(f"m{number}")
    desk.do("a", 0, 2)
    desk.do("b", 1)
    desk.work("b", 3)
    return desk


def test_work_that_is_divided_is_in_order() -> None:
    desk = at_work()
    desk.settle("b", 3)
    desk.end()
    verdict = judge(desk.events)
    assert verdict.clean
    assert (verdict.statistics.shared_begun, verdict.statistics.shared_settled) == (4, 4)
    assert "P13" not in verdict.judged_in_part


def test_losses_retries_and_takeovers_are_in_order() -> None:
    desk = at_work()
    desk.generation = 2
    desk.lose("b", 3)
    desk.work("c", 3)
    desk.back("c", 3, "retry")
    desk.work("a", 3)
    desk.settle("a", 3, answered=False)
    desk.end()
    assert not desk.wrong()


def test_a_former_owner_is_not_heard_any_more() -> None:
    desk = at_work()
    desk.settle("b", 3)
    desk.generation, settled = 2, desk.settled
    desk.write()
    desk.generation, desk.settled = 1, []
    desk.hand("a", 3)
    desk.generation, desk.settled, desk.handed = 2, settled, {}
    desk.write()
    desk.end()
    assert not desk.wrong()


def test_dead_and_missing_ones_are_in_order() -> None:
    desk = at_work()
    desk.settle("b", 3)
    for number, key in ((4, "k"), (5, "k"), (6, None)):
        desk.send(f"m{number}", key, **({"expires_at": 1} if number == 6 else {}))
    for _ in range(10):
        desk.work("a", 4)
        desk.back("a", 4)
    desk.handed[4][2:4] = DYING, ""
    desk.write()
    desk.letter(4, "m4", "attempts", 10)
    desk.letter(4, "m4", "attempts", 10)  # its owner died in between
    desk.close(4)
    desk.work("a", 5)
    desk.back("a", 5, "rejected")
    desk.letter(5, "m5", "rejected", 1)
    desk.close(5)
    desk.miss("b", 6, 7, "expired")
    desk.end()
    assert not desk.wrong()
    assert judge(desk.events).statistics.dead_letters == 2


def test_messages_are_owed_as_missing_behind_retention() -> None:
    desk = at_work()
    desk.settle("b", 3)
    desk.send("m4")
    desk.events.append(LogTrimmed(t=desk.tick(), topic=LOG, partition=0, offset=5))
    desk.miss("c", 4, 5, "retention")
    desk.end(starts=5)
    assert not desk.wrong()


def test_a_repeat_of_a_record_that_is_gone_is_in_nobodys_way() -> None:
    desk = at_work()
    desk.settle("b", 3)
    gone = desk.send("m4", "k")
    desk.events = [one for one in desk.events if getattr(one, "offset", None) != gone or not isinstance(one, Published)]
    desk.events.append(LogTrimmed(t=desk.tick(), topic=LOG, partition=0, offset=gone + 1))
    desk.offset += 1
    again: dict[str, Any] = {"channel": CHANNEL, "message": "m4", "payload": {"of": "m4"}, "key": "k"}
    desk.events.append(Send(t=desk.tick(), publisher="p", id="again", **again))
    desk.events.append(Published(t=desk.tick(), publisher="p", id="again", outcome="acknowledged", offset=desk.offset))
    desk.record(CHANNEL, desk.offset, {"of": "m4"}, {"id": "m4", "key": "k"})
    desk.events = [one for one in desk.events if not isinstance(one, Record) or (one.topic, one.offset) != (LOG, gone)]
    desk.miss("c", gone, gone + 1, "retention")
    desk.settled.append(desk.offset)
    desk.do("a", desk.send("m5", "k"))
    desk.end(starts=gone + 1)
    assert not desk.wrong()


def test_another_log_begins_with_other_offsets() -> None:
    desk = at_work()
    desk.events.append(TopicLost(t=desk.tick(), topic=LOG, begun=desk.t - 10))
    desk.events = [one for one in desk.events if not isinstance(one, Record) or one.topic != LOG]
    desk.epoch, desk.base, desk.settled, desk.handed, desk.offset = 8, -1, [], {}, -1
    desk.write()
    desk.send("n0")
    desk.handed[0] = [1_000_000, 0, WAITS, "", 0]
    desk.work("a", 0)
    desk.settle("a", 0)
    desk.end()
    assert not desk.wrong()
    desk.send("n1")
    assert "is neither settled nor dead nor missing" in desk.wrong()[0]


def test_a_dead_letter_of_a_log_that_was_lost_may_be_written_to_the_next_one() -> None:
    desk = at_work()
    desk.back("b", 3, "rejected")
    desk.events.append(TopicLost(t=desk.tick(), topic=LOG, begun=desk.t - 10))
    desk.events = [one for one in desk.events if not isinstance(one, Record) or one.topic != LOG]
    desk.letter(3, "m3", "rejected", 1)
    desk.epoch, desk.base, desk.settled, desk.handed, desk.offset = 8, -1, [], {}, -1
    desk.write()
    desk.send("n0")
    desk.handed[0] = [1_000_000, 0, WAITS, "", 0]
    desk.do("a", 0)
    desk.end()
    assert not desk.wrong()


def test_a_history_without_shares_has_nothing_to_judge_and_one_without_a_dump_says_so() -> None:
    assert "P13" not in judge([End(t=1, connected=[])]).judged_in_part
    desk = at_work()
    assert judge(desk.events).judged_in_part["P13"] == NEEDS_A_DUMP
    desk.end()
    desk.events = [one for one in desk.events if not isinstance(one, End)]
    assert judge(desk.events).judged_in_part["P13"] == NEEDS_AN_END
    desk.events.append(TopicLost(t=desk.tick(), topic="coldnotify.shares"))
    assert judge(desk.events).judged_in_part["P13"] == WAS_LOST


def test_each_line_is_read_back(tmp_path: Any) -> None:
    desk = at_work()
    desk.settle("b", 3)
    with HistoryWriter(tmp_path / "history.jsonl") as writer:
        for event in desk.events:
            writer.write(event)
    back = read_histories([tmp_path / "history.jsonl"])
    lines = [type(one) for one in back]
    assert sorted(map(str, lines)) == sorted(str(type(one)) for one in desk.events)


def test_strangers_values_in_the_topic_are_passed_over() -> None:
    desk = at_work()
    desk.settle("b", 3)
    for value in (7, {"base": "x"}, {"handed_out": [[1]]}, {"settled": 3}, {"handed_out": [[1, 1, 1, 1, 9]]}):
        desk.events.append(
            Record(t=desk.t, topic="coldnotify.shares", partition=0, offset=900, timestamp=1, key=KEY, value=value)
        )
    desk.end()
    assert not desk.wrong()


# --- bugs


def the_lease_is_not_inherited(desk: Desk) -> None:
    desk.generation = 2
    desk.work("c", 3)


def the_lease_ends_with_the_session(desk: Desk) -> None:
    desk.handed[3][2:4] = WAITS, ""
    desk.write()
    desk.tick(5_000_000)
    desk.hand("c", 3)


def a_takeover_shortens_a_prolonged_lease(desk: Desk) -> None:
    desk.tick(LEASE_US - 2_000)
    desk.events.append(ShareHolding(until=desk.t + LEASE_US, **desk.names("b", 3)))
    desk.generation = 2
    desk.tick(2_000_000)
    desk.work("c", 3)


def two_hold_one_hand_out(desk: Desk) -> None:
    desk.handed[3][3] = "c"
    desk.write()


def an_answered_settlement_is_forgotten(desk: Desk) -> None:
    desk.settle("b", 3)
    desk.settled.remove(3)
    desk.base = min(desk.base, 2)
    desk.handed[3] = [1, 1, WAITS, "", 0]
    desk.work("c", 3)


def it_is_settled_twice_as_the_record_lags(desk: Desk) -> None:
    desk.events.append(ShareSettling(**desk.names("b", 3)))
    desk.events.append(ShareSettled(**desk.names("b", 3)))
    desk.tick(LEASE_US)
    desk.work("c", 3)


def an_earlier_hand_out_settles(desk: Desk) -> None:
    names = desk.names("b", 3)
    desk.lose("b", 3)
    desk.work("c", 3)
    desk.events.append(ShareSettling(**{**names, "t": desk.tick()}))
    desk.close(3)


def an_earlier_hand_out_is_answered(desk: Desk) -> None:
    names = desk.names("b", 3)
    desk.lose("b", 3)
    desk.work("c", 3)
    desk.events.append(ShareSettling(**{**names, "t": desk.tick()}))
    desk.events.append(ShareSettled(**{**names, "t": desk.tick()}))
    desk.settle("c", 3)


def a_message_counts_as_settled_for_nothing(desk: Desk) -> None:
    desk.close(3)


def a_message_is_passed_over(desk: Desk) -> None:
    desk.settle("b", 3)
    offset = desk.send("m4")
    desk.close(offset)


def a_message_is_forgotten(desk: Desk) -> None:
    desk.settle("b", 3)
    desk.send("m4")


def the_base_goes_back(desk: Desk) -> None:
    desk.settle("b", 3)
    desk.base, desk.settled = 1, []
    desk.write()


def a_retry_does_not_keep_the_next_of_its_key(desk: Desk) -> None:
    first, second = desk.send("m4", "k"), desk.send("m5", "k")
    desk.work("a", first)
    desk.back("a", first, "retry")
    desk.do("c", second)
    desk.do("a", first)


def the_next_of_a_key_is_begun_while_the_first_one_is(desk: Desk) -> None:
    first, second = desk.send("m4", "k"), desk.send("m5", "k")
    desk.work("a", first)
    desk.work("c", second)
    desk.settle("c", second)
    desk.settle("a", first)


def a_hand_out_counts_as_an_attempt(desk: Desk) -> None:
    offset = desk.send("m4")
    desk.hand("a", offset)
    desk.handed[offset][1:4] = 1, WAITS, ""
    desk.write()
    desk.work("c", offset)


def a_dead_letter_is_too_early(desk: Desk) -> None:
    desk.back("b", 3)
    desk.handed[3][2:4] = DYING, ""
    desk.write()
    desk.letter(3, "m3", "attempts", 1)
    desk.close(3)


def a_dead_letter_counts_what_had_not_begun(desk: Desk) -> None:
    desk.back("b", 3)
    desk.handed[3][1:4] = 10, DYING, ""
    desk.write()
    desk.letter(3, "m3", "attempts", 10)
    desk.close(3)


def a_dead_letter_is_told_twice(desk: Desk) -> None:
    desk.back("b", 3, "rejected")
    desk.letter(3, "m3", "rejected", 1)
    desk.letter(3, "m3", "rejected", 1, at=20_000)
    desk.close(3)


def nobody_rejected_it(desk: Desk) -> None:
    desk.back("b", 3)
    desk.handed[3][2:4] = DYING, ""
    desk.write()
    desk.letter(3, "m3", "rejected", 1)
    desk.close(3)


def a_dead_letter_is_of_what_was_done(desk: Desk) -> None:
    desk.settle("b", 3)
    desk.letter(3, "m3", "rejected", 1)


def a_dead_letter_says_something_else(desk: Desk) -> None:
    desk.back("b", 3, "rejected")
    desk.letter(3, "another", "rejected", 1)
    desk.close(3)


def a_dead_letter_is_nowhere(desk: Desk) -> None:
    desk.back("b", 3, "rejected")
    desk.close(3)


def what_had_not_expired_is_missing(desk: Desk) -> None:
    desk.miss("b", desk.send("m4", expires_at=9_000_000), 5, "expired")


def what_is_still_there_is_missing(desk: Desk) -> None:
    desk.miss("b", desk.send("m4"), 5, "retention")


def it_is_missing_for_no_reason(desk: Desk) -> None:
    desk.miss("b", desk.send("m4"), 5, "unreadable")


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        (the_lease_is_not_inherited, "which animal.observer/region-1/b has"),
        (the_lease_ends_with_the_session, "c is handed the message at 3"),
        (a_takeover_shortens_a_prolonged_lease, "which animal.observer/region-1/b has"),
        (two_hold_one_hand_out, "is b's and c's"),
        (an_answered_settlement_is_forgotten, "was settled, and is handed out again"),
        (it_is_settled_twice_as_the_record_lags, "was answered as settled, and animal.observer/region-1/c is handed"),
        (an_earlier_hand_out_settles, "is settled, and hand-out 2 of it was not"),
        (an_earlier_hand_out_is_answered, "hand-out 1 has settled"),
        (a_message_counts_as_settled_for_nothing, "is settled, and hand-out 1 of it was not"),
        (a_message_is_passed_over, "counts as settled, and nobody has settled it"),
        (a_message_is_forgotten, "is neither settled nor dead nor missing at the end"),
        (the_base_goes_back, "goes back to 1"),
        (a_retry_does_not_keep_the_next_of_its_key, "is handed out before 4 is closed, of key k"),
        (the_next_of_a_key_is_begun_while_the_first_one_is, "is handed out before 4 is closed, of key k"),
        (a_hand_out_counts_as_an_attempt, "has 1 attempts, and 0 callbacks had begun"),
        (a_dead_letter_is_too_early, "has 1 attempts, which are too few"),
        (a_dead_letter_counts_what_had_not_begun, "has 10 attempts, and 1 callbacks had begun"),
        (a_dead_letter_is_told_twice, "is told twice"),
        (nobody_rejected_it, "nobody has rejected it"),
        (a_dead_letter_is_of_what_was_done, "was written after it was settled"),
        (a_dead_letter_says_something_else, "says something else than the message"),
        (a_dead_letter_is_nowhere, "its dead letter is nowhere"),
        (what_had_not_expired_is_missing, "it had not expired"),
        (what_is_still_there_is_missing, "it is still there"),
        (it_is_missing_for_no_reason, "unreadable is not a reason"),
    ],
)
def test_a_bug_of_shares_is_found(bug: Callable[[Desk], None], words: str) -> None:
    desk = at_work()
    bug(desk)
    desk.end()
    found = desk.wrong()
    assert any(words in one for one in found), found


def test_members_alone_are_judged_without_a_dump() -> None:
    desk = at_work()
    desk.generation = 2
    desk.work("c", 3)
    desk.events = [one for one in desk.events if not isinstance(one, Record)]
    (found,) = desk.wrong()
    assert "c has the message at 3" in found


def test_a_member_that_was_stopped_before_its_callback_breaks_nothing() -> None:
    desk = at_work()
    desk.hand("c", desk.send("m4"))
    late = desk.names("c", 4)
    desk.tick(LEASE_US)
    desk.handed[4][2:4] = WAITS, ""
    desk.write()
    desk.work("a", 4)
    desk.events.append(
        ShareBegun(attempts=0, message="m4", key=None, until=late["t"] + LEASE_US, **{**late, "t": desk.tick()})
    )
    desk.settle("a", 4)
    desk.settle("b", 3)
    desk.end()
    assert not desk.wrong()
