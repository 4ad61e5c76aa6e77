"""Fields of the HTTP answers in the service for tests: an object, its description, the outcome of a record."""

import base64
import json
from typing import Any

from coldnotify.testing.service import Service
from coldnotify.testing.service_partition import Newest, ServicePartition

PARTITION = 0
"""The number of every partition: a group has one of its own."""
_IN_VAIN = ("stale", "altered")


def shown_object(service: Service, domain: str, group: str, name: str) -> dict[str, Any]:
    """Returns one object, without its description."""
    newest = service.newest(domain, group, name)
    registered = [one for one, by_name in service.ledger.registered(domain, group, name).items() if by_name]
    online = [session.name for session in service.sessions if session.hello is not None]
    return {
        "object": name,
        "version": newest.version if newest else None,
        "incarnation": newest.incarnation if newest else 0,
        "offset": newest.offset if newest else None,
        "published_ms": newest.published_ms if newest else None,
        "deleted": newest.deleted if newest else False,
        "source": (newest.source or None) if newest else None,
        **_payload(newest),
        "expires_at": newest.expires_at if newest else None,
        "registered": len(registered),
        "online": sum(one in online for one in registered),
    }


def _payload(newest: Newest | None) -> dict[str, Any]:
    if newest is not None and newest.raw:
        return {"payload": None, "payload_base64": base64.b64encode(newest.payload).decode()}
    return {"payload": json.loads(newest.payload) if newest and newest.payload else None}


def shown_description(partition: ServicePartition, name: str, epoch: int) -> dict[str, Any]:
    """Returns an object's description, and its version and revision; null if it never had one."""
    if name not in partition.descriptions:
        return {"description": None, "version": None, "revision": None}
    encoded, offset = partition.descriptions[name]
    return {
        "description": json.loads(encoded) if encoded else None,
        "version": partition.described_ms.get(name, 0),
        "revision": f"{epoch:08x}.{offset}",
    }


def outcome_shown(partition: ServicePartition, offset: int, *, brief: bool = False) -> dict[str, Any]:
    """Returns the outcome of the record at this offset; `brief`: the newest version only if another one counts, and no
    name."""
    if offset not in partition.outcomes:
        return {"outcome": "unknown", "reason": f"the service has read up to offset {partition.end}"}
    object_, outcome, incarnation, version = partition.outcomes[offset]
    newest: dict[str, Any] = {"version": version}
    if incarnation:
        newest["incarnation"] = incarnation
    now = partition.objects.get(object_)
    same = now is not None and (now.incarnation, now.version) == (incarnation, version)
    newest["published_ms"] = now.published_ms if now is not None and same else None
    if brief:
        return {"outcome": outcome, "newest": newest} if outcome in _IN_VAIN else {"outcome": outcome}
    return {"object": object_, "outcome": outcome, "newest": newest}
