"""The checks of `coldnotify doctor` of services: each is asked whether it is ready, and some for more."""

import dataclasses
import json
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import click
from coldnotify_common.errors import SettingError
from coldnotify_common.plurals import number_of
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_parts.registry import PARTS
from coldnotify_parts.row import PartRow
from coldnotify_schemas.host_port import host_port
from coldnotify_schemas.tenant_usage import VERDICT_S

from coldnotify_cli.asked_ports import SILENT, SPEAKS_TLS, why_no_answer
from coldnotify_cli.credentials import InsideWay, http_base, http_context
from coldnotify_cli.findings import BAD, OK, WARNING, CheckFinding
from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.settings import DoctorSettings

_HTTP = "http"
_USAGE_LAG = "coldnotify_usage_lag"
_USAGE_LAG_RECORDS = 100
"""With fewer records to read the job is not the one that is late: nodes write each second, except for tenants without
changes.
"""
_NAMES_SHOWN_MAX = 10
_EVERYWHERE = ("", "0.0.0.0", "::")
"""Hosts of a port that listens on all addresses of its machine."""
_NOTHING_RUNS = "nothing runs there"
_NO_ANSWER = (OSError, HTTPException, ValueError)


def service_findings(settings: DoctorSettings) -> Iterator[CheckFinding]:
    """Asks every service; further checks only those that are ready."""
    try:
        way, http_tls = InsideWay(settings, settings.doctor_timeout_s), http_context(settings)
    except SettingError as error:
        yield CheckFinding(BAD, "certificates", str(error), "services are not checked without them")
        return
    try:
        added = _added(settings.parts)
    except SettingError as error:
        yield CheckFinding(BAD, "parts", str(error), "name each part as the message says")
        added = {}
    reached = _reached_by_http(settings)
    nodes = _nodes_by_http(settings)
    if nodes is not None:
        reached["usage"] = {one["addresses"]["inside"]: False for one in nodes["items"] if _is_worker(one)}
        yield from _nodes(nodes)
    looked, none = 0, 0
    for row in sorted(PARTS, key=lambda one: one.name == _HTTP):
        for address in _asked(row, settings, added, reached):
            base, tls = (http_base(settings, address), http_tls) if row.name == _HTTP else way.to(address)
            finding = _service(row, base, settings, tls)
            if finding.state != OK and reached.get(row.name, {}).get(address):
                words = f"{base} answers the HTTP service, but not this machine: nothing more is checked"
                finding = CheckFinding(OK, row.title, words)
            looked += 1
            none += finding.words.endswith(_NOTHING_RUNS)
            yield finding
            if finding.state == OK and row.name in _MORE:
                yield from _MORE[row.name](base, settings, tls)
    if looked and looked == none:
        todo = "start them (coldnotify up), or say where they are: --http, --matcher, --gateway-http, or --context"
        yield CheckFinding(BAD, "services", f"none of {looked} services answers", todo)


def _asked(
    row: PartRow, settings: DoctorSettings, added: dict[str, str], reached: dict[str, dict[str, bool]]
) -> list[str]:
    """Returns the part's addresses: as set; else those that the HTTP service has; else the default one."""
    if not row.doctor:
        return [added[row.name]] if row.name in added else []
    said = str(getattr(settings, row.doctor))
    is_set = said != getattr(DoctorSettings, row.doctor)
    return _addresses(said) if is_set or not reached.get(row.name) else list(reached[row.name])


def _reached_by_http(settings: DoctorSettings) -> dict[str, dict[str, bool]]:
    """Returns the addresses by which the HTTP service asks matchers and gateways, and which of them it reaches.

    They are for operators only.
    """
    try:
        shown = _by_http(settings, "overview")
        return {
            part: {one["address"]: one["error"] is None for one in shown[f"{part}s"] if ":" in one["address"]}
            for part in ("matcher", "gateway")
        }
    except (click.ClickException, SettingError, LookupError, TypeError):
        return {}


def _nodes_by_http(settings: DoctorSettings) -> dict[str, Any] | None:
    """Returns the nodes that the HTTP service knows; None if it does not show them: to who is no operator, say."""
    try:
        shown: dict[str, Any] = _by_http(settings, "nodes")
        return shown if isinstance(shown["items"], list) else None
    except (click.ClickException, SettingError, LookupError, TypeError):
        return None


def _by_http(settings: DoctorSettings, path: str) -> Any:
    return HttpNode(dataclasses.replace(settings, http_timeout_s=settings.doctor_timeout_s)).get(path)


def _is_worker(node: Mapping[str, Any]) -> bool:
    return node["role"] == "usage" and node["state"] != "silent" and "inside" in node["addresses"]


def _nodes(shown: Mapping[str, Any]) -> Iterable[CheckFinding]:
    """Checks that the nodes topic is read, and that no node in it died."""
    if shown["unknown"] is not None:
        words = f"processes are not known: {shown['unknown']}"
        yield CheckFinding(WARNING, "nodes", words, "coldnotify topics apply; with ACLs coldnotify topics acls --apply")
        return
    if shown["passed_over"]:
        words = f"{number_of(shown['passed_over'], 'record')} could not be understood: {shown['passed_over_why']}"
        yield CheckFinding(WARNING, "nodes", words, "who writes to the nodes topic? Its keys are role/principal/id")
    silent = [one for one in shown["items"] if one["state"] == "silent"]
    for one in silent:
        at = next(iter(one["addresses"].values()), one["id"])
        words = f"{one['role']} {at} has written nothing for {one['age_s']:.0f} s, and has not ended"
        yield CheckFinding(WARNING, "nodes", words, "it died, or does not reach Kafka: read its log")
    yield from _payload_limits(shown)
    counts = Counter(one["role"] for one in shown["items"] if one["state"] != "silent")
    if not silent:
        names = ", ".join(f"{number} {role}" for role, number in sorted(counts.items()))
        yield CheckFinding(OK, "nodes", f"{names or 'none'} in the nodes topic")


def _payload_limits(shown: Mapping[str, Any]) -> Iterable[CheckFinding]:
    """Checks that all services have the same limit on payloads."""
    found: dict[int, list[str]] = {}
    for one in shown["items"]:
        if one["state"] != "silent" and (bytes_max := one.get("payload_bytes_max")):
            found.setdefault(bytes_max, []).append(f"{one['role']} {next(iter(one['addresses'].values()), one['id'])}")
    if len(found) > 1:
        each = "; ".join(f"{number} at {', '.join(names)}" for number, names in sorted(found.items()))
        todo = "set COLDNOTIFY_OBJECT_PAYLOAD_BYTES_MAX to one number everywhere; matchers reject what is above theirs"
        yield CheckFinding(BAD, "payloads", f"--object-payload-bytes-max differs: {each}", todo)


def _added(text: str) -> dict[str, str]:
    """Returns each part's host:port: from `--parts`, else the default port on this machine, but for those that `up`
    runs only if it is told to. Raises SettingError."""
    allowed = [row.name for row in PARTS if not row.doctor]
    found = {row.name: f"127.0.0.1:{row.port}" for row in PARTS if not row.doctor and not row.switch}
    for one in _addresses(text):
        name, _, address = one.partition("=")
        if name not in allowed or not address:
            known = ", ".join(allowed) or "there is none"
            raise SettingError(
                f"COLDNOTIFY_PARTS / --parts: {one!r} is not NAME=host:port with the NAME of a part ({known})"
            )
        found[name] = address
    return found


def _service(row: PartRow, base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> CheckFinding:
    kind, flag = row.title, f"--{row.doctor.replace('_', '-')}" if row.doctor else "--parts"
    another = CheckFinding(BAD, kind, f"{base}: something else listens there", f"is {flag} right?")
    try:
        with urlopen(f"{base}/readyz", timeout=settings.doctor_timeout_s, context=context) as response:
            ready = response.read(100) == b"ready\n"
    except HTTPError as error:
        with error:
            reason = error.read(300).decode(errors="replace").strip()
        if error.code == 503:
            return CheckFinding(BAD, kind, f"{base} is not ready: {reason}", "if it stays so, read its log")
        return another
    except _NO_ANSWER as error:
        if isinstance(getattr(error, "reason", error), ConnectionRefusedError):
            todo = f"start it, or say where it is: {flag}"
            if row.name == "usage":
                todo += "; without it nodes share limits evenly, and `coldnotify tenant usage` shows nothing new"
            return CheckFinding(WARNING, kind, f"{base}: {_NOTHING_RUNS}", todo)
        why = why_no_answer(error, base, settings.doctor_timeout_s)
        todo = f"is {flag} right?"
        if why == SPEAKS_TLS:
            todo = "coldnotify doctor --ca-cert ca.pem --cert operator.pem --key operator.key, or --context NAME"
        elif why.startswith(SILENT):
            todo = "look at its process (T in ps is stopped: kill -CONT PID) and its log; restart it if it hangs"
        return CheckFinding(BAD, kind, f"{base}: {why}", todo)
    return CheckFinding(OK, kind, f"{base} is ready") if ready else another


def _removals(base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> Iterable[CheckFinding]:
    """Checks that a matcher's clock agrees with others, and what it therefore does not forget or remove yet."""
    try:
        with urlopen(f"{base}/v1/removals", timeout=settings.doctor_timeout_s, context=context) as response:
            shown = json.load(response)
        apart = {str(one["clock"]): int(one["ahead_ms"]) for one in shown["clocks_apart"]}
        clients = sum(int(one["clients_held"]) for one in shown["items"])
        objects = sum(int(one["objects_held"]) for one in shown["items"])
        agree_s = float(shown["clocks_agree_s"])
    except (*_NO_ANSWER, LookupError, TypeError) as error:
        words = f"{base}/v1/removals does not tell whether clocks agree: {error!r}"
        yield CheckFinding(WARNING, "removals", words, "does it run another release?")
        return
    if apart:
        names = ", ".join(f"{name} {ahead_ms / 1000:+.0f} s" for name, ahead_ms in apart.items())
        todo = "nothing is forgotten or removed until they agree: docs/runbooks/RemovalsStandStill.md"
        yield CheckFinding(BAD, "removals", f"{base}: clocks are apart: {names}", todo)
    elif clients or objects:
        waiting = f"{number_of(clients, 'client')} and {number_of(objects, 'object')}"
        words = f"{base}: {waiting} wait to be forgotten or removed: too many at once"
        todo = "that happens once clocks have agreed for an hour, or after `coldnotify state removals --confirm`"
        yield CheckFinding(WARNING, "removals", words, todo)
    else:
        yield CheckFinding(OK, "removals", f"{base}: clocks have agreed for {agree_s:.0f} s, nothing waits")


def _usage_lag(base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> Iterable[CheckFinding]:
    """Checks how far a worker of the usage job lags: its verdicts contain the time up to which it has read."""
    try:
        with urlopen(f"{base}/metrics", timeout=settings.doctor_timeout_s, context=context) as response:
            lines = response.read().decode().splitlines()
        samples = dict(line.rsplit(" ", 1) for line in lines if line.startswith(_USAGE_LAG))
        lag_s, records = float(samples[f"{_USAGE_LAG}_seconds"]), float(samples[f"{_USAGE_LAG}_records"])
    except (*_NO_ANSWER, LookupError) as error:
        yield CheckFinding(
            WARNING, "usage job", f"{base}/metrics does not tell its lag: {error!r}", "does it run another release?"
        )
        return
    words = f"{base} is {lag_s:.0f} s behind what nodes write, and has {number_of(round(records), 'record')} to read"
    if records > _USAGE_LAG_RECORDS and lag_s > VERDICT_S:
        yield CheckFinding(
            BAD, "usage job", words, "its verdicts are too old when they are written: start another worker"
        )
    else:
        yield CheckFinding(OK, "usage job", words)


def _listeners(base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> Iterable[CheckFinding]:
    """The ports for devices of a gateway that is ready, each asked for a connection."""
    try:
        with urlopen(f"{base}/v1/gateway", timeout=settings.doctor_timeout_s, context=context) as response:
            shown = json.load(response)
        inside = urlsplit(base).hostname or ""
        host = shown.get("host") or inside
        ports = {row: int(shown[row.port_key]) for row in LISTENERS}
    except (*_NO_ANSWER, LookupError, TypeError) as error:
        words = f"{base}/v1/gateway does not tell its ports for devices: {error!r}"
        yield CheckFinding(WARNING, "gateway", words, "does it run another release?")
        return
    if stale := shown.get("stale"):
        words = f"{base}: {number_of(stale, 'live session')}: nothing proves that they know what was published 20 s ago"
        yield CheckFinding(WARNING, "gateway", words, "their clients say so, too: docs/runbooks/ClientsStale.md")
    # A gateway that listens everywhere is where its HTTP port was found.
    address = inside if host in _EVERYWHERE else host
    for row, port in ports.items():
        at = f"{row.name} {host_port(address, port)}"
        try:
            socket.create_connection((address, port), timeout=settings.doctor_timeout_s).close()
        except OSError as error:
            todo = f"is COLDNOTIFY_GATEWAY_HOST / --gateway-host right, and does no firewall block {row.flag}?"
            refused = isinstance(error, ConnectionRefusedError)
            yield CheckFinding(
                BAD if refused else WARNING, "gateway", f"{at} accepts no connection from here: {error}", todo
            )
        else:
            yield CheckFinding(OK, "gateway", f"{at} accepts devices' connections")


def _addresses(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _matcher(base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> Iterable[CheckFinding]:
    """Checks what a matcher alone knows."""
    yield from _removals(base, settings, context)
    yield from _unsayable(base, settings, context)


def _unsayable(base: str, settings: DoctorSettings, context: ssl.SSLContext | None) -> Iterable[CheckFinding]:
    """Checks that MQTT can say the names of all objects in groups that have MQTT devices."""
    try:
        with urlopen(f"{base}/v1/partitions", timeout=settings.doctor_timeout_s, context=context) as response:
            items = json.load(response)["items"]
        count = sum(int(one["unsayable"]) for one in items)
        names = [str(name) for one in items for name in one["unsayable_first"]]
    except (*_NO_ANSWER, LookupError, TypeError):
        return  # it runs another release, which is said above
    if count:
        shown = ", ".join(map(ascii, names[:_NAMES_SHOWN_MAX])) + (", ..." if count > _NAMES_SHOWN_MAX else "")
        words = f"{base}: MQTT cannot say {number_of(count, 'name')}: {shown}"
        todo = "MQTT devices hear nothing of these objects: name them without + and #, and without $ at the beginning"
        yield CheckFinding(WARNING, "MQTT", words, todo)


_MORE = {"matcher": _matcher, "gateway": _listeners, "usage": _usage_lag}
"""Further checks of a part that is ready, by its name."""
