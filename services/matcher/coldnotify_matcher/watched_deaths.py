"""Watches the other matchers that the nodes topic names: the partitions of one that dies are taken over at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from coldnotify_common.errors import SettingError
from coldnotify_common.kafka.group_coordinator import GroupCoordinator
from coldnotify_common.kafka.kafka_login import login_of
from coldnotify_common.nodes import HTTPS, INSIDE
from coldnotify_common.nodes_reader import NodesReader
from coldnotify_common.security.inside import Inside
from coldnotify_schemas.host_port import parse_host_port
from coldnotify_streams.deaths_watch import Address, DeathsWatch

from coldnotify_matcher.settings import MatcherSettings

log = structlog.get_logger()


@contextmanager
def watched_deaths(settings: MatcherSettings, inside: Inside, readiness: Callable[[], str | None]) -> Iterator[None]:
    """Watches inside of `with`, from when `readiness` returns None: a start has no time for it."""
    try:
        login = login_of(settings.kafka_config, "who removes a dead matcher from its group")
    except SettingError as error:
        log.warning("dead matchers are noticed late, by the session timeout", reason=str(error))
        yield
        return
    nodes = NodesReader(settings)

    def addresses() -> dict[str, Address]:
        found = {node.id: node.addresses.get(INSIDE, "") for node in nodes.nodes("matcher")}
        return {id_: parse_host_port(one.removeprefix(HTTPS)) for id_, one in found.items() if one}

    watch = DeathsWatch(
        settings.matcher_id,
        GroupCoordinator(settings.kafka, login, settings.group),
        addresses,
        lambda: inside.client,
        session_timeout_s=settings.matcher_session_timeout_ms / 1000,
        begin=nodes.start,
        readiness=readiness,
    )
    watch.start()
    try:
        yield
    finally:
        watch.stop()
        nodes.stop()
