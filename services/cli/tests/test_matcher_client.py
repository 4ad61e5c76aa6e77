"""Several matchers, each with part of the answers; long lists come in pages."""

from collections.abc import Iterator
from contextlib import ExitStack

import click
import pytest
from aiohttp import web
from coldnotify_cli.matcher_client import Matchers, NotKnown
from coldnotify_cli.settings import LookSettings
from coldnotify_common.admin import AdminServer, AdminThread
from coldnotify_common.list_pages import page, page_request
from coldnotify_common.web import error_response

NAMES = [f"o{i:05}" for i in range(2500)]


class FakeMatcher:
    """Serves one group only, as if its partition were the only one here."""

    def __init__(self, group: str) -> None:
        self.group = group
        base = "/v1/domains/d/groups/{group}/objects"
        routes = [web.get(base, self.objects), web.get(base + "/{object:.+}", self.object)]
        self.admin = AdminThread(AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=routes))
        self.admin.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.admin.port}"

    async def objects(self, request: web.Request) -> web.Response:
        if request.match_info["group"] != self.group:
            return error_response(503, "not served by this matcher")
        return web.json_response(page(NAMES, *page_request(request.query), lambda name: {"object": name}))

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


def test_what_nobody_serves_and_what_is_unknown_are_told_apart(matchers: Matchers) -> None:
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
