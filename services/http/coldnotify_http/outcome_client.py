"""Asks the matcher that serves a group for the outcomes of acknowledged publishes, for a short time."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from aiohttp import web
from coldnotify.publisher import OFFSET_NOT_KNOWN, Newest, Outcome, Published
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.query_numbers import seconds
from coldnotify_schemas.names import check_name
from coldnotify_schemas.protocol import OUTCOMES_PER_REQUEST_MAX
from coldnotify_schemas.records import PublicRecord

from coldnotify_http.bodies import Named
from coldnotify_http.ledger_endpoints import answered
from coldnotify_http.node_addresses import SeenNodes
from coldnotify_http.node_client import NobodyAnswers, NodeAnswer, NodeClient, path
from coldnotify_http.settings import HttpSettings

_WAIT_PART = 0.9
"""Part of the time limit for which the matcher waits until it has read the record, so that its own answer arrives in
time.
"""

_QUESTIONS_MAX = 2
"""Under way about one group. A question for each publish would cost more than the publish: who comes meanwhile is asked
for together with the others, so the busier it is, the more are in one."""
_SAYS_NOTHING = (None, "rejected", "unknown")
OTHER_RECORD = "the matcher has another record at its offset: the topic of objects was made anew"
"""A matcher that has not noticed yet that the topic is another one answers by the former one's offsets."""
_LATE_S = 0.5
"""Time after the limit for the question itself to report why it has no answer."""

_One = tuple[Named, Published]
_About = tuple[str, str, int]
"""Domain, group, partition."""


class OutcomeClient:
    """Uses separate connections, so that requests for the ledger do not wait behind publishers."""

    def __init__(self, settings: HttpSettings, nodes: SeenNodes | None = None) -> None:
        """Raises SettingError."""
        self._timeout_s = settings.outcome_timeout_s
        self._asking = NodeClient(settings, nodes=nodes, timeout_s=self._timeout_s)
        self._waiting: dict[_About, list[tuple[int, asyncio.Future[Mapping[str, Any] | str]]]] = {}
        """Offsets that are in no question yet, with who waits."""
        self._under_way: Counter[_About] = Counter()
        """Questions."""
        self._tasks: set[asyncio.Task[None]] = set()

    def routes(self) -> list[web.AbstractRouteDef]:
        """For those who have published to Kafka themselves."""
        return [web.get("/v1/domains/{domain}/groups/{group}/outcomes", answered(self.outcomes))]

    async def close(self) -> None:
        """Cancels questions in progress, and closes the connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._asking.close()

    async def outcomes(self, request: web.Request) -> web.Response:
        """GET .../outcomes?partition&offsets&wait_s, as the matcher answers it; not waiting for longer than here."""
        domain = check_name("domain", request.match_info["domain"])
        group = check_name("group", request.match_info["group"])
        given = request.query.get("wait_s")
        wait_s = self._wait_s if given is None else min(seconds("wait_s", given, maximum=inf), self._wait_s)
        query = {name: request.query.get(name, "") for name in ("partition", "offsets")}
        answer = await self._asking.matcher(
            path("domains", domain, "groups", group, "outcomes", **query, wait_s=f"{wait_s:.3f}"), who=domain
        )
        return json_answer(answer.body, status=answer.status)

    async def of(self, domain: str, group: str, published: Sequence[_One]) -> list[Outcome]:
        """Returns each publish's outcome, in order."""
        return list(await asyncio.gather(*(self._outcome(domain, group, one) for one in published)))

    async def decided(self, domain: str, group: str, published: Published, id_: str | None) -> Mapping[str, Any] | str:
        """Returns what the matcher says of a record with a condition, or a set, of this id; why it says nothing, if it
        does not in time."""
        if published.offset < 0:
            return OFFSET_NOT_KNOWN
        item = await self._item((domain, group, published.partition), published.offset)
        if isinstance(item, str) or item.get("outcome") in _SAYS_NOTHING or item.get("id") == id_:
            return item
        return OTHER_RECORD

    async def _outcome(self, domain: str, group: str, published: _One) -> Outcome:
        (object_, record), one = published
        if not one.written:
            return await self._repeat(domain, group, object_, record, one)
        if one.offset < 0:
            return Outcome.unknown(OFFSET_NOT_KNOWN)
        item = await self._item((domain, group, one.partition), one.offset)
        return Outcome.unknown(item) if isinstance(item, str) else Outcome.of(item, object_, one.version)

    @property
    def _wait_s(self) -> float:
        return _WAIT_PART * self._timeout_s

    async def _item(self, about: _About, offset: int) -> Mapping[str, Any] | str:
        """Returns the matcher's item of one record, or why there is none."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Mapping[str, Any] | str] = loop.create_future()
        self._waiting.setdefault(about, []).append((offset, answer))
        loop.call_soon(self._ask_for, about)  # with what is asked for in the same moment
        try:
            for seconds in (self._timeout_s, _LATE_S):
                done, _ = await asyncio.wait((answer,), timeout=seconds)
                if done:
                    return answer.result()
            return f"no answer within {self._timeout_s:g} s, behind what others have asked"
        finally:
            answer.cancel()

    def _ask_for(self, about: _About) -> None:
        """Asks for those that wait, all in one question; who comes while some are under way waits for the next."""
        waiting = [one for one in self._waiting.pop(about, ()) if not one[1].done()]
        while waiting and self._under_way[about] < _QUESTIONS_MAX:
            part, waiting = waiting[:OUTCOMES_PER_REQUEST_MAX], waiting[OUTCOMES_PER_REQUEST_MAX:]
            self._under_way[about] += 1
            task = asyncio.create_task(self._ask_part(about, part))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if waiting:
            self._waiting[about] = waiting

    async def _ask_part(
        self, about: _About, part: Sequence[tuple[int, asyncio.Future[Mapping[str, Any] | str]]]
    ) -> None:
        domain, group, partition = about
        offsets = ",".join(str(offset) for offset, _ in part)
        query = {"partition": partition, "offsets": offsets, "wait_s": f"{self._wait_s:.3f}"}
        try:
            answer = await self._ask(path("domains", domain, "groups", group, "outcomes", **query), domain)
            shown = {} if isinstance(answer, str) else {item["offset"]: item for item in answer.body["items"]}
            for offset, future in part:
                if not future.done():
                    future.set_result(answer if isinstance(answer, str) else shown.get(offset, {}))
        finally:
            self._under_way[about] -= 1
            if not self._under_way[about]:
                del self._under_way[about]
            self._ask_for(about)

    async def _repeat(
        self, domain: str, group: str, object_: str, record: PublicRecord, published: Published
    ) -> Outcome:
        """Returns the outcome of a publish that was not written again: whether the newest version still equals it."""
        answer = await self._ask(path("domains", domain, "groups", group, "objects", object_), domain)
        if isinstance(answer, str):
            return Outcome.unknown(answer)
        if answer.body["version"] is None:
            return Outcome.unknown("the matcher has not read it")
        return Outcome.of_repeat(Newest.of(answer.body), published.version, record.incarnation)

    async def _ask(self, asked: str, domain: str) -> NodeAnswer | str:
        """Returns the matcher's answer, or why there is none."""
        try:
            answer = await self._asking.matcher(asked, who=domain)
        except NobodyAnswers as error:
            return str(error)
        return answer if answer.status == 200 else answer.error
