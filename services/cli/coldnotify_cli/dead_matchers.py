"""Removes a matcher that has died from its group, for `coldnotify up`, which hears of the death before anybody else."""

import asyncio

import structlog
from coldnotify_common.errors import SettingError
from coldnotify_common.kafka.group_coordinator import CoordinatorUnavailable, GroupCoordinator
from coldnotify_common.kafka.kafka_login import login_of

log = structlog.get_logger()

WITHIN_S = 1.0
"""Longest time that the matcher's next start waits for this."""


def remove_dead_matcher(kafka: str, kafka_config: str, group: str, matcher_id: str) -> None:
    """Removes it, so that the others have its partitions at once. It must not run, nor be started meanwhile."""
    try:
        login = login_of(kafka_config, "who removes a dead matcher from its group")
        if asyncio.run(_remove(GroupCoordinator(kafka, login, group), matcher_id)):
            log.info("a matcher died: removed from its group", member=matcher_id)
    except (SettingError, CoordinatorUnavailable, TimeoutError) as error:
        reason = str(error) or f"not within {WITHIN_S:g} s"
        log.warning("a matcher died, and its group notices it by its session timeout", member=matcher_id, reason=reason)


async def _remove(coordinator: GroupCoordinator, matcher_id: str) -> bool:
    try:
        async with asyncio.timeout(WITHIN_S):
            member = (await coordinator.members()).get(matcher_id)
            return member is not None and await coordinator.remove(matcher_id, member.id)
    finally:
        coordinator.close()
