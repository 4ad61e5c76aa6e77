"""What acknowledged publishes have changed: asked of the matcher that serves their group, for a short time."""

import asyncio
from collections.abc import Awaitable, Sequence

from aiohttp import web
from coldnotify.publisher import OFFSET_NOT_KNOWN, Newest, Outcome, Published
from coldnotify_common.web import BadRequest
from coldnotify_schemas.names import check_name

from coldnotify_http.asking import Answer, Asking, NobodyAnswers, path
from coldnotify_http.bodies import Named
from coldnotify_http.ledger import answered
from coldnotify_http.settings import HttpSettings

_OFFSETS_MAX = 200
"""In one question to a matcher, which takes no more."""
_WAIT_PART = 0.9
"""Of the time limit, for the matcher to wait until it has read the record: its own words are to come in time, too."""

_One = tuple[Named, Published]


class Outcomes:
    """Asks on connections of its own: who asks for the ledger does not wait behind publishers."""

    def __init__(self, settings: HttpSettings) -> None:
        """Raises SettingError."""
        self._timeout_s = settings.http_outcome_timeout_s
        self._asking = Asking(settings, timeout_s=self._timeout_s)

    def routes(self) -> list[web.AbstractRouteDef]:
        """For those who have published to Kafka themselves."""
        return [web.get("/v1/domains/{domain}/groups/{group}/outcomes", answered(self.outcomes))]

    async def close(self) -> None:
        """Lets the connections go."""
        await self._asking.close()

    async def outcomes(self, request: web.Request) -> web.Response:
        """GET .../outcomes?partition&offsets&wait_s, as the matcher answers it; not waiting for longer than here."""
        domain = check_name("domain", request.match_info["domain"])
        group = check_name("group", request.match_info["group"])
        given = request.query.get("wait_s")
        try:
            wait_s = self._wait_s if given is None else min(float(given), self._wait_s)
        except ValueError:
            raise BadRequest("wait_s", f"{str(given)[:80]!r} is not a number") from None
        query = {name: request.query.get(name, "") for name in ("partition", "offsets")}
        answer = await self._asking.matcher(
            path("domains", domain, "groups", group, "outcomes", **query, wait_s=f"{wait_s:.3f}")
        )
        return web.json_response(answer.body, status=answer.status)

    async def of(self, domain: str, group: str, published: Sequence[_One]) -> list[Outcome]:
        """What each has changed, in order."""
        found: dict[int, Outcome] = {}
        written: dict[int, list[int]] = {}
        asked: list[tuple[list[int], Awaitable[list[Outcome]]]] = []
        for place, one in enumerate(published):
            if not one[1].written:
                asked.append(([place], self._repeat(domain, group, one)))
            elif one[1].offset < 0:
                found[place] = Outcome.unknown(OFFSET_NOT_KNOWN)
            else:
                written.setdefault(one[1].partition, []).append(place)
        for places in written.values():  # of one partition, but for the moment in which there come to be more
            for begin in range(0, len(places), _OFFSETS_MAX):
                part = places[begin : begin + _OFFSETS_MAX]
                asked.append((part, self._written(domain, group, [published[place] for place in part])))
        answers = await asyncio.gather(*(answer for _, answer in asked))
        for (part, _), outcomes in zip(asked, answers, strict=True):
            found.update(zip(part, outcomes, strict=True))
        return [found[place] for place in range(len(published))]

    @property
    def _wait_s(self) -> float:
        return _WAIT_PART * self._timeout_s

    async def _written(self, domain: str, group: str, published: Sequence[_One]) -> list[Outcome]:
        """Of records in one partition."""
        offsets = ",".join(str(one.offset) for _, one in published)
        asked = path(
            *("domains", domain, "groups", group, "outcomes"),
            partition=published[0][1].partition,
            offsets=offsets,
            wait_s=f"{self._wait_s:.3f}",
        )
        answer = await self._ask(asked)
        if isinstance(answer, str):
            return [Outcome.unknown(answer)] * len(published)
        shown = {item["offset"]: item for item in answer.body["items"]}
        return [Outcome.of(shown[one.offset], object_, one.version) for (object_, _), one in published]

    async def _repeat(self, domain: str, group: str, published: _One) -> list[Outcome]:
        """Of a publish that was not written again: whether the newest version is still what it says."""
        (object_, record), one = published
        answer = await self._ask(path("domains", domain, "groups", group, "objects", object_))
        if isinstance(answer, str):
            return [Outcome.unknown(answer)]
        if answer.body["version"] is None:
            return [Outcome.unknown("the matcher has not read it")]
        return [Outcome.of_repeat(Newest.of(answer.body), one.version, record.incarnation)]

    async def _ask(self, asked: str) -> Answer | str:
        """The matcher's answer, or why there is none."""
        try:
            answer = await self._asking.matcher(asked)
        except NobodyAnswers as error:
            return str(error)
        return answer if answer.status == 200 else answer.error
