"""Why a client has, or has not, applied an object of the service for tests: the verdicts of the HTTP service."""

from typing import Any

from coldnotify.testing.service import Service
from coldnotify.testing.service_session import Session
from coldnotify.testing.service_shown import PARTITION, shown_object
from coldnotify.testing.service_state import Name

_WORDS = {
    "applied": "it has applied the version",
    "told": "it was told the version; its library cannot report whether callbacks returned",
    "pending": "it was told the version, and its callbacks have not returned",
    "failing": "it was told the version, and its callbacks raise: they are tried again",
    "parked": "its callbacks raised too often: they are tried again in its next session, or with the next version",
    "complete": "it lacks nothing",
    "unknown_client": "no client of this name is registered",
    "unknown_object": "nothing of this name was published, and nobody is registered for it",
    "not_registered": "it is not registered for the object",
    "never_published": "it is registered, and nothing was published yet",
    "asleep": "it is not connected; it is told when it connects",
    "unsynced": "the service waits for the client to send its whole set of registrations",
    "catching_up": "it is being sent what it missed, page by page",
    "sent": "it was sent, and the client has not acknowledged it yet: a callback is running, or the link is slow",
}


def explanation(service: Service, name: Name, object_: str | None) -> dict[str, Any]:
    """Returns the answer of .../clients/{client}/explanation."""
    domain, group, client = name
    partition = service.partition(domain, group)
    known = service.knows(name)
    session = next((one for one in service.sessions if one.hello is not None and one.name == name), None)
    lacking = _lacking(service, name)
    verdict = "unknown_client"
    if known:
        verdict = _verdict_of_all(session, lacking) if object_ is None else _verdict(service, name, object_, session)
    steps: list[tuple[str, str, int | None]] = [
        ("match", f"the client is {'registered' if known else 'not known'}", None)
    ]
    newest = None if object_ is None else partition.objects.get(object_)
    if newest is not None:
        text = f"version {newest.version} at offset {newest.offset}"
        steps.insert(0, ("publish", text, newest.published_ms))
    if known:
        steps.append(("acknowledgement", f"applied up to offset {service.acknowledged.get(name)}", None))
    shown = None
    if object_ is not None and verdict != "unknown_object":
        shown = shown_object(service, domain, group, object_)
        shown = {name: value for name, value in shown.items() if not name.startswith("payload")}
    return {
        "domain": domain,
        "group": group,
        "client": client,
        "object": object_,
        "verdict": verdict,
        "words": _WORDS[verdict],
        "timeline": [{"when_ms": when_ms, "step": step, "text": text} for step, text, when_ms in steps],
        "lacking": lacking,
        "partition": PARTITION,
        "generation": 1,
        "position": partition.end + 1,
        "now_ms": service.now_ms(),
        "client_state": {"client": client, "online": session is not None} if known else None,
        "object_state": shown,
        "gateways_silent": [],
    }


def _lacking(service: Service, name: Name) -> list[dict[str, Any]]:
    """Returns the objects that the client is registered for by name, and lacks."""
    domain, group, _ = name
    found = []
    for object_ in sorted(service.registered.get(name, ())):
        newest = service.newest(domain, group, object_)
        if service.ledger.lacks(name, object_, -1 if newest is None else newest.offset):
            report = service.ledger.untaken(name, object_)
            since_ms = None if newest is None else newest.published_ms
            found.append(
                {
                    "object": object_,
                    "version": None if newest is None else newest.version,
                    "since_ms": since_ms if report is None else report.since_ms,
                    "callbacks": None if report is None else report.shown(),
                }
            )
    return found


def _verdict_of_all(session: Session | None, lacking: list[dict[str, Any]]) -> str:
    if not lacking:
        return "complete"
    return "asleep" if session is None else _verdict_of(session)


def _verdict(service: Service, name: Name, object_: str, session: Session | None) -> str:
    domain, group, _ = name
    newest = service.newest(domain, group, object_)
    registered = service.ledger.registered(domain, group, object_)
    if newest is None and not registered and object_ not in service.partition(domain, group).descriptions:
        return "unknown_object"
    if name not in registered:
        return "not_registered"
    if newest is None:
        return "never_published"
    if not service.ledger.lacks(name, object_, newest.offset):
        made_it = newest.source == name[2]
        return "applied" if service.ledger.reports(name).tells or made_it else "told"
    report = service.ledger.untaken(name, object_)
    told = service.acknowledged.get(name, -1) >= newest.offset or (session is not None and session.state == "live")
    if report is not None and (report.parked or report.failures or told):
        return "parked" if report.parked else "failing" if report.failures else "pending"
    return "asleep" if session is None else _verdict_of(session)


def _verdict_of(session: Session) -> str:
    return {"live": "sent", "catching": "catching_up", "unsynced": "unsynced"}[session.state]
