"""Asks matchers and gateways, each of which knows a part, over their HTTP ports.

All matchers are asked at once for the one that serves a domain/group: there are few of them, the others answer at once
that they do not serve it, and the answer is right even while a partition moves (docs/ARCHITECTURE.md has the reasons).
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout, TCPConnector
from coldnotify_common.nodes import INSIDE
from coldnotify_common.security.fair_turns import Turns
from coldnotify_common.security.inside_tls import InsideTls
from coldnotify_common.security.shared import Who
from coldnotify_common.settings import SettingError
from coldnotify_schemas.host_port import parse_host_port
from coldnotify_schemas.internal_protocol import GATEWAY_HTTP_PORT, MATCHER_PORT
from yarl import URL

from coldnotify_http.node_addresses import NodeAddresses, SeenNodes
from coldnotify_http.settings import HttpSettings

NO_MATCHER = "no matcher is known: none has a record in the nodes topic (COLDNOTIFY_MATCHER / --matcher names some)"
_UNSERVED = 503
_NOT_HERE = frozenset((_UNSERVED, 405))
"""405: a matcher of a release that knows no such request. Another may serve the group."""
_TAKEOVER_S = 2.0
"""Nine of ten takeovers by a matcher that runs already are shorter."""
_ASK_AGAIN_S = 0.2
_ANSWER_BYTES_MAX = 8 * 1024 * 1024
"""A page of a thousand items is far smaller."""
_CONNECTIONS_MAX = 32
"""At once, to each of them: with all that a node asks for, less than the port of one takes of it. Who comes then waits,
within the time limit, in turn by who they are."""
_CONNECTIONS_OF_ONE_MAX = 24


class NodeAnswer(NamedTuple):
    """The answer of one process."""

    address: str
    status: int
    """0: it could not be asked."""
    body: Any
    """JSON; with status 0 or of an error: {"error": words}."""
    reached: bool = True
    """False: nobody listens there, so nobody has been asked."""

    @property
    def error(self) -> str:
        """The words of an error."""
        words = self.body.get("error") if isinstance(self.body, dict) else None
        return str(words or f"HTTP status {self.status}")


class NobodyAnswers(Exception):
    """No matcher could answer; the message has each one's reason. One may soon: 503, Retry-After."""

    def __init__(self, message: str, answers: Sequence[NodeAnswer] = ()) -> None:
        super().__init__(message)
        self.answers = answers
        """Their responses, none of which is an answer."""


def addresses(text: str, name: str) -> list[str]:
    """host:port[,host:port] as a list. Raises SettingError naming the setting."""
    found = [one.strip() for one in text.split(",") if one.strip()]
    for one in found:
        try:
            parse_host_port(one)
        except ValueError as error:
            variable, flag = f"COLDNOTIFY_{name.upper()}", f"--{name.replace('_', '-')}"
            raise SettingError(f"{variable} / {flag}: {one[:80]!r} {error}") from None
    return found


def path(*parts: str, **query: object) -> str:
    """Returns /v1/part/part?name=value; values of None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return "/v1/" + "/".join(quote(part, safe="") for part in parts) + (f"?{urlencode(given)}" if given else "")


class NodeClient:
    """The matchers and gateways of the settings, or of the nodes topic."""

    def __init__(
        self, settings: HttpSettings, *, nodes: SeenNodes | None = None, timeout_s: float | None = None
    ) -> None:
        """`timeout_s`: how long an answer may take; None: as for a look. Raises SettingError."""
        self._matchers = NodeAddresses(
            "matcher",
            INSIDE,
            said=addresses(settings.matcher, "matcher"),
            default=f"127.0.0.1:{MATCHER_PORT}",
            nodes=nodes,
        )
        self._gateways = NodeAddresses(
            "gateway",
            INSIDE,
            said=addresses(settings.gateway_http, "gateway_http"),
            default=f"127.0.0.1:{GATEWAY_HTTP_PORT}",
            nodes=nodes,
        )
        self._tls = InsideTls(settings)
        self._timeout_s = settings.http_look_timeout_s if timeout_s is None else timeout_s
        self._session: ClientSession | None = None
        self._turns: dict[str, Turns] = {}
        """By address."""

    @property
    def matchers(self) -> list[str]:
        """The matchers' addresses at the moment."""
        return self._matchers.now()

    @property
    def gateways(self) -> list[str]:
        """The gateways' addresses at the moment."""
        return self._gateways.now()

    async def close(self) -> None:
        """Lets the connections go."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def matcher(
        self, path: str, method: str = "GET", body: bytes | None = None, *, who: Who = None
    ) -> NodeAnswer:
        """The answer of the matcher that serves it: 200, 400, 404 or 409. Raises NobodyAnswers. `who`: asks for it.

        With another method all are asked, too: one that does not serve the group does nothing. While nobody serves it,
        because its partition is taken over, or its matcher has begun and its record is still to be read, they are asked
        again, for _TAKEOVER_S.
        """
        until_s = time.monotonic() + min(self._timeout_s, _TAKEOVER_S)
        while True:
            found, refused = await self._one_of(self.matchers, path, method, body, who)
            if found is not None:
                return found
            if time.monotonic() > until_s or not _is_between(refused):
                words = "; ".join(f"matcher {one.address}: {one.error}" for one in refused)
                raise NobodyAnswers(words or NO_MATCHER, refused)
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _one_of(
        self, matchers: Sequence[str], path: str, method: str, body: bytes | None, who: Who
    ) -> tuple[NodeAnswer | None, list[NodeAnswer]]:
        """Returns the answer of the one that serves it, or None; and the answers of those that do not."""
        tasks = [asyncio.ensure_future(self._ask(one, path, method=method, body=body, who=who)) for one in matchers]
        refused: dict[str, NodeAnswer] = {}
        try:
            for task in asyncio.as_completed(tasks):
                answer = await task
                if answer.status and answer.status not in _NOT_HERE:
                    return answer, []
                refused[answer.address] = answer
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return None, [refused[one] for one in matchers if one in refused]

    async def every_matcher(
        self, path: str, method: str = "GET", body: bytes | None = None, *, text: bool = False, who: Who = None
    ) -> list[NodeAnswer]:
        """All answers, also of those that could not be asked. `text`: the body is text, not JSON."""
        asked = (self._ask(one, path, text=text, method=method, body=body, who=who) for one in self.matchers)
        return [*await asyncio.gather(*asked), *_silent(self._matchers)]

    async def every_gateway(
        self, path: str, method: str = "GET", body: bytes | None = None, *, text: bool = False, who: Who = None
    ) -> list[NodeAnswer]:
        """The same as every_matcher(), for gateways."""
        asked = (self._ask(one, path, text=text, method=method, body=body, who=who) for one in self.gateways)
        return [*await asyncio.gather(*asked), *_silent(self._gateways)]

    async def _ask(
        self,
        address: str,
        path: str,
        *,
        text: bool = False,
        method: str = "GET",
        body: bytes | None = None,
        who: Who = None,
    ) -> NodeAnswer:
        begun_s = time.monotonic()
        turns = self._turns.get(address)
        if turns is None:
            turns = self._turns[address] = Turns(_CONNECTIONS_MAX, _CONNECTIONS_OF_ONE_MAX)
        try:
            async with turns.turn(who, self._timeout_s):
                left_s = max(0.001, begun_s + self._timeout_s - time.monotonic())
                return await self._answer(address, path, text=text, method=method, body=body, left_s=left_s)
        except TimeoutError:
            return _failed(address, f"no answer within {self._timeout_s:g} s")._replace(reached=False)

    async def _answer(
        self, address: str, path: str, *, text: bool, method: str, body: bytes | None, left_s: float
    ) -> NodeAnswer:
        if self._session is None:
            self._session = ClientSession(connector=TCPConnector(limit=0))
        url = URL(f"{self._tls.scheme}://{address}{path}", encoded=True)
        tls, timeout = self._tls.client or True, ClientTimeout(total=left_s)
        try:
            async with self._session.request(method, url, data=body, timeout=timeout, ssl=tls) as response:
                raw = await response.content.read(_ANSWER_BYTES_MAX)
                while len(raw) < _ANSWER_BYTES_MAX and not response.content.at_eof():
                    raw += await response.content.read(_ANSWER_BYTES_MAX - len(raw))
                return NodeAnswer(address, response.status, raw.decode() if text else json.loads(raw))
        except TimeoutError:
            return _failed(address, f"no answer within {self._timeout_s:g} s")
        except ClientConnectorError as error:
            return _failed(address, str(error))._replace(reached=False)
        except ClientError as error:
            return _failed(address, str(error) or type(error).__name__)
        except ValueError:
            return _failed(address, "its answer is not JSON")


def _is_between(refused: Sequence[NodeAnswer]) -> bool:
    """Returns true if a matcher may serve the partition soon, and no request is under way."""
    served_nowhere = any(one.status == _UNSERVED for one in refused) or not any(one.reached for one in refused)
    return served_nowhere and all(one.status in _NOT_HERE or not one.reached for one in refused)


def _silent(addresses: NodeAddresses) -> list[NodeAnswer]:
    """Returns an answer for each node that has written no record for too long, and is not asked."""
    return [
        _failed(address, f"it has written no record for {age_s:.0f} s")._replace(reached=False)
        for address, age_s in addresses.silent()
    ]


def _failed(address: str, words: str) -> NodeAnswer:
    return NodeAnswer(address, 0, {"error": words})


def good(answers: Iterable[NodeAnswer]) -> list[tuple[str, Mapping[str, Any]]]:
    """(address, body) of those with status 200."""
    return [(one.address, one.body) for one in answers if one.status == 200 and isinstance(one.body, dict)]
