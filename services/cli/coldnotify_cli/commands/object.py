"""`coldnotify object reset`: starts an object's versions over."""

import logging

import click
from coldnotify_common.kafka_options import read_options
from coldnotify_common.settings import settings_options

from coldnotify_cli.commands.publish import parse_payload
from coldnotify_cli.matcher_client import Matchers
from coldnotify_cli.outcome_lines import outcome_of, say
from coldnotify_cli.settings import ResetSettings
from coldnotify_cli.waiting_notice import waiting_notice

_OUTCOME_WAIT_S = 2
"""For the matcher to read the record; it takes milliseconds where all is well."""


@click.group("object")
def command_object() -> None:
    """Administer one object."""


@command_object.command("reset")
@click.argument("domain")
@click.argument("group")
@click.argument("object_id", metavar="OBJECT")
@click.option("--version", type=int, default=0, show_default=True, help="First version of the new sequence.")
@click.option("--payload", metavar="JSON", help="Payload of the version, at most 4 KiB of JSON.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@settings_options(ResetSettings)
def reset(
    domain: str,
    group: str,
    object_id: str,
    version: int,
    payload: str | None,
    yes: bool,
    as_json: bool,
    settings: ResetSettings,
) -> int:
    """Start the versions of OBJECT over: publish a version that is newer than all earlier ones, whatever its number.

    The record carries the next incarnation, and registered clients are told of it. Use it after a back-end lost count.
    """
    logging.getLogger("coldnotify.publisher").setLevel(logging.CRITICAL)
    from coldnotify.publisher import Publisher

    value = parse_payload(payload)
    matchers = Matchers(settings)
    now = matchers.get("domains", domain, "groups", group, "objects", object_id)
    incarnation = now["incarnation"] + 1
    if not yes:
        click.confirm(
            f"{domain}/{group}/{object_id} is at version {now['version']} (incarnation {now['incarnation']}). "
            f"Begin again at version {version}?",
            abort=True,
            err=True,
        )
    options = read_options(settings.kafka_config)
    with (
        Publisher(settings.kafka, timeout_s=settings.publish_timeout_s, kafka_config=options) as publisher,
        waiting_notice(f"Kafka ({settings.kafka})", settings.publish_timeout_s),
    ):
        published = publisher.publish(domain, group, object_id, version, value, incarnation=incarnation)
    if not as_json:
        click.echo(f"incarnation {incarnation}  ", nl=False)
    about = (domain, group, object_id)
    outcome = outcome_of(matchers.get, about, published, wait_s=_OUTCOME_WAIT_S)
    return say(about, published, outcome, as_json=as_json, incarnation=incarnation)
