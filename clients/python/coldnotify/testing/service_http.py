"""The HTTP service's answers in the service for tests, without I/O: publishing, descriptions, the ledger, resets.

Routes, statuses and fields are those of docs/http-api.md, as far as there is something to answer: nothing is refused
for its amount, nothing expires, queries have the members that a test names, and no identity is asked for.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from coldnotify_schemas.names import check_name, check_object
from coldnotify_schemas.protocol import OUTCOMES_PER_REQUEST_MAX, PUBLISHES_PER_REQUEST_MAX
from coldnotify_schemas.wrong_clocks import clock_fault

from coldnotify._core.publishing.outgoing import PAYLOAD_BYTES_MAX, Outgoing, version_of
from coldnotify.testing.service import Service
from coldnotify.testing.service_explaining import explanation
from coldnotify.testing.service_http_asked import MISSING, Answer, HttpAsked, HttpRefused, known_fields, text_of
from coldnotify.testing.service_partition import Newest, ServicePartition
from coldnotify.testing.service_sending import SENDING_KINDS, ServiceSending, decoded
from coldnotify.testing.service_shown import PARTITION, outcome_shown, shown_description, shown_object

_RECORD = {"version", "payload", "payload_base64", "source", "expires_at", "deleted", "priority"}
_KINDS = {"objects": "object", "clients": "client", **SENDING_KINDS}


class ServiceHttp:
    """The answers of one service. Whoever calls it holds the service's lock."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._routes: dict[tuple[str, str], Callable[[HttpAsked], Answer]] = {
            ("POST", "object"): self._publish,
            ("POST", "objects"): self._publish_many,
            ("GET", "object"): self._object,
            ("GET", "objects"): self._objects,
            ("GET", "object/description"): self._description,
            ("PUT", "object/description"): self._put_description,
            ("PATCH", "object/description"): self._patch_description,
            ("DELETE", "object/description"): self._delete_description,
            ("GET", "object/lacking"): self._lacking,
            ("POST", "resets"): self._reset,
            ("GET", "outcomes"): self._outcomes,
            ("GET", "client/explanation"): self._explanation,
            **ServiceSending(service).routes,
        }

    def answer(self, method: str, target: str, body: bytes = b"") -> Answer:
        """Returns status and JSON for a request; `target`: its path and query, percent-encoded."""
        path, _, query = target.partition("?")
        parts = path.split("/")
        try:
            domain, group, *rest = _names_of(parts)
            route, name = _route(rest)
            handler = self._routes.get((method, route))
            if handler is None:
                raise HttpRefused(501, f"path: FakeService does not answer {method} {path}")
            check_name("domain", domain)
            check_name("group", group)
            if self._service.away and method == "GET":
                raise HttpRefused(503, "no matcher serves this group at the moment", retry_after_s=1)
            return handler(HttpAsked(domain, group, name, dict(parse_qsl(query, keep_blank_values=True)), body))
        except HttpRefused as refused:
            return refused.answer
        except ValueError as error:
            return 400, {"error": str(error), "field": str(error).partition(":")[0]}

    # Publishing

    def _publish(self, asked: HttpAsked) -> Answer:
        wanted = _outcome_wanted(asked, default=True)
        self._check_clock(asked)
        outgoing = _record(asked, asked.name, asked.json())
        result = self._published(outgoing, wanted=wanted)
        return 200, {"domain": asked.domain, "group": asked.group, **result}

    def _publish_many(self, asked: HttpAsked) -> Answer:
        wanted = _outcome_wanted(asked, default=False)
        self._check_clock(asked)
        outgoings = []
        for where, name, fields in _named_records(asked.json("objects")):
            try:
                outgoings.append(_record(asked, text_of("object", name), fields))
            except ValueError as error:
                field = str(error).partition(":")[0]
                at_fault = name if isinstance(name, str) else where
                raise HttpRefused(400, f"{at_fault}: {error}", field=field, object=at_fault) from None
        for one in outgoings:
            self._check_refused(one)
        results = [self._published(one, wanted=wanted) for one in outgoings]
        return 200, {"domain": asked.domain, "group": asked.group, "results": results}

    def _published(self, outgoing: Outgoing, *, wanted: bool, incarnation: int | None = None) -> dict[str, Any]:
        self._check_refused(outgoing)
        version = self._service.now_ms() if outgoing.version is None else outgoing.version
        self._service.publish(
            *outgoing.key,
            outgoing.payload,
            version=version,
            incarnation=incarnation,
            deleted=outgoing.deleted,
            source=outgoing.source or "",
            expires_at=outgoing.expires_at,
        )
        partition = self._service.partition(outgoing.domain, outgoing.group)
        place = {"version": version, "partition": PARTITION, "offset": partition.end}
        result = {"object": outgoing.name, **place}
        if wanted:
            result |= outcome_shown(partition, partition.end, brief=True)
        return result

    def _check_refused(self, outgoing: Outgoing) -> None:
        reason, retry_ms = self._service.refused_publishes.get(outgoing.name, ("", 0))
        if retry_ms:
            raise HttpRefused(429, reason, outcome="not published", retry_after_s=retry_ms / 1000)
        if reason:
            raise HttpRefused(403, reason)

    def _check_clock(self, asked: HttpAsked) -> None:
        clock_ms, now_ms = asked.number("clock_ms"), self._service.now_ms()
        fault = None if clock_ms is None else clock_fault(clock_ms, now_ms)
        if fault is not None:
            raise HttpRefused(400, f"clock_ms: {fault}", field="clock_ms", clock_ms=now_ms)

    def _reset(self, asked: HttpAsked) -> Answer:
        said = known_fields(asked.json("body"), {"object", "newest", "version", "payload", "payload_base64"})
        if missing := [name for name in ("object", "newest") if name not in said]:
            raise ValueError(f"record: has no field {missing[0]!r}")
        name = check_object(text_of("object", said["object"]))
        seen = {"incarnation": 0, **known_fields(said["newest"], {"version", "incarnation"}, "newest")}
        known = self._known(asked, name)
        incarnation = known.incarnation if known else 0
        newest = {"version": known.version if known else None, "incarnation": incarnation}
        if newest != seen:
            words = "newest: another version is the newest by now, or nothing was published"
            raise HttpRefused(409, words, field="newest", newest=newest)
        outgoing = version_of(
            asked.domain,
            asked.group,
            name,
            said.get("version", 0),
            decoded(said).get("payload"),
            payload_bytes_max=PAYLOAD_BYTES_MAX,
        )
        result = self._published(outgoing, wanted=True, incarnation=incarnation + 1)
        return 200, {"domain": asked.domain, "group": asked.group, **result}

    def _outcomes(self, asked: HttpAsked) -> Answer:
        partition = self._partition(asked)
        if asked.number("partition") is None:
            raise ValueError("partition: is missing")
        texts = asked.query.get("offsets", "").split(",")
        if len(texts) > OUTCOMES_PER_REQUEST_MAX:
            raise ValueError(f"offsets: {len(texts)} are too many")
        if not all(text.isascii() and text.isdigit() for text in texts):
            raise ValueError("offsets: are not whole numbers with commas between")
        items = [{"offset": int(text), **outcome_shown(partition, int(text))} for text in texts]
        return 200, {"partition": PARTITION, "position": partition.end + 1, "items": items}

    # Descriptions

    def _description(self, asked: HttpAsked) -> Answer:
        self._known(asked, asked.name)
        shown = shown_description(self._partition(asked), asked.name, self._service.epoch)
        return 200, {"object": asked.name, **shown}

    def _put_description(self, asked: HttpAsked) -> Answer:
        return self._describe(asked, _pairs(asked.json("description")))

    def _patch_description(self, asked: HttpAsked) -> Answer:
        before = shown_description(self._partition(asked), asked.name, self._service.epoch)["description"] or {}
        patch = _pairs(asked.json("description"), removed=True)
        return self._describe(asked, {key: value for key, value in (before | patch).items() if value is not None})

    def _delete_description(self, asked: HttpAsked) -> Answer:
        return self._describe(asked, None)

    def _describe(self, asked: HttpAsked, description: dict[str, Any] | None) -> Answer:
        partition, epoch = self._partition(asked), self._service.epoch
        before = shown_description(partition, asked.name, epoch)
        wanted = asked.query.get("if_revision")
        if wanted is not None and wanted != (before["revision"] or "none"):
            words = f"if_revision: the description has another revision than {wanted}"
            raise HttpRefused(409, words, field="if_revision", **before)
        self._service.describe(asked.domain, asked.group, asked.name, description)
        about = {"domain": asked.domain, "group": asked.group, "object": asked.name}
        place = {"partition": PARTITION, "offset": partition.end}
        return 200, {**about, **shown_description(partition, asked.name, epoch), **place}

    # Looking

    def _object(self, asked: HttpAsked) -> Answer:
        self._known(asked, asked.name)
        described = shown_description(self._partition(asked), asked.name, self._service.epoch)
        shown = self._shown(asked, asked.name)
        return 200, {**shown, "description": described["description"], "described_ms": described["version"]}

    def _objects(self, asked: HttpAsked) -> Answer:
        partition = self._partition(asked)
        query = asked.query.get("query")
        if query is None:
            registered = [
                wanted for name, wanted in self._service.registered.items() if name[:2] == (asked.domain, asked.group)
            ]
            names = set(partition.objects).union(*registered)
            return 200, asked.page({name: self._shown(asked, name) for name in names})
        items = {}
        for name in partition.sets.answer(query):
            newest = partition.objects.get(name)
            described = shown_description(partition, name, self._service.epoch)["description"]
            version = None if newest is None else newest.version
            items[name] = {"object": name, "version": version, "description": described}
        return 200, {"query": query, **asked.page(items)}

    def _lacking(self, asked: HttpAsked) -> Answer:
        ledger, partition = self._service.ledger, self._partition(asked)
        newest = self._known(asked, asked.name)
        version = asked.number("version")
        offset = ledger.offset_of(asked.domain, asked.group, asked.name, version)
        shown = self._shown(asked, asked.name)
        shown = {name: value for name, value in shown.items() if not name.startswith("payload")}
        registered = ledger.registered(asked.domain, asked.group, asked.name)
        sessions = {session.name: session for session in self._service.sessions if session.hello is not None}
        lacking: dict[str, dict[str, Any]] = {}
        for name in registered:
            if offset is None or ledger.lacks(name, asked.name, offset):
                report = ledger.untaken(name, asked.name)
                since_ms = newest.published_ms if newest is not None and offset is not None else None
                lacking[name[2]] = {
                    "client": name[2],
                    "state": sessions[name].state if name in sessions else "asleep",
                    "since_ms": since_ms if report is None else report.since_ms,
                    "last_seen_ms": self._service.now_ms() if name in sessions else None,
                    "cursor": self._service.acknowledged.get(name),
                    "callbacks": None if report is None else report.shown(),
                }
        if (taken := asked.number("offset")) is not None and asked.number("partition") is not None:
            shown |= outcome_shown(partition, taken) if taken in partition.outcomes else {}
        states = [one["callbacks"]["state"] for one in lacking.values() if one["callbacks"]]
        return 200, {
            **shown,
            "wanted_version": shown["version"] if version is None else version,
            "published": offset is not None,
            "exact": True,
            "position": partition.end + 1,
            "generation": 1,
            "registered": len(registered),
            "by_query": sum(not by_name for by_name in registered.values()),
            "applied": len(registered) - len(lacking),
            "lacking": len(lacking),
            "asleep": sum(one["state"] == "asleep" for one in lacking.values()),
            "pending": states.count("pending"),
            "parked": states.count("parked"),
            "told_at_least": sum(not ledger.reports(name).tells for name in registered),
            "now_ms": self._service.now_ms(),
            **asked.page(lacking),
        }

    def _explanation(self, asked: HttpAsked) -> Answer:
        client = check_name("client", asked.name)
        object_ = asked.query.get("object")
        if object_ is not None:
            check_object(object_)
        return 200, explanation(self._service, (asked.domain, asked.group, client), object_)

    def _shown(self, asked: HttpAsked, name: str) -> dict[str, Any]:
        return shown_object(self._service, asked.domain, asked.group, name)

    def _partition(self, asked: HttpAsked) -> ServicePartition:
        return self._service.partition(asked.domain, asked.group)

    def _known(self, asked: HttpAsked, name: str) -> Newest | None:
        """Returns its newest version. Raises HttpRefused where nothing is known of the object."""
        check_object(name)
        partition = self._partition(asked)
        registered = self._service.ledger.registered(asked.domain, asked.group, name)
        if name not in partition.objects and name not in partition.descriptions and not registered:
            raise HttpRefused(404, f"object: {asked.domain}/{asked.group}/{name} is not known")
        return partition.objects.get(name)


def _names_of(parts: list[str]) -> list[str]:
    """Returns domain, group and the rest of /v1/domains/{domain}/groups/{group}/... Raises HttpRefused, ValueError."""
    match parts:
        case ["", "v1", "domains", domain, "groups", group, _, *_]:
            return [_unquoted("domain", domain), _unquoted("group", group), *parts[6:]]
    raise HttpRefused(404, "404: Not Found")


def _route(rest: list[str]) -> tuple[str, str]:
    """Returns the route, and the name in it. Raises ValueError."""
    kind, *names = rest
    field = _KINDS.get(kind)
    if field is None or not names:
        return kind if not names else "/".join(rest), ""
    end = names[-1] if names[-1] in ("description", "lacking", "explanation") and len(names) > 1 else ""
    name = "/".join(names[:-1] if end else names)
    return f"{field}/{end}" if end else field, _unquoted(field, name)


def _unquoted(field: str, text: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{field}: {text[:80]!r} is not valid UTF-8") from None


def _outcome_wanted(asked: HttpAsked, *, default: bool) -> bool:
    text = asked.query.get("outcome")
    if text not in (None, "yes", "no"):
        raise ValueError(f"outcome: {text[:80]!r} is neither yes nor no")
    return default if text is None else text == "yes"


def _record(asked: HttpAsked, name: str, said: Any) -> Outgoing:
    if isinstance(said, dict) and said.get("incarnation") is not None:
        raise ValueError("incarnation: is not a publisher's to say; `coldnotify object reset` begins versions over")
    fields = decoded(known_fields(said, _RECORD))
    return version_of(asked.domain, asked.group, check_object(name), **fields, payload_bytes_max=PAYLOAD_BYTES_MAX)


def _named_records(said: Any) -> list[tuple[str, Any, Any]]:
    """Returns place, name and record of each. Raises ValueError."""
    if isinstance(said, dict) and list(said) == ["objects"] and isinstance(said["objects"], dict):
        found = [(name, name, record) for name, record in said["objects"].items()]
    elif isinstance(said, list) and all(isinstance(one, dict) for one in said):
        found = [
            (f"objects[{place}]", one.get("object", MISSING), {key: one[key] for key in one if key != "object"})
            for place, one in enumerate(said)
        ]
    else:
        raise ValueError("objects: neither {name: record} nor a list of records with names")
    if len(found) > PUBLISHES_PER_REQUEST_MAX:
        raise ValueError(f"objects: more than {PUBLISHES_PER_REQUEST_MAX}")
    return found


def _pairs(said: Any, *, removed: bool = False) -> dict[str, Any]:
    """Returns a description, or a change of one. Raises ValueError."""
    if not isinstance(said, dict):
        raise ValueError("description: is not a JSON object")
    for key, value in said.items():
        if not (isinstance(value, str | int | float) or (removed and value is None)):
            raise ValueError(f"description: {key}: is neither a text nor a number nor true or false")
    return said
