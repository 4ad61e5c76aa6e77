"""Several matchers, each with part of the answers; long lists come in pages."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import click
import pytest
from aiohttp import web
from click.testing import CliRunner
from coldnotify_cli import service_checks
from coldnotify_cli.commands.object import _incarnation_of_removed
from coldnotify_cli.commands.state import command_state
from coldnotify_cli.findings import BAD, OK, WARNING
from coldnotify_cli.http_node import NotKnown
from coldnotify_cli.matcher_client import Matchers
from coldnotify_cli.settings import DoctorSettings, LookSettings
from coldnotify_common.clocks import KAFKA
from coldnotify_common.http.admin import AdminServer, AdminThread
from coldnotify_common.http.list_pages import page, page_request
from coldnotify_common.http.web import error_response

NAMES = [f"o{i:05}" for i in range(2500)]


class FakeMatcher:
    """Serves one group only, as if its partition were the only one here."""

    def __init__(self, group: str) -> None:
        self.group = group
        base = "/v1/domains/d/groups/{group}/objects"
        self.ahead_ms, self.apart = 0, list[dict[str, object]]()
        self.confirmed = False
        routes = [
            web.get(base, self.objects),
            web.get(base + "/{object:.+}", self.object),
            web.get("/v1/removals", self.removals),
            web.patch("/v1/removals", self.confirm),
        ]
        self.admin = AdminThread(AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=routes))
        self.admin.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.admin.port}"

    async def objects(self, request: web.Request) -> web.Response:
        if request.match_info["group"] != self.group:
            return error_response(503, "not served by this matcher")
        return web.json_response(page(NAMES, *page_request(request.query), lambda name: {"object": name}))

    async def removals(self, _request: web.Request) -> web.Response:
        now_ms = time.time_ns() // 1_000_000 + self.ahead_ms
        held = {"partition": 3, "clients_held": 0 if self.confirmed else 150, "objects_held": 0}
        return web.json_response({"now_ms": now_ms, "clocks_agree_s": 5.0, "clocks_apart": self.apart, "items": [held]})

    async def confirm(self, request: web.Request) -> web.Response:
        if self.apart:
            return error_response(409, "clocks are apart")
        self.confirmed = (await request.json())["confirmed"]
        return await self.removals(request)

    async def object(self, request: web.Request) -> web.Response:
        if request.match_info["group"] != self.group:
            return error_response(503, "not served by this matcher")
        if request.match_info["object"] == "none":
            return error_response(404, "object: is not known")
        return web.json_response({"object": request.match_info["object"]})


@pytest.fixture
def matchers() -> Iterator[Matchers]:
    with ExitStack() as stack:
        fakes = [FakeMatcher("g1"), FakeMatcher("g2")]
        for fake in fakes:
            stack.callback(fake.admin.stop)
        yield Matchers(LookSettings(matcher=",".join(fake.address for fake in fakes)))


def path(group: str, *more: str) -> tuple[str, ...]:
    return ("domains", "d", "groups", group, "objects", *more)


def test_the_matcher_that_serves_the_group_is_found(matchers: Matchers) -> None:
    for group in ("g1", "g2"):
        assert matchers.get(*path(group, "a/b c")) == {"object": "a/b c"}


def test_not_served_and_not_known_are_different_errors(matchers: Matchers) -> None:
    with pytest.raises(click.ClickException, match=r"matcher .*: not served.*; matcher .*: not served"):
        matchers.get(*path("g3", "o"))
    with pytest.raises(NotKnown, match=r"^object: is not known$"):
        matchers.get(*path("g2", "none"))


@pytest.mark.parametrize(("limit", "length"), [(None, 2500), (1, 1), (1000, 1000), (1001, 1001), (9999, 2500)])
def test_a_long_list_comes_whole_or_up_to_the_limit(matchers: Matchers, limit: int | None, length: int) -> None:
    assert [item["object"] for item in matchers.items(*path("g2"), limit=limit)] == NAMES[:length]


def test_no_address_is_wrong_use() -> None:
    with pytest.raises(click.UsageError, match="COLDNOTIFY_MATCHER / --matcher"):
        Matchers(LookSettings(matcher=" , "))


@pytest.fixture
def fake() -> Iterator[FakeMatcher]:
    one = FakeMatcher("g1")
    yield one
    one.admin.stop()


def test_pending_removals_are_shown_and_confirmed(fake: FakeMatcher) -> None:
    asked = ["removals", "--json", "--matcher", fake.address]
    shown = CliRunner().invoke(command_state, asked)
    row = {"matcher": fake.address, "clocks_agree_s": 5.0, "partition": 3, "clients_held": 150, "objects_held": 0}
    assert json.loads(shown.stdout.splitlines()[-1]) == row
    assert not fake.confirmed
    confirmed = CliRunner().invoke(command_state, [*asked, "--confirm"])
    assert json.loads(confirmed.stdout.splitlines()[-1]) == {**row, "clients_held": 0}
    fake.apart = [{"clock": KAFKA, "ahead_ms": 90_000}]
    refused = CliRunner().invoke(command_state, [*asked, "--confirm"])
    assert refused.exit_code == 1
    assert "clocks are apart" in refused.stderr
    assert "+90 s" in CliRunner().invoke(command_state, ["removals", "--matcher", fake.address]).stderr


def test_the_doctor_names_clocks_that_are_apart_and_says_what_waits(fake: FakeMatcher) -> None:
    def found() -> tuple[str, str]:
        (one,) = service_checks._removals(f"http://{fake.address}", DoctorSettings(), None)
        return one.state, one.words

    state, words = found()
    assert (state, "150 clients and 0 objects wait" in words) == (WARNING, True)
    fake.apart = [{"clock": KAFKA, "ahead_ms": -90_000}]
    state, words = found()
    assert (state, "Kafka's clock -90 s" in words) == (BAD, True)
    fake.apart, fake.confirmed = [], True
    assert found()[0] == OK
    fake.admin.stop()
    assert found()[0] == WARNING


def test_an_incarnation_is_made_of_no_hour_that_is_wrong(fake: FakeMatcher) -> None:
    matchers = Matchers(LookSettings(matcher=fake.address))
    hours = _incarnation_of_removed(matchers)
    assert 57_000 < hours < 200_000
    fake.ahead_ms = -200 * 86_400_000
    with pytest.raises(click.ClickException, match=r"\+17280000 s ahead of the matcher's"):
        _incarnation_of_removed(matchers)
    fake.ahead_ms, fake.apart = 0, [{"clock": KAFKA, "ahead_ms": 90_000}]
    with pytest.raises(click.ClickException, match="apart from others"):
        _incarnation_of_removed(matchers)
