"""The walkthrough itself: its parts in their order, and what each must come to."""

import json
import re
from pathlib import Path

from coldnotify_demo.walkthrough import page
from coldnotify_demo.walkthrough.ports import Ports
from coldnotify_demo.walkthrough.transcript_shell import Background, StepFailed, TranscriptShell

_HERE = Path(__file__).parent
_DOMAIN, _GROUP, _OBJECT = "animal.observer", "region-1", "camera-config"
_ABOUT = f"{_DOMAIN} {_GROUP}"
_CLIENTS = ("observer-1", "observer-2", "by-curl")
_QUERY = "Kind = camera AND Looks = penguins"
_CHANNEL = "alarms"
_SITE = "site"
"""The directory that is served to browsers: beside the keys, never above them."""
_TOLD = r"told camera-config 42 \{.fps.: ?5\}"


class Walkthrough:
    """One play of it."""

    def __init__(self, shell: TranscriptShell, ports: Ports, *, page: bool) -> None:
        """`page`: include the browser's page."""
        self._shell = shell
        self._ports = ports
        self._with_page = page
        self._site: Background | None = None
        self._browser: Background | None = None

    def play(self) -> None:
        """All of it. Raises Failed."""
        self._certificates()
        up = self._start()
        observer = self._observers()
        self._page()
        cursor = self._first_sync()
        back_end = self._publish(observer, cursor)
        self._refusals()
        self._ledger_before(back_end)
        self._wake(back_end)
        self._query()
        self._channel()
        self._end(up, observer)

    # --- the parts

    def _certificates(self) -> None:
        shell = self._shell
        shell.title("Certificates")
        clients = " ".join(f"--client {_DOMAIN}/{_GROUP}/{client}" for client in _CLIENTS)
        shell.run(f"coldnotify certs certs {clients} --publisher {_DOMAIN}", says="token.pem")
        shell.run(f"mkdir {_SITE}")
        token = f"coldnotify token certs/token.key --client {_DOMAIN}/{_GROUP}/page-1 --hours 1"
        shell.run(f"umask 077; {token} > {_SITE}/page-1.jwt", says="valid until")

    def _start(self) -> Background:
        shell, ports = self._shell, self._ports
        shell.title("ColdNotify, with mutual TLS; pages may show a token instead")
        up = shell.start(
            "up",
            "COLDNOTIFY_AUTH=any COLDNOTIFY_TLS_CLIENT_CERTIFICATE=required "
            f"COLDNOTIFY_GATEWAY_WEB_ORIGINS=http://127.0.0.1:{ports.page} "
            f"coldnotify up --tls certs --data data{ports.flags()} 2> service.log",
        )
        shell.expect(up, "ColdNotify is ready")
        return up

    def _observers(self) -> Background:
        shell = self._shell
        shell.title("A device that stays connected, and one that wakes, registers and sleeps")
        self._copy("observer.py")
        shell.run("cat observer.py")
        observer = shell.start("observer-1", "python observer.py")
        shell.expect(observer, "told camera-config None")
        shell.run(self._watch("observer-2", "observer-2", "--state observer-2.json"), says="camera-config  unknown")
        return observer

    def _page(self) -> None:
        shell = self._shell
        shell.title("A page in a browser, by wss:// and with its token")
        missing = page.build(shell.directory / _SITE / "client") if self._with_page else "--no-page"
        if missing is not None:
            shell.note(f"left out: {missing}")
            return
        self._copy("page.html", _SITE)
        shell.run(f"cat {_SITE}/page.html")
        site = f"http://127.0.0.1:{self._ports.page}"
        self._site = shell.start("page-1", f"python -m coldnotify_demo.walkthrough.site {self._ports.page} {_SITE}")
        self._browser = shell.start(
            "chromium",
            page.command(f"{site}/page.html", shell.directory / "certs" / "gateway.pem", shell.directory / "profile"),
        )
        shell.expect(self._site, "told camera-config null")
        shell.note("nothing else is served, no key above all")
        shell.run(f"curl -sS -o answer -w '%{{http_code}}' {site}/certs/token.key", says="404")

    def _first_sync(self) -> str:
        self._shell.title("curl of /v1/sync, with a client certificate: nothing was published yet")
        answer = json.loads(self._shell.run(self._sync("null"), says='"version": ?null'))
        return json.dumps(answer["cursor"])

    def _publish(self, observer: Background, cursor: str) -> Background:
        shell = self._shell
        shell.title("One publish, and all who are awake learn it")
        shell.note("curl waits for it, up to 60 s")
        curl = shell.start("by-curl", self._sync(cursor, wait_s=60))
        self._copy("back_end.py")
        shell.run("cat back_end.py")
        back_end = shell.start("back-end", "python back_end.py")
        shell.expect(back_end, "published version 42")
        shell.expect(observer, _TOLD)
        if self._site is not None:
            shell.expect(self._site, _TOLD)
        answer = json.loads(shell.expect(curl, r'"version": ?42.*\}\n?$'))
        shell.note("by its next question curl acknowledges what it was told")
        shell.run(self._sync(json.dumps(answer["cursor"])), says=r'"notifications": ?\[\]')
        return back_end

    def _refusals(self) -> None:
        shell, ports = self._shell, self._ports
        shell.title("Who has the wrong certificate is refused, and told why")
        shell.run(
            f"coldnotify certs elsewhere --client {_DOMAIN}/{_GROUP}/observer-1 --client {_DOMAIN}/{_GROUP}/by-curl"
        )
        shell.note("of another authority: TLS itself refuses it")
        limit = "--timeout-s {timeout_s}"
        shell.refused(self._watch("observer-1", "observer-1", limit, directory="elsewhere"), "unknown ca")
        shell.note("of this authority, but for another client")
        shell.refused(self._watch("observer-1", "observer-2", limit), "observer-2 may not be .*region-1/observer-1")
        shell.note("none at all, over TCP and HTTP")
        shell.refused(
            f"coldnotify watch {_ABOUT} observer-1 camera-config --once {limit} --gateway 127.0.0.1:{ports.gateway} "
            "--ca-cert certs/ca.pem",
            "certificate required",
        )
        shell.run(
            f"curl -sS --cacert certs/ca.pem https://127.0.0.1:{ports.web}/v1/sync "
            f"-H 'Content-Type: application/json' -d '{self._body('null')}'",
            says="a client certificate or a token is needed",
        )
        shell.run(self._sync("null", certs="elsewhere"), code=None)
        shell.note("a publisher of this domain, in another one")
        shell.run(
            f"curl -sS --cacert certs/ca.pem {self._pair(f'publisher.{_DOMAIN}', '--cert', '--key')} "
            f"-d '{{\"version\": 1}}' https://127.0.0.1:{ports.http}/v1/domains/lamps/groups/g/objects/o",
            says="may not publish to .*lamps",
        )
        shell.note("and a gateway of another authority is not trusted by the client")
        shell.refused(
            self._watch("observer-1", "observer-1", limit).replace("--ca-cert certs", "--ca-cert elsewhere"),
            "certificate verify failed",
        )

    def _ledger_before(self, back_end: Background) -> None:
        shell = self._shell
        shell.title("Who lacks it? Only who sleeps")
        shell.export("COLDNOTIFY_HTTP", f"127.0.0.1:{self._ports.http}")
        shell.export("COLDNOTIFY_CA_CERT", "certs/ca.pem")
        shell.export("COLDNOTIFY_CERT", f"certs/publisher.{_DOMAIN}.pem")
        shell.export("COLDNOTIFY_KEY", f"certs/publisher.{_DOMAIN}.key")
        registered = 4 if self._site is not None else 3
        listed = shell.until(f"coldnotify who-lacks {_ABOUT} {_OBJECT}", f"1 of {registered} lack it, 1 of them asleep")
        if "observer-2" not in listed or "observer-1" in listed:
            raise StepFailed("it names somebody else than observer-2")
        shell.run(f"coldnotify explain {_ABOUT} observer-2 {_OBJECT}", says="asleep")
        shell.note("the publisher waits for it, too")
        shell.expect(back_end, "not yet: .*observer-2")

    def _wake(self, back_end: Background) -> None:
        shell = self._shell
        shell.title("It wakes")
        shell.run(self._watch("observer-2", "observer-2", "--state observer-2.json"), says="camera-config  version 42")
        shell.until(f"coldnotify who-lacks {_ABOUT} {_OBJECT}", "nobody lacks it")
        shell.run(f"coldnotify explain {_ABOUT} observer-2 {_OBJECT}", says="applied")
        shell.expect(back_end, r"at last: Applied\(applied=\d, lacking=0\)")

    def _query(self) -> None:
        shell = self._shell
        shell.title("A query: registered for what objects are, whatever they are called")
        shell.export("COLDNOTIFY_KAFKA", f"127.0.0.1:{self._ports.kafka}")
        wake = self._watch("observer-2", "observer-2", f"--state observer-2.json --query '{_QUERY}'")
        for name, looks_at in (("camera-1", "penguins"), ("camera-2", "seals")):
            publish = f"coldnotify publish {_ABOUT} {name} --version 1"
            shell.run(f"{publish} --describe Kind=camera --describe Looks={looks_at}", says="published")
        shell.run(wake, says=r"camera-1 +entered(.|\n)*camera-1 +version 1")
        shell.note("while it sleeps, one is turned to something else, and another one to what it looks for")
        shell.run(f"coldnotify describe {_ABOUT} camera-1 Looks=seals", says="seals")
        shell.run(f"coldnotify describe {_ABOUT} camera-2 Looks=penguins", says="penguins")
        told = shell.run(wake, says=r"camera-1 +left")
        if not re.search(r"camera-2 +entered", told):
            raise StepFailed("it is not told that camera-2 has entered")
        shell.run(f"coldnotify find {_ABOUT} --query '{_QUERY}'", says="camera-2")

    def _channel(self) -> None:
        shell = self._shell
        shell.title("A channel: every message, in order, also those that were sent while it slept")
        wake = self._watch("observer-2", "observer-2", f"--state observer-2.json --channel {_CHANNEL}")
        shell.run(wake)
        for payload in ('{"door": "open"}', '{"door": "closed"}'):
            shell.run(f"coldnotify send {_ABOUT} {_CHANNEL} --payload '{payload}'", says="offset")
        shell.run(wake, says=r"open(.|\n)*closed")

    def _end(self, up: Background, observer: Background) -> None:
        shell = self._shell
        shell.title("The end")
        for one in (self._browser, self._site):
            if one is not None:
                shell.stop(one)
        for one in (observer, up):
            if status := shell.stop(one):
                raise StepFailed(f"{one.name} has ended with status {status}")

    # --- commands

    def _copy(self, name: str, directory: str = ".") -> None:
        text = self._ports.put_into((_HERE / name).read_text(encoding="utf-8"))
        (self._shell.directory / directory / name).write_text(text, encoding="utf-8")

    def _watch(self, client: str, certificate: str, flags: str, directory: str = "certs") -> str:
        pair = self._pair(f"{_DOMAIN}.{_GROUP}.{certificate}", "--cert", "--key", directory)
        return (
            f"coldnotify watch {_ABOUT} {client} {_OBJECT} --once {flags} --gateway 127.0.0.1:{self._ports.gateway} "
            f"--ca-cert certs/ca.pem {pair}"
        )

    def _sync(self, cursor: str, *, wait_s: int = 0, certs: str = "certs") -> str:
        return (
            f"curl -sS --cacert certs/ca.pem {self._pair(f'{_DOMAIN}.{_GROUP}.by-curl', '--cert', '--key', certs)} "
            f"https://127.0.0.1:{self._ports.web}/v1/sync -H 'Content-Type: application/json' "
            f"-d '{self._body(cursor, wait_s)}'"
        )

    def _body(self, cursor: str, wait_s: int = 0) -> str:
        return (
            f'{{"domain": "{_DOMAIN}", "group": "{_GROUP}", "client": "by-curl", '
            f'"registrations": ["{_OBJECT}"], "cursor": {cursor}, "wait_s": {wait_s}}}'
        )

    @staticmethod
    def _pair(name: str, certificate: str, key: str, directory: str = "certs") -> str:
        return f"{certificate} {directory}/{name}.pem {key} {directory}/{name}.key"
