"""`coldnotify publish`: one version of an object, from the command line."""

import json
import logging
from pathlib import Path

import click
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.settings import settings_options
from coldnotify_schemas.priority import HIGH

from coldnotify_cli.described import parse_assignments
from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.noting import noted
from coldnotify_cli.only_if import publish_as_one, publish_only_if
from coldnotify_cli.outcome_lines import outcome_of, say
from coldnotify_cli.settings import PublishCommandSettings
from coldnotify_cli.waiting_notice import waiting_notice

_OPTIONS = {"assignments": "describe"}


@click.command("publish")
@click.argument("domain")
@click.argument("group")
@click.argument("object_id", metavar="[OBJECT]", required=False)
@click.option("--version", type=int, help="Version, 0 to 2^63-1; default: the time in ms.")
@click.option("--payload", metavar="JSON", help="Payload of the version, in JSON; see --object-payload-bytes-max.")
@click.option(
    "--payload-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose bytes are the payload, unchanged.",
)
@click.option("--source", metavar="CLIENT", help="Client that caused the publish; it is not notified of it.")
@click.option("--expires-at", type=int, metavar="MS", help="Unix time in ms from which the payload is dropped.")
@click.option("--deleted", is_flag=True, help="Publish that the object was deleted (a version like any other).")
@click.option(
    "--priority",
    type=click.Choice([HIGH]),
    help="high: not delayed by conflation, and sent before what waits for a client's connection.",
)
@click.option(
    "--describe",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Key of the object's description, which is said before the version, as a whole; may be given several times.",
)
@click.option("--if-version", type=int, metavar="N", help="Publish if version N is the newest.")
@click.option("--if-absent", is_flag=True, help="Publish if the object has no version, or is deleted.")
@click.option("--if-changed", is_flag=True, help="Publish if the newest version says something else.")
@click.option(
    "--atomic",
    "atomic_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='File of versions in JSON, [{"object": ..., "payload": ..., "if_version": ...}, ...]: publish all of them, or '
    "none.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append the publish to the history FILE (for coldnotify check).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@settings_options(PublishCommandSettings)
def command_publish(
    domain: str,
    group: str,
    object_id: str | None,
    version: int | None,
    payload: str | None,
    payload_file: Path | None,
    source: str | None,
    expires_at: int | None,
    deleted: bool,
    priority: str | None,
    assignments: tuple[str, ...],
    if_version: int | None,
    if_absent: bool,
    if_changed: bool,
    atomic_file: Path | None,
    history: Path | None,
    as_json: bool,
    settings: PublishCommandSettings,
) -> int:
    """Publish a version of OBJECT of DOMAIN and GROUP; print version, partition and offset once Kafka has it.

    Also prints the outcome, for which it asks the HTTP service: published, repeated (it was the newest already), stale
    (a newer version exists, so no client is told), altered (it was the newest already, with other content), rejected,
    or unknown if the service cannot tell. Stale, altered and rejected end with exit code 1 and a reason on stderr.

    --describe replaces the whole description; `coldnotify describe` changes some keys of it.

    Without --version the version is the time in ms. Smaller numbers after it are stale until `coldnotify object reset`.

    With one of --if-version, --if-absent and --if-changed it asks the HTTP service, and ends with exit code
    1 if the condition did not hold. Then the version is by default the next after the newest. So it is with --atomic,
    which takes no OBJECT: of at most 100 objects each may have a condition.
    """
    if atomic_file is not None:
        context = click.get_current_context()
        others = ("object_id", "version", "payload", "payload_file", "source", "expires_at", "deleted", "priority")
        for name in (*others, "assignments", "if_version", "if_absent", "if_changed"):
            if context.params.get(name):
                shown = "OBJECT" if name == "object_id" else f"--{_OPTIONS.get(name, name).replace('_', '-')}"
                raise click.UsageError(f"--atomic: cannot be combined with {shown}")
        return publish_as_one(settings, domain, group, atomic_file, history, as_json=as_json)
    if object_id is None:
        raise click.MissingParameter(param_hint="'OBJECT'", param_type="argument")
    if payload is not None and payload_file is not None:
        raise click.UsageError("--payload and --payload-file: cannot be combined")
    # What goes wrong is said in one line below; librdkafka's own lines would say it again.
    logging.getLogger("coldnotify.publisher").setLevel(logging.CRITICAL)
    from coldnotify.publisher import Publisher

    value = parse_payload(payload) if payload_file is None else payload_file.read_bytes()
    description = parse_assignments(assignments) or None
    conditions = {"if_version": if_version, "if_absent": if_absent or None, "if_changed": if_changed or None}
    if condition := {name: said for name, said in conditions.items() if said is not None}:
        name = f"--{next(iter(condition)).replace('_', '-')}"
        if description is not None:
            raise click.UsageError(f"{name}: cannot be combined with --describe")
        fields = {"version": version, "source": source, "expires_at": expires_at, "priority": priority}
        fields |= {"deleted": deleted, **condition}
        return publish_only_if(settings, (domain, group, object_id), value, fields, history, as_json=as_json)
    node = HttpNode(settings)
    with (
        Publisher(
            settings.kafka,
            timeout_s=settings.publish_timeout_s,
            kafka_config=read_options(settings.kafka_config),
            topics_prefix=settings.topics_prefix,
            object_payload_bytes_max=settings.object_payload_bytes_max,
        ) as publisher,
        noted(
            history,
            domain,
            group,
            object_id,
            version,
            value,
            source=source,
            expires_at=expires_at,
            deleted=deleted,
            priority=priority,
        ) as answer,
    ):
        with waiting_notice(f"Kafka ({settings.kafka})", settings.publish_timeout_s):
            published = publisher.publish(
                domain,
                group,
                object_id,
                value,
                version=version,
                source=source,
                expires_at=expires_at,
                deleted=deleted,
                description=description,
                priority=priority,
            )
        answer(published.version)
    about = (domain, group, object_id)
    return say(about, published, outcome_of(node.get, about, published), as_json=as_json)


def parse_payload(text: str | None) -> object:
    """Parses the payload of --payload. Raises click.UsageError."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--payload: is not JSON: {error}") from None
