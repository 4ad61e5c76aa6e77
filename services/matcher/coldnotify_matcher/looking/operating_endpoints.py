"""Requests of operators about a client over HTTP, at the matcher that serves it: end its session, or forget it; and
about a share, to forget it.

A matcher does neither at once. It writes the request to the log of all requests of the client and its gateway, and
answers when it has handled it: `engine.inputs.operating` has the reasons. The owner of the partition at that time
handles the request, even if no caller waits for it any more.
"""

import asyncio
from contextlib import suppress
from typing import Protocol

import msgspec
from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.security.shared import Full, Shared
from coldnotify_common.security.shares import share_of
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.internal_protocol import FORMAT
from coldnotify_schemas.names import check_name, check_object
from coldnotify_schemas.share_names import check_share

from coldnotify_matcher.asked_writes import NotWritten
from coldnotify_matcher.engine.inputs.operating import Operated
from coldnotify_matcher.looking.state_endpoints import HasWorker, Look
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_matcher.request_records import REASON_CHARS_MAX

CHANGE_S = 8.0
"""For one request, from its arrival to its answer. The HTTP service waits for 10 s by default."""
UNDER_WAY_MAX = 100
"""Maximum of requests by people at a console, or by scripts; half of them for one domain."""
LOOK_AGAIN_S = 0.25
"""A bell may be gone with its worker."""
NOT_DONE, MAY_BE_DONE = "not done", "unknown: it may be done"
DISCONNECTED, NOT_CONNECTED, FORGOTTEN = "disconnected", "not_connected", "forgotten"
_RETRY_AFTER_S = "1"
_FORGOTTEN_WORDS = "an operator has had this client forgotten: it registers anew"
_DISCONNECTED_WORDS = "an operator has ended this session"


class OperatingWrites(Protocol):
    """The methods of AskedWrites that this module needs."""

    async def write_request(self, partition: int, key: bytes, value: bytes) -> int:
        """Returns the record's offset, once it is durable; -1: Kafka does not say. Raises NotWritten."""


class ClientPatch(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a client that can be changed."""

    online: bool


def routes(current: HasWorker, log: OperatingWrites) -> list[web.AbstractRouteDef]:
    """Routes PATCH and DELETE of one client, and DELETE of one share."""
    pages = OperatingEndpoints(current, log)
    group = "/v1/domains/{domain}/groups/{group}"
    path, share = f"{group}/clients/{{client}}", f"{group}/channels/{{channel:(?s:.+)}}/shares/{{share}}"
    return [
        web.patch(path, pages.disconnect),
        web.delete(path, pages.forget),
        web.delete(share, pages.forget_share),
    ]


def check_patch(body: bytes) -> None:
    """Accepts only {"online": false}. Raises BadRequest."""
    try:
        patch = msgspec.json.decode(body, type=ClientPatch)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("online", f'the body is not {{"online": false}}: {error}') from None
    if patch.online:
        raise BadRequest("online", "is true; a client connects by itself, it can only be disconnected")


def reason_of(request: web.Request) -> str:
    """Returns `?reason=`: for the client and the log, in words. Raises BadRequest."""
    reason = request.query.get("reason", "")
    if len(reason) > REASON_CHARS_MAX // 2 or not reason.isprintable():
        raise BadRequest("reason", f"is not printable text of at most {REASON_CHARS_MAX // 2} characters")
    return reason


class OperatingEndpoints:
    """The handlers. They run in the event loop, and read the partition's state in threads."""

    def __init__(self, current: HasWorker, log: OperatingWrites, *, change_s: float = CHANGE_S) -> None:
        self._current = current
        self._log = log
        self._look = Look(current)
        self._change_s = change_s
        self._requests = Shared(UNDER_WAY_MAX, share_of(UNDER_WAY_MAX))

    async def disconnect(self, request: web.Request) -> web.Response:
        """PATCH .../clients/{client}?reason, {"online": false}: ends its session; it may come back."""
        check_patch(await request.read())
        words = _with_reason(_DISCONNECTED_WORDS, reason_of(request))
        return await self._ask(request, {"disconnect": internal_pb2.Disconnect(reason=words)})

    async def forget(self, request: web.Request) -> web.Response:
        """DELETE .../clients/{client}?reason: ends its session, and keeps nothing of it."""
        words = _with_reason(_FORGOTTEN_WORDS, reason_of(request))
        return await self._ask(request, {"forget": internal_pb2.Forget(reason=words)})

    async def _ask(self, request: web.Request, body: dict[str, object]) -> web.Response:
        domain, group, client = (check_name(one, request.match_info[one]) for one in ("domain", "group", "client"))
        about = {"domain": domain, "group": group, "client": client}
        done = await self._do(request, about, body, f"client: {domain}/{group}/{client}")
        if isinstance(done, web.Response):
            return done
        said = FORGOTTEN if "forget" in body else DISCONNECTED if done.online else NOT_CONNECTED
        return json_answer({**about, "outcome": said, "was_online": done.online, "was_registered": done.registered})

    async def forget_share(self, request: web.Request) -> web.Response:
        """DELETE .../channels/{channel}/shares/{share}?reason: keeps nothing of it; not while it has members."""
        reason_of(request)  # the HTTP service notes it
        domain, group = (check_name(one, request.match_info[one]) for one in ("domain", "group"))
        channel = check_object(request.match_info["channel"], "channel")
        share = check_share(request.match_info["share"], channel)
        body: dict[str, object] = {"forget_share": internal_pb2.ForgetShare(share=share, channel=channel)}
        words = f"share: {domain}/{group}/{channel} has no share {share}"
        done = await self._do(request, {"domain": domain, "group": group}, body, words)
        if isinstance(done, web.Response):
            return done
        if done.members:
            words = f"share: {share} has {done.registered} members: {', '.join(done.members)}"
            return error_response(409, words, outcome=NOT_DONE, members=list(done.members), count=done.registered)
        about = {"domain": domain, "group": group, "channel": channel, "share": share}
        return json_answer({**about, "outcome": FORGOTTEN})

    async def _do(
        self, request: web.Request, about: dict[str, str], body: dict[str, object], what: str
    ) -> Operated | web.Response:
        """Has a request handled. Returns its outcome, or the answer that there is nothing of the kind, or that it is
        not known to be done."""
        domain, group, client = about["domain"], about["group"], about.get("client", "")
        full = self._requests.take(domain)
        if full is not None:
            whose = " of this domain" if full is Full.OF_ONE else ""
            return _unavailable(f"too many clients and shares{whose} are being changed", NOT_DONE)
        outcome = NOT_DONE
        try:
            async with asyncio.timeout(self._change_s):
                record = internal_pb2.Request(format=FORMAT, **about, **body)  # type: ignore[arg-type]
                partition, known = await asyncio.to_thread(self._served, request, record)
                if not known:
                    return error_response(404, f"{what} is not known" if client else what)
                outcome = MAY_BE_DONE
                key = f"{domain}/{group}/{client}".encode()
                offset = await self._log.write_request(partition.number, key, record.SerializeToString())
                done = await self._handled(partition, offset)
        except TimeoutError:
            return _unavailable(f"it took more than {self._change_s:g} s", outcome)
        except web.HTTPServiceUnavailable as error:
            return _unavailable(error.text or "", outcome)
        except NotWritten as error:
            return _unavailable(str(error), outcome)
        finally:
            self._requests.give_back(domain)
        if not done.known:
            return error_response(404, f"{what} is not known any more" if client else f"{what} any more")
        return done

    def _served(self, request: web.Request, record: internal_pb2.Request) -> tuple[MatcherPartition, bool]:
        """Returns the partition, and whether it knows the client, or the share. Raises HTTPServiceUnavailable."""
        with self._look.served(request) as (prefix, partition):
            state, said = partition.engine.state, record.forget_share
            if not record.client:
                return partition, f"{prefix}{said.share}/{said.channel}" in state.shares.by_key
            return partition, prefix + record.client in state.clients

    async def _handled(self, partition: MatcherPartition, offset: int) -> Operated:
        """Returns the outcome of the request at this offset, once it is handled. Raises HTTPServiceUnavailable."""
        if offset < 0:
            raise web.HTTPServiceUnavailable(text="Kafka does not say where the request stands")
        while True:
            worker = self._current.worker
            if worker is None:
                raise web.HTTPServiceUnavailable(text="the matcher begins anew")
            ring = worker.bell.next_ring()
            done = await asyncio.to_thread(self._done, partition, offset)
            if done is not None:
                return done
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await ring.wait()

    def _done(self, partition: MatcherPartition, offset: int) -> Operated | None:
        with self._look.lock():
            if not self._look.serves(partition):
                raise web.HTTPServiceUnavailable(text=f"partition {partition.number} was given up meanwhile")
            return partition.engine.operating.outcome(offset)


def _with_reason(words: str, reason: str) -> str:
    return f"{words}: {reason}" if reason else words


def _unavailable(words: str, outcome: str) -> web.Response:
    response = error_response(503, words, outcome=outcome)
    response.headers["Retry-After"] = _RETRY_AFTER_S
    return response
