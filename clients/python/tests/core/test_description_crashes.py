"""Frames, callbacks, crashes and restarts in any order, with queries that ask for descriptions: once it is caught up,
an application was told how each member is described, and no document says more than that.

Stands for: member_descriptions, asked_descriptions
"""

import json
from collections.abc import Collection
from typing import Any

import pytest
from coldnotify._core.delivery.asked_descriptions import AskedDescriptions
from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.delivery.member_descriptions import MemberDescriptions, parsed_description
from coldnotify._core.delivery.membership import Membership
from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.document.document import Document
from coldnotify._core.driver import CallCallbacks
from coldnotify._core.interests.interests import QueryInterest
from coldnotify_testkit.examples import examples
from coldnotify_testkit.querying_unit import NAMES, QUERIES, QueryingUnit

VALUES = [b"", b"{}", b'{"Room":1}', b'{"Room":2}', b'{"Room":1,"on":true}']


class DescribedUnit(QueryingUnit):
    """An application that asks for the descriptions of some queries, and may ask for others after a restart."""

    def __init__(self, seed: int, *, steps: int = 150) -> None:
        self.settles = False
        self.asks: set[str] = set()
        self.described: dict[str, dict[str, Any]] = {query.text: {} for query in QUERIES}
        """By query: what it was told last of each member's description."""
        super().__init__(seed, steps=steps)

    def start(self) -> None:
        self.asks = {query.text for query in QUERIES if self.random.random() < 0.7}
        super().start()
        self.ask()

    def ask(self) -> None:
        for text in self.wish & set(self.told):
            self.driver.application.ask_descriptions(QueryInterest(text), wanted=text in self.asks)

    def wishes(self) -> None:
        before = set(self.wish)
        super().wishes()
        self.ask()
        for text in before - self.wish:
            self.described.get(text, {}).clear()

    def change(self) -> None:
        if self.random.random() < 0.4:
            self.service.describe(self.random.choice(NAMES), self.random.choice(VALUES))
        else:
            super().change()

    def change_release(self) -> None:
        """One that tells no descriptions is older; one that knows no queries tells none."""
        super().change_release()
        self.service.tells_descriptions = self.service.knows_queries and (self.settles or self.random.random() < 0.5)

    def hear(self, call: CallCallbacks, failed: Collection[int] = ()) -> None:
        job = call.job
        if isinstance(job, CallbackJob):
            for number in set(job.subscribers) - {1, *failed}:
                text = QUERIES[number - 10].text
                if text not in self.deaf:
                    self.described[text][job.notification.object_id] = job.notification.description
            if job.notification.version is None:
                self.log.append(f"HEARS {job}")
                if 1 in job.subscribers and 1 not in failed and job.notification.object_id not in self.deaf:
                    self.by_name[job.notification.object_id] = None
                return
        super().hear(call, failed)

    def check(self, document: Document) -> None:
        super().check(document)
        if document.cursor is None or document.epoch != self.service.epoch:
            return
        for text, kept in document.queries.items():
            if text in document.pending_queries or text not in self.wish or kept.descriptions is None:
                continue
            if not self.with_values[text] or kept.dropped or text not in self.asks:
                continue
            for name in kept.descriptions:
                said, since = self.service.descriptions.get(name, (b"", 0))
                changed = self.service.changed_at.get(text, {}).get(name, 0)
                if max(since, changed) <= document.cursor and name in self.service.members(text):
                    told = self.described[text].get(name, "nothing")
                    assert told == parsed_description(said), f"{name} of {text} would stay {told}: {document}"

    def settle(self) -> None:
        self.settles = self.service.tells_descriptions = True
        super().settle()
        for text in self.wish & set(self.told) & self.asks:
            members = self.service.members(text)
            now = {name: parsed_description(self.service.descriptions.get(name, (b"", 0))[0]) for name in members}
            assert self.driver.application.descriptions(QueryInterest(text)) == now, text
            if self.with_values[text]:
                # Of what was never published, and has no description, there is nothing to be told.
                told = {name: self.described[text].get(name) for name in members}
                assert told == now, (text, told, now)


@pytest.mark.parametrize("seed", range(examples(0.2)))
def test_any_order(seed: int) -> None:
    for one in range(seed * 10, seed * 10 + 10):
        DescribedUnit(one)


def _said_is_told(self: MemberDescriptions, name: str, description: bytes, _telling: bytes | None = None) -> bool:
    before = self.told.get(name)
    self.told[name] = description
    return before != description


BUGS: dict[str, tuple[object, str, object]] = {
    "what was only said is in the document": (MemberDescriptions, "say", _said_is_told),
    "what differs is told to nobody": (Delivery, "_tell_description", lambda *said: said[2]),
    "what an older service did not say is not asked for": (Membership, "undescribed", property(lambda _: False)),
    "an older service's silence is no change": (AskedDescriptions, "welcomed", lambda *_, **__: None),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    with pytest.raises((AssertionError, KeyError)):
        _play(range(2000))


def _play(seeds: range) -> None:
    for seed in seeds:
        DescribedUnit(seed)


@pytest.mark.parametrize("said", [None, b"", b"nonsense", b"[1]", b"[" * 100_000])
def test_an_invalid_description_parses_as_none(said: bytes | None) -> None:
    assert parsed_description(said) is None


def test_a_description_is_as_the_publisher_wrote_it() -> None:
    description: dict[str, Any] = {"Room": 410, "on": True, "note": "by the door"}
    assert parsed_description(json.dumps(description).encode()) == description


def test_the_last_description_from_the_service_wins_and_the_delivered_one_is_kept() -> None:
    one = MemberDescriptions({"a": b"{}"})
    one.told_as("a", b"{}")
    assert not one.say("a", b"{}")
    assert one.say("a", b"")
    assert (one.get("a"), one.told["a"]) == (b"", b"{}")
    assert [one.applied("a"), one.applied("a")] == [True, False]
    assert one.told["a"] == b""
    assert [one.lack(["a", "b"]), one.lack(["a"])] == [True, False]
    assert [one.forget_all(), one.forget_all()] == [True, False]
    assert one.lack(["a"])
