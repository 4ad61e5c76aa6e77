"""`coldnotify object reset`: starts an object's versions over."""

import logging
import time

import click
from coldnotify_common.clocks import APART_MS_MAX
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.settings import settings_options

from coldnotify_cli.commands.publish import parse_payload
from coldnotify_cli.http_node import HttpNode, NotKnown
from coldnotify_cli.matcher_client import Matchers, matchers_of
from coldnotify_cli.outcome_lines import outcome_of, say
from coldnotify_cli.printing import confirm, echo
from coldnotify_cli.settings import ResetSettings
from coldnotify_cli.suggesting_group import SuggestingGroup
from coldnotify_cli.waiting_notice import waiting_notice

_OUTCOME_WAIT_S = 2
"""For the matcher to read the record; it takes milliseconds where all is well."""


_FIRST_INCARNATION_S = 1_577_836_800
"""The beginning of 2020. Hours since then stay far below what one record may skip."""


@click.group("object", cls=SuggestingGroup)
def command_object() -> None:
    """Start an object's versions over."""


@command_object.command("reset")
@click.argument("domain")
@click.argument("group")
@click.argument("object_id", metavar="OBJECT")
@click.option("--version", type=int, default=0, show_default=True, help="First version of the new sequence.")
@click.option("--payload", metavar="JSON", help="Payload of the version, in JSON; see --object-payload-bytes-max.")
@click.option(
    "--removed",
    is_flag=True,
    help="Also start over an OBJECT that is not known any more, because retention removed it.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@settings_options(ResetSettings)
def reset(
    domain: str,
    group: str,
    object_id: str,
    version: int,
    payload: str | None,
    removed: bool,
    yes: bool,
    as_json: bool,
    settings: ResetSettings,
) -> int:
    """Start the versions of OBJECT over: publish a version that is newer than all earlier ones, whatever its number.

    The record carries the next incarnation, and registered clients are told of it. Use it after a back-end lost count,
    and with --removed for an object that retention has removed, if its versions do not go on where they were, or had
    been started over before. Nobody knows its incarnation any more; the record carries one that is higher than it can
    have got by resets.
    """
    logging.getLogger("coldnotify.publisher").setLevel(logging.CRITICAL)
    from coldnotify.publisher import Publisher

    value = parse_payload(payload)
    matchers = matchers_of(settings)
    newest = _newest(matchers, domain, group, object_id, may_be_removed=removed)
    incarnation = _incarnation_of_removed(matchers) if newest is None else newest[0] + 1
    if not yes:
        is_at = "is not known" if newest is None else f"is at version {newest[1]} (incarnation {newest[0]})"
        confirm(f"{domain}/{group}/{object_id} {is_at}. Begin again at version {version}?", yes=yes)
    options = read_options(settings.kafka_config)
    with (
        Publisher(
            settings.kafka,
            timeout_s=settings.publish_timeout_s,
            kafka_config=options,
            topics_prefix=settings.topics_prefix,
            object_payload_bytes_max=settings.object_payload_bytes_max,
        ) as publisher,
        waiting_notice(f"Kafka ({settings.kafka})", settings.publish_timeout_s),
    ):
        published = publisher.publish(domain, group, object_id, value, version=version, incarnation=incarnation)
    if not as_json:
        echo(f"incarnation {incarnation}  ", nl=False)
    about = (domain, group, object_id)
    outcome = outcome_of(matchers.get, about, published, wait_s=_OUTCOME_WAIT_S)
    return say(about, published, outcome, as_json=as_json, incarnation=incarnation)


def _newest(
    matchers: HttpNode | Matchers, domain: str, group: str, object_id: str, *, may_be_removed: bool
) -> tuple[int, int] | None:
    """Returns (incarnation, version); None if it was removed, as the caller says. Raises NotKnown,
    click.ClickException.
    """
    try:
        now = matchers.get("domains", domain, "groups", group, "objects", object_id)
    except NotKnown:
        if may_be_removed:
            return None
        raise
    if now["version"] is None and may_be_removed:
        return None
    return now["incarnation"], now["version"]


def _incarnation_of_removed(matchers: HttpNode | Matchers) -> int:
    """Clients may know versions of an incarnation that nobody else knows any more. One an hour is never reached.

    It cannot be taken back, so it takes more than one clock. Raises click.ClickException where they are apart.
    """
    now_s = time.time()
    try:
        known = [one for one in matchers.of_matchers("removals")["matchers"] if not one["error"]]
    except NotKnown:  # a service of an earlier release
        known = []
    for one in known:
        ahead_s = now_s - one["now_ms"] / 1000
        wrong = ""
        if abs(ahead_s) > APART_MS_MAX / 1000:
            wrong = f"the clock of this machine is {ahead_s:+.0f} s ahead of the matcher's"
        elif apart := ", ".join(clock["clock"] for clock in one["clocks_apart"]):
            wrong = f"the matcher's clock is apart from others ({apart})"
        if wrong:
            raise click.ClickException(
                f"{wrong}: the incarnation is made from the clock, so set the clocks right first"
            )
    return int(now_s - _FIRST_INCARNATION_S) // 3600
