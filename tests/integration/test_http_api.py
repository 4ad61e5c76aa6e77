"""Every HTTP port, attacked by Schemathesis with what its own OpenAPI document allows and forbids.

Has a stack of its own: tenants that are made up would limit other tests' domains.
"""

import random
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

import msgspec
import pytest
from coldnotify_testkit.api_attack import DOMAIN, GROUP, KNOWN, attack
from coldnotify_testkit.bounded_proxy import in_front_of
from coldnotify_testkit.command import http_status
from coldnotify_testkit.fetching import TIMEOUT_S, fetch
from coldnotify_testkit.stack import Stacks, Up, get_json
from coldnotify_testkit.waiting import WAIT_S, wait_for
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.sync.client import connect
from websockets.typing import Subprotocol

_UPGRADE, _MQTT = "/v1/connect", "/mqtt"
_ENDLESS = (_UPGRADE, _MQTT, "/v1/events", "/v1/console/events")
"""These end when the caller goes: they are attacked through a proxy that reads the first event only."""
_ENDS = (1000, 1001, 1003, 1009)
"""How a session over WebSocket may end: in order, going away, not for text, too long. 1011 is an error inside."""
_FRAME_BYTES_MAX = 100_000
"""Who sends more may be cut off."""
_PORTS = ("http", "web", "matcher", "gateways_http", "usage")
"""By their names in the ready report."""


@pytest.fixture(scope="module")
def attacked(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything, with an object, a client, a channel and a tenant of the names that are to be known."""
    with stacks.running(tmp_path_factory.mktemp("attacked"), http_look_timeout_s="10") as up:
        base = f"/v1/domains/{DOMAIN}/groups/{GROUP}"
        channel = KNOWN["channel"]
        ask(up, "POST", f"{base}/objects/{KNOWN['object']}", {"version": 1, "payload": [1]})
        ask(up, "PUT", f"{base}/objects/{KNOWN['object']}/description", {"Kind": "lamp"})
        ask(up, "POST", f"{base}/channels/{channel}", {"payload": 1})
        wake(up)
        ask(up, "PUT", f"/v1/tenants/{KNOWN['tenant']}", {"domains": [DOMAIN]})
        check_known(up)
        # `up` is ready without the usage job, whose port is attacked, too.
        usage_port = int(up.report["usage"].rpartition(":")[2])
        wait_for(lambda: http_status(usage_port, "/readyz") == 200, "the usage job is ready")
        yield up


def wake(up: Up) -> None:
    """The client of the name that is to be known comes, with all that it wants."""
    wanted = {
        "registrations": [unquote(KNOWN["object"]), "other"],
        "queries": ["Kind = lamp"],
        "channels": {KNOWN["channel"]: "oldest"},
    }
    ask(up, "POST", "/v1/sync", {"domain": DOMAIN, "group": GROUP, "client": KNOWN["client"], **wanted})


def check_known(up: Up) -> None:
    """What is known is met by the attack: otherwise each answer that it sees would be 404."""
    base = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}"
    assert get_json(f"{base}/objects/{KNOWN['object']}/lacking")["registered"] == 1
    assert get_json(f"{base}/clients/{KNOWN['client']}")["registrations"]["items"]
    assert get_json(f"{base}/channels/{KNOWN['channel']}")["subscribers"] == 1


def ask(up: Up, method: str, path: str, body: object) -> None:
    request = Request(up.http_url + path, data=msgspec.json.encode(body), method=method)
    with urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def url_of(up: Up, port: str) -> str:
    said = up.report[port]
    return f"http://{said[0] if isinstance(said, list) else said}"


@pytest.mark.parametrize("port", _PORTS)
@pytest.mark.timeout(1500)
def test_a_port_answers_as_its_document_says_and_no_request_is_an_error_inside(
    attacked: Up, port: str, tmp_path: Path
) -> None:
    with suppress(HTTPError):  # another port's attack may have forgotten it, or limited its tenant
        wake(attacked)
    url = url_of(attacked, port)
    endless = [path for path in _ENDLESS if path in get_json(f"{url}/v1/openapi.json")["paths"]]
    if found := attack(url, tmp_path, without=endless):
        pytest.fail(found, pytrace=False)
    if endless:
        with in_front_of(url) as bounded:
            if found := attack(bounded.url, tmp_path, only=endless):
                pytest.fail(found, pytrace=False)
        # Every one was met as it is meant, too: a stream began, or an upgrade was missing.
        meant = {(path, 400 if path in (_UPGRADE, _MQTT) else 200) for path in endless}
        assert meant - bounded.answers.keys() == set()
        assert {("/v1/events", 400)} <= bounded.answers.keys()


@pytest.mark.parametrize("port", _PORTS)
def test_a_parameter_that_a_port_does_not_know_is_refused(attacked: Up, port: str) -> None:
    with pytest.raises(HTTPError, match="400") as refused:
        urlopen(f"{url_of(attacked, port)}/v1/openapi.json?versoin=1", timeout=TIMEOUT_S)
    assert msgspec.json.decode(refused.value.read())["field"] == "versoin"


def test_a_publish_with_an_unknown_parameter_publishes_nothing(attacked: Up) -> None:
    path = f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/asked-wrongly"
    with pytest.raises(HTTPError, match="400"):
        ask(attacked, "POST", f"{path}?if_vresion=99", {"version": 1})
    with pytest.raises(HTTPError, match="404"):
        get_json(f"{attacked.http_url}{path}")


def handshakes() -> dict[str, dict[str, str]]:
    """Headers of openings of a WebSocket, by what is wrong with them."""
    good = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    wrong = {
        "version 12": {"Sec-WebSocket-Version": "12"},
        "version x": {"Sec-WebSocket-Version": "x"},
        "a key that is none": {"Sec-WebSocket-Key": "not base64"},
        "a short key": {"Sec-WebSocket-Key": "AAAA"},
        "an empty key": {"Sec-WebSocket-Key": ""},
        "another upgrade": {"Upgrade": "h2c"},
        "no upgrade wanted": {"Connection": "keep-alive"},
    }
    without = {f"without {name}": {n: v for n, v in good.items() if n != name} for name in good}
    more = {
        "nothing": {},
        "nothing, though a protocol is offered": {"Sec-WebSocket-Protocol": "chat, \x80"},
        "nothing, though an extension is offered": {"Sec-WebSocket-Extensions": 'permessage-deflate; x="1'},
    }
    return {name: good | one for name, one in {**more, **wrong}.items()} | without


@pytest.mark.parametrize("port", ["http", "web"])
@pytest.mark.parametrize("path", [_UPGRADE, _MQTT])
@pytest.mark.timeout(600)
def test_a_websocket_begins_or_is_refused_as_its_document_says(attacked: Up, path: str, port: str) -> None:
    url = url_of(attacked, port)
    documented = {int(status) for status in get_json(f"{url}/v1/openapi.json")["paths"][path]["get"]["responses"]}
    for wrong, headers in handshakes().items():
        offered = headers.get("Sec-WebSocket-Protocol", "chat")
        more = {} if path == _UPGRADE else {"Sec-WebSocket-Protocol": f"{offered}, mqtt"}
        with closing(HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)) as connection:
            connection.request("GET", path, headers=headers | more)
            status = connection.getresponse().status
        assert status in documented, wrong
        assert (status == 101) == wrong.startswith("nothing"), wrong


@pytest.mark.parametrize("port", ["http", "web"])
@pytest.mark.parametrize("path", [_UPGRADE, _MQTT])
@pytest.mark.timeout(600)
def test_whatever_is_said_on_a_websocket_is_no_error_inside(attacked: Up, path: str, port: str) -> None:
    draw = random.Random(port)
    url = f"{url_of(attacked, port).replace('http', 'ws', 1)}{path}"
    offered = [Subprotocol("mqtt")]
    before = attacked.log_lines()
    said: list[bytes | str] = [b"", "", "text", b"\xff" * 20, bytes(200_000)]
    said += [draw.randbytes(draw.choice((1, 2, 5, 60, 3000))) for _ in range(60)]
    for one in said:
        with connect(url, subprotocols=offered, compression=None, open_timeout=WAIT_S) as session:
            # A ping after it is answered, or the session was closed before: what it was is understood by then.
            with suppress(ConnectionClosed):
                session.send(one)
                answered = session.ping()
                wait_for(lambda: answered.is_set() or session.state is State.CLOSED, "an answer")  # noqa: B023
            session.close()
            ended = (*_ENDS, 1006) if len(one) > _FRAME_BYTES_MAX else _ENDS
            assert session.close_code in ended, (one[:20], session.close_reason)
    new = "\n".join(attacked.log_lines()[len(before) :])
    assert "Traceback" not in new
    assert fetch(f"{url_of(attacked, port)}/v1/openapi.json").status == 200
