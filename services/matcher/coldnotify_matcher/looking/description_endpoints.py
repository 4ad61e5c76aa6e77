"""Descriptions over HTTP, at the matcher that serves the object's partition: read, merged and written.

A change is answered once it is durable and part of the base of the next one. If one of two matchers does not know yet
that it has lost the partition, this holds without any lock (docs/adr/0030-descriptions-by-http.md):

1. The time is taken. It is the record's version, unless the one in force is as high; then it is one more.
2. The ends of the objects and of the claims are requested, and waited for until they are read. If the partition is
   still served then, nobody had claimed it, and the base of the merge contains all acknowledged changes.
3. The record is written. A matcher that has claimed the partition since has a later time, and outdoes a late record.
4. The ends are requested again. If the partition is still served, the record precedes any claim of another.

Patches of the same description that clients publish wait meanwhile, and a change waits for those that are being written
(engine/objects/merged_patches.py).
"""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_common.security.shared import Full, Shared
from coldnotify_common.security.shares import share_of
from coldnotify_schemas.descriptions import (
    Description,
    description_key,
    encode_description_record,
    merge_patch,
    parse_description,
    parse_patch,
)
from coldnotify_schemas.names import check_object
from coldnotify_schemas.records import InvalidRecord

from coldnotify_matcher.asked_writes import Headers, NotWritten
from coldnotify_matcher.engine.objects.description_store import NEVER, StoredDescription
from coldnotify_matcher.engine.objects.merged_patches import Place
from coldnotify_matcher.looking.reading_up import AskedEnds, ReadingUp
from coldnotify_matcher.looking.state_endpoints import HasWorker, Look, in_a_thread, partition_for, show_description
from coldnotify_matcher.matcher_partition import MatcherPartition

T = TypeVar("T")

CHANGE_S = 8.0
"""For one change, from its arrival to its answer. The HTTP service waits for 10 s by default."""
CHANGES_MAX = 1_000
"""Maximum of changes under way, or waiting for another of the same object; half of them for one domain."""
MADE_S = 0.02
"""Patches that are being written are in the log within a step."""
NOT_WRITTEN, MAY_BE_WRITTEN = "not written", "unknown: it may be written"
NO_REVISION = "none"
"""For `if_revision`: the object never had a description."""

_REVISION = re.compile(r"[0-9a-f]{8}\.[0-9]{1,19}")
_RETRY_AFTER_S = "1"


class DescriptionWrites(AskedEnds, Protocol):
    """The methods of AskedWrites that this module needs."""

    async def write(self, partition: int, key: bytes, value: bytes, timestamp_ms: int, headers: Headers = ()) -> int:
        """Returns the record's offset, once it is durable; -1: Kafka does not say. Raises NotWritten."""


def routes(current: HasWorker, log: DescriptionWrites) -> list[web.AbstractRouteDef]:
    """Routes for one object's description. They precede those that take any path for an object's name."""
    pages = DescriptionEndpoints(current, log)
    path = "/v1/domains/{domain}/groups/{group}/objects/{object:(?s:.+)}/description"
    return [
        web.get(path, in_a_thread(pages.description)),
        web.put(path, pages.put),
        web.patch(path, pages.patch),
        web.delete(path, pages.delete),
    ]


class _Conflict(Exception):
    """The description has another revision than the requested one."""

    def __init__(self, shown: dict[str, Any]) -> None:
        super().__init__()
        self.shown = shown
        """The description in force."""


class _Known(NamedTuple):
    """A description at one time."""

    description: Description | None
    version: int
    offset: int
    """Offset of the record that made it what it is."""
    headers: Headers = ()
    """Headers of a record that is made from it."""
    is_made: bool = False
    """True if patches have made another one, which is not in the log yet."""

    @classmethod
    def of(cls, described: StoredDescription | None) -> "_Known":
        """Makes it from the stored one; NEVER, if there was no record."""
        if described is None:
            return cls(None, NEVER, NEVER)
        return cls(described.description, described.version, described.offset)

    def shown(self, epoch: int) -> dict[str, Any]:
        """Returns the fields for HTTP answers."""
        return {
            "description": None if self.description is None else show_description(self.description),
            "version": self.version if self.version != NEVER else None,
            "revision": f"{epoch:08x}.{self.offset}" if self.offset != NEVER else None,
        }


class _Change(NamedTuple):
    """A requested change."""

    domain: str
    group: str
    name: str
    make: Callable[[Description | None], Description | None]
    """Returns the wanted description for the one in force. Raises InvalidRecord."""
    if_revision: str | None

    @property
    def key(self) -> str:
        """Key of the description's records."""
        return description_key(self.domain, self.group, self.name)

    @property
    def place(self) -> Place:
        """The object's group, and its name."""
        return f"{self.domain}/{self.group}", self.name


class DescriptionEndpoints:
    """The handlers. Changes run in the event loop, and read the partition's state in threads."""

    def __init__(
        self, current: HasWorker, log: DescriptionWrites, *, change_s: float = CHANGE_S, changes_max: int = CHANGES_MAX
    ) -> None:
        self._current = current
        self._log = log
        self._look = Look(current)
        self._reading = ReadingUp(current, log)
        self._change_s = change_s
        self._changes = Shared(changes_max, share_of(changes_max))
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By the records' key: the lock for changes of that object's description."""

    def description(self, request: web.Request) -> web.Response:
        """GET .../objects/{object}/description: the one in force; null if there is none."""
        name = check_object(request.match_info["object"])
        with self._look.served(request) as (prefix, partition):
            engine = partition.engine
            described = engine.state.descriptions.of(prefix[:-1], name)
            if described is None and prefix + name not in engine.state.objects:
                return error_response(404, f"object: {prefix}{name} is not known")
            shown = _Known.of(described).shown(engine.state.epoch)
        return json_answer({"object": name, **shown})

    async def put(self, request: web.Request) -> web.Response:
        """PUT .../objects/{object}/description?if_revision: sets the whole map."""
        wanted = _understood(parse_description, await request.read())
        return await self._changed(request, lambda _: wanted)

    async def patch(self, request: web.Request) -> web.Response:
        """PATCH .../objects/{object}/description?if_revision: applies a JSON merge patch to the map."""
        patch = _understood(parse_patch, await request.read())
        return await self._changed(request, lambda description: merge_patch(description, patch))

    async def delete(self, request: web.Request) -> web.Response:
        """DELETE .../objects/{object}/description?if_revision: removes it."""
        return await self._changed(request, lambda _: None)

    async def _changed(
        self, request: web.Request, make: Callable[[Description | None], Description | None]
    ) -> web.Response:
        asked = request.match_info
        change = _Change(asked["domain"], asked["group"], asked["object"], make, _revision(request))
        key = change.key  # checks the names
        full = self._changes.take(change.domain)
        if full is not None:
            whose = " of this domain" if full is Full.OF_ONE else ""
            return _unavailable(f"too many descriptions{whose} are being changed", NOT_WRITTEN)
        tried = _Tried()
        try:
            async with asyncio.timeout(self._change_s), self._turns.setdefault(key, asyncio.Lock()):
                return json_answer(await self._change(change, tried))
        except _Conflict as conflict:
            words = f"if_revision: the description has another revision than {change.if_revision}"
            return error_response(409, words, field="if_revision", **conflict.shown)
        except InvalidRecord as error:
            raise _bad_request(error) from None
        except TimeoutError:
            return _unavailable(f"it took more than {self._change_s:g} s", tried.outcome)
        except web.HTTPServiceUnavailable as error:
            return _unavailable(error.text or "", tried.outcome)
        except (NotWritten, KafkaUnavailable) as error:
            return _unavailable(str(error), tried.outcome)
        finally:
            self._changes.give_back(change.domain)

    def _now_ms(self) -> int:
        """Returns the matcher's own time: a description with a future time would outdo all others until then."""
        worker = self._current.worker
        return time.time_ns() // 1_000_000 if worker is None else worker.clock.stamp_ms()

    async def _change(self, change: _Change, tried: "_Tried") -> dict[str, Any]:
        """Change it, and wait until the change is in force, or was before a newer one. Raises what _changed answers."""
        patches = partition_for(self._current, change.domain, change.group).engine.state.patches
        patches.begin_change(change.place)
        try:
            return await self._change_alone(change, tried)
        finally:
            patches.end_change(change.place)

    async def _change_alone(self, change: _Change, tried: "_Tried") -> dict[str, Any]:
        """Does it while patches of this description wait."""
        key = change.key.encode()
        while True:
            now_ms = self._now_ms()
            partition = await self._reading.up(change.domain, change.group)
            if not partition.engine.state.patches.is_changing(change.place):
                raise web.HTTPServiceUnavailable(text=f"partition {partition.number} was loaded anew meanwhile")
            epoch = partition.engine.state.epoch
            before = await self._known(partition, change)
            if before.is_made:
                await asyncio.sleep(MADE_S)
                continue
            shown = before.shown(epoch)
            if change.if_revision is not None and change.if_revision != (shown["revision"] or NO_REVISION):
                raise _Conflict(shown)
            description = change.make(before.description)
            version = max(now_ms, before.version + 1)
            tried.outcome = MAY_BE_WRITTEN
            value = encode_description_record(description)
            offset = await self._log.write(partition.number, key, value, version, before.headers)
            if await self._reading.up(change.domain, change.group) is not partition:
                raise web.HTTPServiceUnavailable(text=f"partition {partition.number} was loaded anew meanwhile")
            after = await self._known(partition, change)
            if after.headers != before.headers or (after.version > version and after.offset < offset):
                # A producer wrote to Kafka meanwhile, with a higher timestamp, or a patch was merged: this one was
                # never in force.
                tried.outcome = NOT_WRITTEN
                continue
            if after.version < version or (after.version > version and offset < 0):
                raise web.HTTPServiceUnavailable(text="the record is not where Kafka has put it")
            revision = after.offset if after.version == version else offset
            about = {"domain": change.domain, "group": change.group, "object": change.name}
            place = {"partition": partition.number, "offset": offset if offset >= 0 else None}
            return {**about, **_Known(description, version, revision).shown(epoch), **place}

    async def _known(self, partition: MatcherPartition, change: _Change) -> _Known:
        """Returns the description in force as far as the partition is read. Raises HTTPServiceUnavailable."""

        def look() -> _Known:
            with self._look.lock():
                group = f"{change.domain}/{change.group}"
                state = partition.engine.state
                known = _Known.of(state.descriptions.of(group, change.name))
                headers, is_made = state.patches.headers_of(change.key), state.patches.is_made(change.place)
                return known._replace(headers=headers, is_made=is_made)

        return await asyncio.to_thread(look)


class _Tried:
    """The outcome so far of a change that is not answered yet."""

    outcome = NOT_WRITTEN


def _revision(request: web.Request) -> str | None:
    text = request.query.get("if_revision")
    if text is None or text == NO_REVISION or _REVISION.fullmatch(text):
        return text
    raise BadRequest("if_revision", f"{text[:80]!r} is neither a revision (epoch.offset) nor {NO_REVISION}")


def _understood(parse: Callable[[bytes], T], body: bytes) -> T:
    try:
        return parse(body)
    except InvalidRecord as error:
        raise _bad_request(error) from None


def _bad_request(error: InvalidRecord) -> BadRequest:
    field, _, words = str(error).partition(": ")
    return BadRequest(field, words)


def _unavailable(words: str, outcome: str) -> web.Response:
    response = error_response(503, words, outcome=outcome)
    response.headers["Retry-After"] = _RETRY_AFTER_S
    return response
