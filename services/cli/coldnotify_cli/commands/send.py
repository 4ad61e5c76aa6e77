"""`coldnotify send`: a message to a channel, from the command line."""

import json
import logging
import secrets
from pathlib import Path

import click
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.settings import settings_options
from coldnotify_schemas.priority import HIGH

from coldnotify_cli.commands.publish import parse_payload
from coldnotify_cli.noting import noted_send
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import SendSettings
from coldnotify_cli.waiting_notice import waiting_notice

_ID_BYTES = 8
"""Length of a message's id, which is unique among the 10,000 records in which repeats are recognised."""


@click.command("send")
@click.argument("domain")
@click.argument("group")
@click.argument("channel")
@click.option("--payload", metavar="JSON", help="Payload of the message, at most 64 KiB of JSON; default: null.")
@click.option(
    "--payload-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose bytes are the payload, unchanged.",
)
@click.option(
    "--id", "id_", metavar="TEXT", help="Id by which repeats of the message are recognised; default: a random one."
)
@click.option(
    "--to", multiple=True, metavar="ATTRIBUTE", help="Send only to subscriptions with this attribute (or another --to)."
)
@click.option("--expires-at", type=int, metavar="MS", help="Unix time in ms from which no client is told the message.")
@click.option("--source", metavar="CLIENT", help="Client that caused the message.")
@click.option(
    "--priority",
    type=click.Choice([HIGH]),
    help="high: what waits of this channel for a client is told before what waits of others.",
)
@click.option("--key", metavar="TEXT", help="Members of a share are handed messages with one key in their order.")
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append the send and its outcome to the history FILE (for coldnotify check).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@settings_options(SendSettings)
def command_send(
    domain: str,
    group: str,
    channel: str,
    payload: str | None,
    payload_file: Path | None,
    id_: str | None,
    to: tuple[str, ...],
    expires_at: int | None,
    source: str | None,
    priority: str | None,
    key: str | None,
    history: Path | None,
    as_json: bool,
    settings: SendSettings,
) -> int:
    """Send a message to CHANNEL of DOMAIN and GROUP; print its partition and offset once Kafka has it.

    Whoever subscribes to a channel is told every message, in order. The services must have the same
    --channel-retentions.
    """
    if payload is not None and payload_file is not None:
        raise click.UsageError("--payload and --payload-file: cannot be combined")
    logging.getLogger("coldnotify.publisher").setLevel(logging.CRITICAL)
    from coldnotify.publisher import Publisher

    said = parse_payload(payload) if payload_file is None else payload_file.read_bytes()
    settings.retentions()
    message = id_ or secrets.token_hex(_ID_BYTES)
    about = {"to": sorted(set(to)), "expires_at": expires_at}
    with (
        Publisher(
            settings.kafka,
            timeout_s=settings.publish_timeout_s,
            kafka_config=read_options(settings.kafka_config),
            topics_prefix=settings.topics_prefix,
            channel_retentions=settings.channel_retentions,
        ) as publisher,
        noted_send(history, f"{domain}/{group}/{channel}", message, said, **about) as answer,
    ):
        with waiting_notice(f"Kafka ({settings.kafka})", settings.publish_timeout_s):
            sent = publisher.send(
                domain,
                group,
                channel,
                said,
                id=message,
                to=to,
                expires_at=expires_at,
                source=source,
                priority=priority,
                key=key,
            )
        answer(sent.offset)
    if as_json:
        echo(json.dumps(sent._asdict()))
    else:
        echo(f"partition {sent.partition}  offset {sent.offset}  id {sent.id}")
    return 0
