"""`python -m coldnotify.testing --port 0`: a service for tests of a program in any language.

The first line on standard output is `{"port": 41823, "http": "127.0.0.1:41824"}`: devices connect to the port, by
`docs/protocol.md`, back-ends to the other one, by `docs/http-api.md`. Then each line on standard input is a JSON object
with a command, and is answered by one line: `{"ok": true, ...}`, or `{"error": "..."}`, which names the field at fault.

    {"do": "publish", "domain": D, "group": G, "object": O, "payload": ..., "version": 1, "incarnation": 0,
     "deleted": false, "wait": false, "timeout_s": 10}
                                        answers "version"; all from payload on may be left out; "wait": the answer comes
                                        when the callbacks of connected clients have taken it
    {"do": "enter", "domain": D, "group": G, "query": TEXT, "object": O}    the object is a member from here on
    {"do": "leave", ...}                likewise: it is not a member any more
    {"do": "describe", "domain": D, "group": G, "object": O, "description": {...}}    or null: removes it
    {"do": "drop"}                      breaks every connection, without a frame
    {"do": "close", "code": 3, "reason": ""}    ends every session with a Close
    {"do": "silence", "silent": true}   reads and answers nothing until it is false
    {"do": "away", "away": true}        clients that send Hello get Wait until it is false
    {"do": "lose_answers", "count": 1}  the next answers to registrations get lost
    {"do": "forget"}                    the registrations of all clients are lost, as by a matcher without its state
    {"do": "new_epoch"}                 the objects topic is recreated
    {"do": "clients"}                   answers "clients": domain, group, client, "objects", "acknowledged" of each
    {"do": "received"}                  answers "frames": what the open sessions have sent, as protobuf's JSON

It ends with standard input, or by SIGTERM or SIGINT. Exit codes: 0 done, 1 the port cannot be opened, 2 wrong use.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from google.protobuf.json_format import MessageToDict

from coldnotify.testing.server import FakeService
from coldnotify.testing.service import Service
from coldnotify.testing.service_taking import NotTaken

T = TypeVar("T")
_INT64_MAX = 2**63 - 1
_WAIT_S, _WAIT_S_MAX = 10, 600


class WrongOrder(ValueError):
    """A line demands something impossible; the text names the field at fault."""


def main(arguments: list[str]) -> int:
    """Runs the service until standard input ends; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m coldnotify.testing", description="A ColdNotify service in memory, to test programs against."
    )
    parser.add_argument("--port", type=int, default=0, help="TCP port on 127.0.0.1; 0: any free one")
    parser.add_argument("--http-port", type=int, default=0, help="HTTP port on 127.0.0.1; 0: any free one")
    parser.add_argument("--page-objects", type=int, default=100, help="notifications in a page")
    settings = parser.parse_args(arguments)
    for flag, port in (("--port", settings.port), ("--http-port", settings.http_port)):
        if not 0 <= port <= 65535:
            parser.error(f"{flag}: {port} is not from 0 to 65535")
    if settings.page_objects < 1:
        parser.error(f"--page-objects: {settings.page_objects} is not above 0")
    try:
        service = FakeService(Service(page_objects=settings.page_objects), port=settings.port)
    except OSError as error:
        print(f"--port: {settings.port} cannot be had: {error}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _end)
    with service:
        try:
            try:
                http = service.open_http(settings.http_port)
            except OSError as error:
                print(f"--http-port: {settings.http_port} cannot be had: {error}", file=sys.stderr)
                return 1
            _say({"port": service.port, "http": http})
            for line in sys.stdin:
                if line.strip():
                    _say(answer(service, line))
        except (KeyboardInterrupt, BrokenPipeError):
            pass
    return 0


def answer(service: FakeService, line: str) -> dict[str, object]:
    """Executes one line. The answer contains the error, if there was one."""
    try:
        try:
            order = json.loads(line)
        except ValueError as error:
            raise WrongOrder(f"line: is not JSON ({error})") from None
        if not isinstance(order, dict):
            raise WrongOrder("line: is not a JSON object")
        what = _take(order, "do", str)
        if what not in _ORDERS:
            raise WrongOrder(f"do: is {what!r}, not one of {', '.join(_ORDERS)}")
        do, fields = _ORDERS[what]
        for name in order:
            if name not in fields:
                raise WrongOrder(f"{name}: is not a field of {what!r}")
        told = do(service, order)
    except WrongOrder as error:
        return {"error": str(error)}
    return {"ok": True, **told}


def _publish(service: FakeService, order: dict[str, Any]) -> Mapping[str, object]:
    scope = _take(order, "domain", str), _take(order, "group", str)
    object_, payload = _take(order, "object", str), order.pop("payload", None)
    version, incarnation = (
        _number(order, name, _INT64_MAX) if name in order else None for name in ("version", "incarnation")
    )
    deleted = _take(order, "deleted", bool, default=False)
    wait, timeout_s = _take(order, "wait", bool, default=False), order.pop("timeout_s", _WAIT_S)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= _WAIT_S_MAX:
        raise WrongOrder(f"timeout_s: is {timeout_s!r}, not a number from 0 to {_WAIT_S_MAX}")
    try:
        published = service.publish(
            *scope, object_, payload, version=version, incarnation=incarnation, deleted=deleted, wait=wait,
            timeout_s=timeout_s,
        )  # fmt: skip
    except NotTaken as error:
        raise WrongOrder(f"wait: {error}") from None
    return {"version": published}


def _enter(service: FakeService, order: dict[str, Any]) -> Mapping[str, object]:
    service.enter(*(_take(order, name, str) for name in ("domain", "group", "query", "object")))
    return {}


def _leave(service: FakeService, order: dict[str, Any]) -> Mapping[str, object]:
    service.leave(*(_take(order, name, str) for name in ("domain", "group", "query", "object")))
    return {}


def _describe(service: FakeService, order: dict[str, Any]) -> Mapping[str, object]:
    domain, group, object_ = (_take(order, name, str) for name in ("domain", "group", "object"))
    has_none = "description" in order and order["description"] is None
    service.describe(domain, group, object_, None if has_none else _take(order, "description", dict))
    order.pop("description", None)
    return {}


def _drop(service: FakeService, _order: dict[str, Any]) -> Mapping[str, object]:
    service.drop_all()
    return {}


def _close(service: FakeService, order: dict[str, Any]) -> Mapping[str, object]:
    service.close_all(_number(order, "code", 2**32 - 1), _take(order, "reason", str, default=""))
    return {}


def _silence(service: FakeService, order: dict[str, Any]) -> Mapping[str, object]:
    service.silence(_take(order, "silent", bool))
    return {}


def _away(service: FakeService, order: dict[str, Any]) -> Mapping[str, object]:
    away = _take(order, "away", bool)
    with service.lock:
        if away:
            service.service.away = True
        else:
            service.service.come_back()
    service.wake()
    return {}


def _lose_answers(service: FakeService, order: dict[str, Any]) -> Mapping[str, object]:
    with service.lock:
        service.service.loses_answers = _number(order, "count", 1_000_000)
    return {}


def _forget(service: FakeService, _order: dict[str, Any]) -> Mapping[str, object]:
    with service.lock:
        service.service.registered.clear()
        service.service.queries.clear()
    return {}


def _new_epoch(service: FakeService, _order: dict[str, Any]) -> Mapping[str, object]:
    with service.lock:
        service.service.new_epoch()
    service.wake()
    return {}


def _clients(service: FakeService, _order: dict[str, Any]) -> Mapping[str, object]:
    with service.lock:
        registered = {name: sorted(objects) for name, objects in service.service.registered.items()}
        queries = {name: sorted(texts) for name, texts in service.service.queries.items()}
        acknowledged = dict(service.service.acknowledged)
    names = sorted({*registered, *acknowledged})
    return {
        "clients": [
            {
                "domain": name[0],
                "group": name[1],
                "client": name[2],
                "objects": registered.get(name, []),
                **({"queries": queries[name]} if queries.get(name) else {}),
                "acknowledged": acknowledged.get(name),
            }
            for name in names
        ]
    }


def _received(service: FakeService, _order: dict[str, Any]) -> Mapping[str, object]:
    return {"frames": [MessageToDict(frame, preserving_proto_field_name=True) for frame in service.received()]}


_ORDERS: dict[str, tuple[Callable[[FakeService, dict[str, Any]], Mapping[str, object]], set[str]]] = {
    "publish": (
        _publish,
        {"domain", "group", "object", "payload", "version", "incarnation", "deleted", "wait", "timeout_s"},
    ),
    "enter": (_enter, {"domain", "group", "query", "object"}),
    "leave": (_leave, {"domain", "group", "query", "object"}),
    "describe": (_describe, {"domain", "group", "object", "description"}),
    "drop": (_drop, set()),
    "close": (_close, {"code", "reason"}),
    "silence": (_silence, {"silent"}),
    "away": (_away, {"away"}),
    "lose_answers": (_lose_answers, {"count"}),
    "forget": (_forget, set()),
    "new_epoch": (_new_epoch, set()),
    "clients": (_clients, set()),
    "received": (_received, set()),
}
"""The commands, and the fields of each."""


def _take(order: dict[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    """Takes a field out. Raises WrongOrder."""
    if name not in order:
        if default is None:
            raise WrongOrder(f"{name}: is missing")
        return default
    value = order.pop(name)
    if not isinstance(value, kind):
        raise WrongOrder(f"{name}: is {value!r}, not a {_KINDS[kind]}")
    return value


def _number(order: dict[str, Any], name: str, most: int) -> int:
    value = _take(order, name, int)
    if isinstance(value, bool) or not 0 <= value <= most:
        raise WrongOrder(f"{name}: is {value!r}, not a whole number from 0 to {most}")
    return value


_KINDS: dict[type, str] = {dict: "object", str: "string", bool: "boolean", int: "whole number"}


def _say(what: Mapping[str, object]) -> None:
    print(json.dumps(what), flush=True)


def _end(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
