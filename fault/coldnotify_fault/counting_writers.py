"""The writers with conditions: they count with one object, and publish sets of several, by HTTP, whatever is killed.

Each writer has its own idea of the newest versions, by its answers. The checker judges what became of it (P12);
`lost_updates` compares the number that the counter has at the end with what was accepted.
"""

import json
import random
import threading
from collections.abc import Iterable
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from coldnotify.http_publisher import HttpPublisher, PublishError, SetConflict, VersionConflict
from coldnotify_checker.histories import Event, Publish, Published, TopicLost
from coldnotify_checker.topic_contents import DumpedTopics

from coldnotify_fault.history import HistoryFile
from coldnotify_fault.schedule import COUNTED, COUNTED_GROUP, COUNTER

WRITERS = 4
_SET_WRITERS = 2
_EVERY_S = 0.25
_TIMEOUT_S = 8.0
"""A writer repeats a publish so long, with its id; then its outcome is unknown."""
_JOIN_S = 40.0
_MEMBERS = tuple(name for name in COUNTED if name != COUNTER)


class CountingWriters:
    """Threads that write, until they are stopped."""

    def __init__(self, http_url: str, history: HistoryFile, seed: int) -> None:
        self._http_url = http_url
        self._history = history
        self._domain, self._group = COUNTED_GROUP.split("/")
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(
                target=run, args=(f"{kind}-{number}", random.Random(f"{seed} {kind} {number}")), daemon=True
            )
            for kind, run, writers in (("counts", self._count, WRITERS), ("sets", self._write_sets, _SET_WRITERS))
            for number in range(1, writers + 1)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends them, once what is in progress is answered."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _count(self, name: str, draw: random.Random) -> None:
        publisher, number = HttpPublisher(self._http_url, timeout_s=_TIMEOUT_S), 0
        newest = self._newest(COUNTER)
        while not self._stopping.wait(_EVERY_S * draw.uniform(0.5, 1.5)):
            number += 1
            counted = 0 if newest is None else newest + 1
            # The number is the version, too: so a refusal says both.
            said: dict[str, Any] = {"payload": {"n": counted, "by": f"{name}/{number}"}, "version": counted}
            said |= {"if_absent": True} if newest is None else {"if_version": newest}
            object_ = f"{COUNTED_GROUP}/{COUNTER}"
            self._history.write("publish", publisher=name, id=number, object=object_, path="http", **said)
            try:
                newest = publisher.publish(self._domain, self._group, COUNTER, **said).version
            except VersionConflict as conflict:
                newest = _version(conflict.newest)
                self._history.write("published", publisher=name, id=number, outcome="failed", lost=True, newest=newest)
            except PublishError as error:
                outcome = "unknown" if error.indeterminate else "failed"
                self._history.write("published", publisher=name, id=number, outcome=outcome, why=str(error))
                newest = self._newest(COUNTER)
            else:
                self._history.write("published", publisher=name, id=number, outcome="acknowledged", version=newest)

    def _write_sets(self, name: str, draw: random.Random) -> None:
        publisher, number = HttpPublisher(self._http_url, timeout_s=_TIMEOUT_S), 0
        newest: dict[str, int | None] = {}
        while not self._stopping.wait(_EVERY_S * draw.uniform(0.5, 2.5)):
            number += 1
            members = draw.sample(_MEMBERS, draw.randint(2, len(_MEMBERS)))
            named: dict[str, dict[str, Any]] = {}
            for member in members:
                said: dict[str, Any] = {"payload": f"{name}/{number}"}
                if member in newest and draw.random() < 0.7:
                    version = newest[member]
                    said |= {"if_absent": True} if version is None else {"if_version": version}
                named[member] = said
                self._history.write(
                    "publish", publisher=name, id=f"{number}-{member}", object=f"{COUNTED_GROUP}/{member}",
                    path="http", atomic=str(number), **said,
                )  # fmt: skip
            outcome: dict[str, dict[str, Any]]
            try:
                receipts = publisher.publish_atomic(self._domain, self._group, named)
            except SetConflict as conflict:
                found = {member: _version(fault.newest) for member, fault in conflict.members.items()}
                newest |= found
                outcome = {one: {"outcome": "failed", "lost": True, "newest": found.get(one)} for one in members}
            except PublishError as error:
                newest.clear()
                said = {"outcome": "unknown" if error.indeterminate else "failed", "why": str(error)}
                outcome = dict.fromkeys(members, said)
            else:
                done = {member: receipt.version for member, receipt in zip(members, receipts, strict=True)}
                newest |= done
                outcome = {one: {"outcome": "acknowledged", "version": version} for one, version in done.items()}
            for member in members:
                self._history.write("published", publisher=name, id=f"{number}-{member}", **outcome[member])

    def _newest(self, name: str) -> int | None:
        """Returns the object's newest version; None: it has none. Asks until it is answered, or the writers stop."""
        path = f"/v1/domains/{self._domain}/groups/{self._group}/objects/{quote(name, safe='')}"
        while not self._stopping.wait(_EVERY_S):
            try:
                with urlopen(self._http_url + path, timeout=_TIMEOUT_S) as answer:
                    version: int | None = json.load(answer)["version"]
                    return version
            except HTTPError as error:
                with error:
                    if error.code == 404:
                        return None
            except (OSError, HTTPException, ValueError):
                continue  # the service, or the matcher behind it, is away
        return None


def lost_updates(events: Iterable[Event], topics: DumpedTopics) -> list[str]:
    """Returns a sentence if the counter is not as high as what was accepted since the topic was last lost, or higher
    than that and all that is unknown."""
    object_ = f"{COUNTED_GROUP}/{COUNTER}"
    events = list(events)
    lost_us = max(
        (one.t for one in events if isinstance(one, TopicLost) and one.topic == topics.names.objects), default=0
    )
    begun = {(one.publisher, one.id): one for one in events if isinstance(one, Publish) and one.object == object_}
    answers = {(one.publisher, one.id): one for one in events if isinstance(one, Published)}
    calls = [(call, answers.get(name)) for name, call in begun.items()]
    sure = [call for call, answer in calls if answer is not None and answer.outcome == "acknowledged"]
    # What makes the counter counts from 0, and is no increment.
    accepted = sum(call.t > lost_us and not call.if_absent for call in sure)
    perhaps = sum(answer is None or answer.outcome == "unknown" for _, answer in calls)
    perhaps += sum(call.t <= lost_us for call in sure)
    held = topics.newest.get(object_)
    if held is None:
        return [f"{object_} is not there, and {accepted} increments were accepted"] if accepted else []
    counted = held.record.value["payload"]["n"]
    if accepted <= counted <= accepted + perhaps:
        return []
    return [f"{object_} is {counted}, and {accepted} increments were accepted, and {perhaps} perhaps"]


def _version(newest: object) -> int | None:
    version: int | None = getattr(newest, "version", None)
    return version
