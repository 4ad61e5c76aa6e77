"""Derives one timeline from what matcher and gateways know of a client, and why it has not applied an object. Pure.

The verdict is a word of VERDICTS; `words` explain it to a person, with a remedy if there is one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

from coldnotify_common.plurals import number_of

Row = Mapping[str, Any]

VERDICTS = {
    "applied": "it has applied the version",
    "told": "it was told the version; its library cannot report whether callbacks returned",
    "too_large": "the version is larger than the Maximum Packet Size of the client, which is not told it",
    "pending": "it was told the version, and its callbacks have not returned",
    "failing": "it was told the version, and its callbacks raise: they are tried again",
    "parked": "its callbacks raised too often: they are tried again in its next session, or with the next version",
    "complete": "it lacks nothing",
    "unknown_client": "no client of this name is registered",
    "unknown_object": "nothing of this name was published, and nobody is registered for it",
    "not_registered": "it is not registered for the object",
    "members_unknown": "the objects of its queries are not known now",
    "never_published": "it is registered, and nothing was published yet",
    "asleep": "it is not connected",
    "refused": "it may not connect: its tenant has as many clients connected as were agreed",
    "unsynced": "the service waits for the client to send its whole set of registrations",
    "held": "conflation holds the publish back, to merge it with the next",
    "catching_up": "it is being sent what it missed, page by page",
    "slow": "its connection is full: the newest is sent once it drains",
    "sent": "it was sent, and the client has not acknowledged it yet: a callback is running, or the link is slow",
    "on_its_way": "it is connected and is about to be told",
    "gateway_silent": "it counts as connected at a gateway that cannot be asked, or that does not know the session",
}
"""Why, in general words."""


class TimelineEvent(TypedDict):
    """One line of the timeline."""

    when_ms: int | None
    step: str
    """publish, match, gateway, acknowledgement, rejected."""
    text: str


class Explanation(TypedDict):
    """The answer."""

    verdict: str
    words: str
    timeline: list[TimelineEvent]
    lacking: list[Row]


class AtGateway(NamedTuple):
    """A session of the client, at one gateway."""

    address: str
    """The gateway's address; empty for clients that must not see addresses."""
    gateway: str
    """The gateway's id."""
    session: Row
    """Without the client's address, for the same."""


def explain(matcher: Row, at_gateways: Iterable[AtGateway], *, object_name: str | None) -> Explanation:
    """`matcher`: its /explanation; `object_name`: None asks about all that the client is registered for."""
    client, obj = matcher["client"], matcher["object"]
    sessions = list(at_gateways)
    current = _current(client, sessions)
    verdict = _verdict(client, obj, current, matcher, object_name=object_name)
    timeline = [*_publish(obj, matcher), *_match(matcher, client, obj, object_name)]
    timeline += [*_refused(matcher), *_gateway(client, sessions, current), *_acknowledgement(client, obj)]
    timeline += _will(client)
    return {
        "verdict": verdict,
        "words": _words(verdict, client, obj, matcher),
        "timeline": timeline,
        "lacking": matcher.get("lacking", []),
    }


def _current(client: Row | None, sessions: Iterable[AtGateway]) -> AtGateway | None:
    """The session that the matcher counts."""
    if client is None or not client["online"]:
        return None
    wanted = (client["gateway"], client["session"])
    return next((one for one in sessions if (one.gateway, one.session["session"]) == wanted), None)


def _verdict(
    client: Row | None, obj: Row | None, current: AtGateway | None, matcher: Row, *, object_name: str | None
) -> str:
    if client is None:
        return "refused" if matcher.get("refused") else "unknown_client"
    offset: int | None
    if object_name is not None:
        if obj is None:
            return "unknown_object"
        if not obj["client_registered"]:
            unknown = any(query["member"] is None for query in obj.get("client_queries", ()))
            return "members_unknown" if unknown else "not_registered"
        if obj["version"] is None:
            return "never_published"
        if obj.get("client_too_large") and client["online"]:
            return "too_large"
        if obj["client_applied"]:
            # A matcher of the release before does not say what callbacks have taken, either.
            return "applied" if obj.get("client_tells_callbacks") or obj["client_is_source"] else "told"
        if (callbacks := obj.get("client_callbacks")) is not None:
            was_told = _reaches(client["cursor"], obj["offset"]) or (
                current is not None and _reaches(current.session["complete"], obj["offset"])
            )
            if callbacks["state"] == "parked" or callbacks["failures"] or was_told:
                return _verdict_of_callbacks(callbacks)
        offset = obj["offset"]
    elif matcher["lacking"]:
        offset = None
    elif matcher.get("queries_unknown"):
        return "members_unknown"
    elif matcher.get("queries_missed"):
        offset = None
    else:
        return "complete"
    if not client["online"]:
        return "refused" if matcher.get("refused") else "asleep"
    if client["session_state"] == "unsynced":
        return "unsynced"
    if obj is not None and obj["held"]:
        return "held"
    if current is None:
        return "gateway_silent"
    if current.session["state"] == "slow":
        return "slow"
    if client["session_state"] == "catching" or current.session["state"] in ("catching", "opening"):
        return "catching_up"
    complete = current.session["complete"]
    sent = complete is not None and (complete >= offset if offset is not None else complete > (client["cursor"] or -1))
    return "sent" if sent else "on_its_way"


def _reaches(complete: int | None, offset: int) -> bool:
    return complete is not None and complete >= offset


def _verdict_of_callbacks(callbacks: Row) -> str:
    if callbacks["state"] == "parked":
        return "parked"
    return "failing" if callbacks["failures"] else "pending"


def _publish(obj: Row | None, matcher: Row) -> Iterable[TimelineEvent]:
    for one in matcher.get("rejected", ()):
        text = f"a record at offset {one['offset']} was rejected: {one['reason']} (topic coldnotify.rejected has it)"
        yield {"when_ms": one["timestamp_ms"], "step": "rejected", "text": text}
    if obj is None or obj["version"] is None:
        return
    text = f"version {obj['version']} at offset {obj['offset']} of coldnotify.objects, partition {matcher['partition']}"
    if obj["incarnation"]:
        text += f", incarnation {obj['incarnation']}"
    if obj["source"]:
        text += f", made by {obj['source']}"
    yield {"when_ms": obj["published_ms"], "step": "publish", "text": text}


_MEMBER = {True: "a member", False: "not a member", None: "membership not known"}


def _match(matcher: Row, client: Row | None, obj: Row | None, object_name: str | None) -> Iterable[TimelineEvent]:
    text = f"the matcher (generation {matcher['generation']}) has read up to offset {matcher['position'] - 1}"
    if matcher["requests_waiting"]:
        batches = number_of(matcher["requests_waiting"], "batch of requests", "batches of requests")
        text += f"; waiting until it has read further: {batches}"
    yield {"when_ms": matcher["now_ms"], "step": "match", "text": text}
    if client is None:
        text = "no client of this name is registered"
    elif object_name is not None:
        registered = obj is not None and obj["client_registered"]
        text = f"the client is {'registered' if registered else 'not registered'} for {object_name}"
        text += f" ({number_of(client['registered'], 'registration')} in all)" if registered else ""
        for query in obj.get("client_queries", ()) if obj is not None else ():
            yield {"when_ms": None, "step": "match", "text": text}
            text = f"query {query['query']}: {_MEMBER[query['member']]}; {query['why']}"
    else:
        text = f"the client has {number_of(client['registered'], 'registration')} and lacks {len(matcher['lacking'])}"
        if unknown := matcher.get("queries_unknown"):
            text += f"; the objects of {unknown} of its queries are not known"
    yield {"when_ms": None, "step": "match", "text": text}


def _refused(matcher: Row) -> Iterable[TimelineEvent]:
    refused = matcher.get("refused")
    if refused:
        text = f"it was sent away (ABOVE_AGREEMENT): {refused['reason']}"
        yield {"when_ms": refused["when_ms"], "step": "match", "text": text}


def _gateway(client: Row | None, sessions: Iterable[AtGateway], current: AtGateway | None) -> Iterable[TimelineEvent]:
    for one in sessions:
        shown = one.session
        of = f" of {shown['address']}" if "address" in shown else ""
        text = f"session {shown['session']}{of} at gateway {one.gateway}{f' ({one.address})' if one.address else ''}"
        text += f" is {shown['state']}, sent up to {_offset(shown['complete'])}"
        if one is not current:
            text += "; the matcher counts another session, this one is about to be closed (displaced)"
        yield {"when_ms": shown["since_ms"], "step": "gateway", "text": text}
    if client is None:
        return
    if client["online"] and current is None:
        text = f"session {client['session']} at gateway {client['gateway']} is not shown by any gateway that answers"
        yield {"when_ms": client["gateway_heard_ms"], "step": "gateway", "text": text}
    elif not client["online"]:
        yield {"when_ms": client["last_seen_ms"], "step": "gateway", "text": "not connected; last seen then"}


def _will(client: Row | None) -> Iterable[TimelineEvent]:
    topic, due_ms = (None, None) if client is None else (client.get("will"), client.get("will_due_ms"))
    if topic is not None:
        when = "is published if its session ends otherwise than by its word" if due_ms is None else "is due then"
        yield {"when_ms": due_ms, "step": "will", "text": f"its will to {topic} {when}"}


def _acknowledgement(client: Row | None, obj: Row | None) -> Iterable[TimelineEvent]:
    if client is None:
        return
    text = f"applied up to {_offset(client['cursor'])}, as far as the client has acknowledged"
    if obj is not None and obj["client_registered"] and obj["offset"] is not None:
        if obj["client_is_source"]:
            text += "; it made this version itself"
        else:
            text += f": version {obj['version']} {'included' if obj['client_applied'] else 'not included'}"
            text += _callbacks(obj.get("client_callbacks"))
    yield {"when_ms": client["last_seen_ms"], "step": "acknowledgement", "text": text}


def _callbacks(callbacks: Row | None) -> str:
    if callbacks is None:
        return ""
    raised = f", raised {number_of(callbacks['failures'], 'time')}" if callbacks["failures"] else ""
    return f"; callbacks {callbacks['state']}{raised}" + (f": {callbacks['error']}" if callbacks["error"] else "")


def _words(verdict: str, client: Row | None, obj: Row | None, matcher: Row) -> str:
    words = VERDICTS[verdict]
    if verdict == "unknown_client":
        return f"{words}: it never registered, or was forgotten after a long absence"
    if verdict == "members_unknown":
        online = client is not None and client["online"]
        return f"{words}: {'they are being evaluated' if online else 'they are evaluated when it connects'}"
    if verdict == "refused":
        return f"{words}; it comes back by itself, once others have left or `coldnotify tenant set` has agreed on more"
    if verdict == "asleep" and client is not None:
        return f"{words}; it is told when it connects"
    latest = max((one["offset"] for one in matcher.get("rejected", ())), default=-1)
    if obj is not None and latest > (obj["offset"] if obj["offset"] is not None else -1):
        return f"{words}; but a later record of the object was rejected, see the timeline"
    return words


def _offset(complete: int | None) -> str:
    return "nothing" if complete is None else f"offset {complete}"
