"""Everything under TLS, with certificates and tokens: the console, the ledger, what is passed on, what is revoked."""

import json
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest
from coldnotify import Connection, Notify, PublishRefused, ServiceRefused, State
from coldnotify_common.security.certificates import Authority
from coldnotify_common.security.tokens import Grant, Token, make_key, sign
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import ConnAck, Connect
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_testkit.browser import MISSING, browser
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.stack import Recorder, Stacks, Up
from coldnotify_testkit.waiting import wait_for
from websockets.sync.client import connect
from websockets.typing import Subprotocol

pytestmark = pytest.mark.kafka

OURS, THEIRS, GROUP = "animal.observer", "lamps", "region-1"
LIMIT_S = 90
TOKEN_RULE = "sub:{domain}/{group}/{client} publish:{publish} sub:{domain}/{group}/{client}=>own:units/{client}/"
"""By which each client owns names, too."""


@dataclass
class Secured:
    """All of ColdNotify under TLS; certificates or tokens are asked for."""

    up: Up
    authority: Authority
    key: Path
    revoked: Path

    @property
    def ca(self) -> Path:
        return self.authority.directory / "ca.pem"

    def token(self, client: str = "", *publishes: str, domain: str = OURS) -> Token:
        who = (domain, GROUP, client) if client else None
        return sign(self.key, Grant(who, publishes), time.time(), 3600)

    def get(self, path: str, *, token: str = "", publisher: str = "") -> tuple[int, Any]:
        """(status, JSON) of the HTTP service, asked with this proof."""
        return self.ask("GET", path, token=token, publisher=publisher)

    def ask(
        self, method: str, path: str, body: object = None, *, token: str = "", publisher: str = ""
    ) -> tuple[int, Any]:
        """The same for any method, with a body in JSON."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if publisher:
            context.load_cert_chain(*self.authority.publisher([publisher]))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else json.dumps(body).encode()
        url = f"https://{self.up.report['http']}{path}"
        answer = fetch(Request(url, data, headers, method=method), LIMIT_S, context)
        return answer.status, answer.json()

    def client(
        self, name: str, address: str, *, domain: str = OURS, **proof: Any
    ) -> tuple[Notify, Recorder, list[Exception]]:
        """A client that is registered for `camera`, not connected yet."""
        told, problems = Recorder(), list[Exception]()
        connection = Connection(address, ca_cert=self.ca, backoff_max_s=1, address_rest_s=1, **proof)
        notify = Notify(domain, GROUP, name, State(None), connection, on_error=problems.append)
        notify.register("camera").subscribe(told)
        return notify, told, problems


@pytest.fixture(scope="module")
def secured(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority, revoked = Authority(directory / "certs"), directory / "revoked"
    for service in ("gateway", "http"):
        authority.server(service, ["127.0.0.1", "localhost"])
    authority.inside(["127.0.0.1", "localhost"])
    key, _ = make_key(authority.directory)
    revoked.write_text("")
    settings = {"auth": "any", "auth_revoked": str(revoked), "auth_token_rule": TOKEN_RULE}
    with stacks.running(directory, f"--tls={authority.directory}", **settings) as up:
        with up.publisher() as publisher:
            for domain in (OURS, THEIRS):
                publisher.publish(domain, GROUP, "camera", version=1)
        yield Secured(up, authority, key, revoked)


def test_the_ledger_and_overview_are_for_who_may_publish_there(secured: Secured) -> None:
    ours, theirs = "asked.animals", "asked.lights"  # sums are of all in a domain: nobody else is in these
    with secured.up.publisher() as publisher:
        for domain in (ours, theirs):
            publisher.publish(domain, GROUP, "camera", version=1)
    token = secured.token("*", domain=ours).text
    notify, told, _ = secured.client("asked-for", f"wss://{secured.up.report['http']}", domain=ours, token=token)
    try:
        assert notify.connect(timeout_s=LIMIT_S), notify.status
        wait_for(told.reaches("camera", 1), "told")
        path = f"/v1/domains/{ours}/groups/{GROUP}/clients/asked-for/explanation"
        by_token = secured.token("", ours).text
        status, body = secured.get(path, token=by_token)
        assert (status, body["client"]) == (200, "asked-for"), "HTTP service, matcher and gateway have answered"
        assert body["gateways_silent"] == []
        assert secured.get(path, publisher=ours)[0] == 200
        assert secured.get(path, publisher=theirs)[0] == 403
        assert secured.get(path)[0] == 401
        assert secured.get(path, token=token)[0] == 403, "a client is no publisher"
        for many in ("/v1/overview", "/v1/console/events"):
            assert secured.get(many, token=token)[0] == 403, "nor is there anything of many domains for it"

        def sees(publisher: str) -> Any:
            status, body = secured.get("/v1/overview", publisher=publisher)
            assert status == 200
            return [one["domain"] for one in body["groups"]], body["clients"], body["objects"]

        wait_for(lambda: sees(ours) == ([ours], 1, 1), "their own domain, and its client")
        wait_for(lambda: sees(theirs) == ([theirs], 0, 1), "nothing of another one, sums neither")
    finally:
        notify.disconnect()


def test_an_owner_of_names_publishes_there_and_nowhere_else(secured: Secured) -> None:
    token, base = secured.token("u-7").text, f"/v1/domains/{OURS}/groups/{GROUP}"
    own, other = "units/u-7/t", "units/u-8/t"
    notify, _, _ = secured.client("u-7", f"wss://{secured.up.report['http']}", token=token)
    try:
        assert notify.connect(timeout_s=LIMIT_S), notify.status
        published = notify.publish(own, {"t": 1})
        published.wait(LIMIT_S)
        assert published.outcome(LIMIT_S).outcome == "published"
        notify.send(own, "log").wait(LIMIT_S)
        for refused in (notify.publish(other, {"t": 1}), notify.send("camera", "log")):
            with pytest.raises(PublishRefused, match="is not below units/u-7/, where alone this client may publish"):
                refused.wait(LIMIT_S)
        notify.publish(own, deleted=True).wait(LIMIT_S)
    finally:
        notify.disconnect()

    def asked(method: str, path: str, body: object = None) -> int:
        return secured.ask(method, base + path, body, token=token)[0]

    for name, status in ((own, 200), (other, 403), ("camera", 403)):
        assert asked("POST", f"/objects/{name}", {"payload": 1}) == status
        assert asked("POST", f"/channels/{name}", {"payload": 1}) == status
        assert asked("PUT", f"/objects/{name}/description", {"kind": "sensor"}) == status
    for method, path in (
        *(("POST", "/resets"), ("DELETE", "/clients/u-7"), ("PATCH", "/clients/u-7"), ("GET", "/clients/u-7")),
        *(
            ("GET", f"/objects/{own}"),
            ("GET", f"/objects/{own}/description"),
            ("GET", "/outcomes"),
            ("GET", "/channels"),
        ),
    ):
        assert asked(method, path) == 403, (method, path)
    for path in ("/v1/console/events", "/v1/overview", "/v1/groups", "/v1/tenants"):
        assert secured.get(path, token=token)[0] == 403, path
    status, shown = secured.get(f"{base}/objects/{own}", publisher=OURS)
    assert (status, shown["source"]) == (200, "u-7"), "the client was written as the source by HTTP, too"
    # The port for looking in takes no client for a service, whatever it owns.
    context = ssl.create_default_context(cafile=str(secured.ca))
    context.load_cert_chain(*secured.authority.client(OURS, GROUP, "u-7"))
    for proof in ({}, {"Authorization": f"Bearer {token}"}):
        path = f"{base}/objects/{own}/description"
        request = Request(f"https://{secured.up.report['matcher']}{path}", b"{}", proof, method="PUT")
        assert fetch(request, LIMIT_S, context).status == 403


def test_what_is_passed_on_arrives_with_its_token_and_without_its_certificate(secured: Secured) -> None:
    cert, key = secured.authority.client(OURS, GROUP, "passed-on")
    address = f"wss://{secured.up.report['http']}"
    notify, _, problems = secured.client("passed-on", address, cert=cert, key=key)
    try:
        assert not notify.connect(timeout_s=LIMIT_S)
        wait_for(problems.copy, "the refusal")
        assert isinstance(problems[0], ServiceRefused)
        assert "arrives without the client's certificate" in str(problems[0])
    finally:
        notify.disconnect()
    # At the gateway's own port the certificate counts; through the HTTP service the token does.
    for where, proof in (("web", {"cert": cert, "key": key}), ("http", {"token": secured.token("passed-on").text})):
        notify, told, problems = secured.client("passed-on", f"wss://{secured.up.report[where]}", **proof)
        try:
            assert notify.connect(timeout_s=LIMIT_S), notify.status
            wait_for(told.reaches("camera", 1), "told")
            assert problems == []
        finally:
            notify.disconnect()


def test_an_mqtt_websocket_that_is_passed_on_has_a_token_and_no_certificate(secured: Secured) -> None:
    spoken, token = ProtocolVersion.MQTT_5, secured.token("mqtt-1").text
    with_certificate = ssl.create_default_context(cafile=str(secured.ca))
    with_certificate.load_cert_chain(*secured.authority.client(OURS, GROUP, "mqtt-1"))
    without = ssl.create_default_context(cafile=str(secured.ca))

    def answer(where: str, context: ssl.SSLContext, password: str | None, header: str = "") -> ConnAck:
        url, headers = f"wss://{secured.up.report[where]}/mqtt", {"Authorization": f"Bearer {header}"} if header else {}
        said = Connect(spoken, "mqtt-1", password=password.encode() if password else None)
        offered = [Subprotocol("mqtt")]
        with connect(
            url, ssl=context, subprotocols=offered, additional_headers=headers, compression=None, open_timeout=LIMIT_S
        ) as session:
            session.send(encode(said, spoken))
            data = session.recv(LIMIT_S)
        assert isinstance(data, bytes)
        (connack,) = PacketBuffer(1000, spoken, Side.SERVER).feed(data)
        assert isinstance(connack, ConnAck)
        return connack

    for where, context, password, header in (
        ("web", with_certificate, None, ""),
        *((where, without, token, "") for where in ("web", "http")),
        *((where, without, None, token) for where in ("web", "http")),
    ):
        assert answer(where, context, password, header).reason is ReasonCode.SUCCESS
    assert answer("web", without, None).reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    refused = answer("http", with_certificate, None)
    assert refused.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert "arrives without the client's certificate" in (refused.properties.reason_string or "")


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_the_console_wants_a_token_shows_what_it_grants_and_nothing_once_it_is_revoked(
    secured: Secured, tmp_path: Path
) -> None:
    good, other = secured.token("", OURS), secured.token("asked-for")
    certificate = secured.authority.directory / "http.pem"
    with browser(tmp_path / "chromedriver.log", trusting=certificate) as window:

        def sign_in(token: str) -> None:
            window.wait_for("document.querySelector('#sign-in').open", "it asks who one is")
            window.run(
                "const form = document.querySelector('#token-form'); form.token.value = arguments[0];"
                "form.querySelector('button').click()",
                token,
            )

        def publish(domain: str, version: int) -> None:
            window.run(
                """const form = document.querySelector('#publish');
                form.domain.value = arguments[0]; form.group.value = 'console'; form.object.value = 'camera';
                form.version.value = arguments[1]; form.querySelector('button').click();
                document.querySelector('#confirm-yes').click()""",
                domain,
                str(version),
            )

        window.open(f"https://{secured.up.report['http']}/")
        sign_in("rubbish")
        window.wait_for(
            "document.querySelector('#sign-in').open && document.querySelector('#sign-in-why').innerText",
            "it says why that will not do",
        )
        assert OURS not in window.text(), "nothing was shown"
        sign_in(other.text)
        window.wait_for(
            "document.querySelector('#sign-in').open"
            " && document.querySelector('#sign-in-why').innerText.includes('may publish to no domain')",
            "a token that publishes nowhere sees nothing",
        )
        assert OURS not in str(window.run("return document.querySelector('main').innerText"))

        sign_in(good.text)
        window.wait_for(f"document.querySelector('#groups').innerText.includes('{OURS}')", "its domain")
        assert THEIRS not in window.text()
        assert "127.0.0.1" not in window.text(), "addresses are for operators"
        publish(OURS, 7)
        said = "document.querySelector('#published').innerText"
        window.wait_for(f"{said}.includes('version 7')", "it publishes")
        publish(THEIRS, 7)
        window.wait_for(f"{said}.includes('may not publish')", "and nowhere else")

        secured.revoked.write_text(f"jti {good.id}  # the tab of somebody who has left\n")
        window.wait_for(
            "document.querySelector('#sign-in').open"
            " && document.querySelector('#sign-in-why').innerText.includes('has been revoked')",
            "its stream is ended",
        )
        assert secured.get("/v1/overview", token=good.text)[0] == 401


def test_a_hangup_of_up_has_the_services_read_their_certificates_again(secured: Secured) -> None:
    up = secured.up

    def reloaded() -> int:
        return sum("certificates reloaded" in line for line in up.log_lines())

    before = reloaded()
    up.hang_up()
    wait_for(lambda: reloaded() == before + 2, "the gateway and the HTTP service have read them")
    assert up.running
    assert up.dead(up.report["pids"]) == []
