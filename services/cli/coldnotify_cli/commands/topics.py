"""`coldnotify topics plan|apply|dump|copy`: the topics as code, compared with a Kafka or brought into it; what they
hold."""

import dataclasses
import json
import logging
from contextlib import AbstractContextManager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.plurals import number_of
from coldnotify_common.settings import settings_options

from coldnotify_cli.printing import echo
from coldnotify_cli.settings import AclsSettings, DumpSettings, TopicsSettings
from coldnotify_cli.suggesting_group import SuggestingGroup
from coldnotify_cli.waiting_notice import waiting_notice

if TYPE_CHECKING:
    from coldnotify_kafka.topic_plan import TopicPlan
    from confluent_kafka.admin import AdminClient


@click.group("topics", cls=SuggestingGroup)
def command_topics() -> None:
    """Compare Kafka's topics and ACLs with what ColdNotify needs, change them, dump or copy what the topics hold."""


_KINDS = {"CreateTopic": "create", "AlterSetting": "setting", "AddPartitions": "partitions", "PlanRefusal": "refusal"}
"""The name of each class of differences in --json."""
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@command_topics.command("plan")
@_json_option
@settings_options(TopicsSettings)
def plan(as_json: bool, settings: TopicsSettings) -> int:
    """Show what `apply` would change, without changing it. Exit code 1 if `apply` would refuse."""
    todo = _run(settings, change=False)
    _show(todo, as_json)
    return 1 if todo.refusals else 0


@command_topics.command("apply")
@_json_option
@settings_options(TopicsSettings)
def apply(as_json: bool, settings: TopicsSettings) -> int:
    """Create and change topics; change nothing if any change would lose data. Safe to repeat."""
    _show(_run(settings, change=True), as_json)
    return 0


def _show(plan: "TopicPlan", as_json: bool) -> None:
    if not as_json:
        echo(*str(plan).split("\n"))
        return
    shown = {
        name: [{"kind": _KINDS[type(item).__name__], **dataclasses.asdict(item)} for item in items]
        for name, items in (("changes", plan.changes), ("refusals", plan.refusals))
    }
    echo(json.dumps(shown))


@command_topics.command("dump")
@click.argument("history", metavar="HISTORY", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--no-channels",
    is_flag=True,
    help="Leave out the messages of channels, which may be many, and the matchers' state of channels.",
)
@_json_option
@settings_options(DumpSettings)
def dump(history: Path, no_channels: bool, as_json: bool, settings: DumpSettings) -> int:
    """Write what the topics hold now to the file HISTORY, for `coldnotify check`. Changes nothing in Kafka.

    These are objects, registrations, sessions, and all of channels; not what is on its way, rejected, or of tenants.
    """
    from coldnotify_checker import HistoryWriter
    from coldnotify_checker.histories import Record, Topic

    from coldnotify_cli import topics_dump

    if history.exists() and history.stat().st_size:
        raise click.UsageError(f"HISTORY: {history} is not empty: two dumps in one history would contradict each other")
    try:
        with HistoryWriter(history) as writer:
            # Services do without the topics of channels.
            of_channels = topics_dump.of_channels(settings.topics)
            dumped = topics_dump.of_clients(settings.topics) + (() if no_channels else of_channels)
            counts = dict.fromkeys(dumped, 0)
            there = set()
            options = read_options(settings.kafka_config)
            events = topics_dump.read(
                settings.kafka,
                settings.topics_timeout_s,
                options,
                topics=settings.topics,
                dumped=dumped,
                payload_bytes_max=settings.object_payload_bytes_max,
            )
            with _waiting(settings):
                first = list(islice(events, 1))
            for event in chain(first, events):
                writer.write(event)
                counts[event.topic] += isinstance(event, Record)
                there |= {event.topic} if isinstance(event, Topic) else set()
    except topics_dump.DumpError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        echo(json.dumps({topic: count if topic in there else None for topic, count in counts.items()}))
        return 0
    for topic, count in counts.items():
        echo(f"{topic}  {number_of(count, 'record')}" if topic in there else f"{topic}  does not exist")
    return 0


@command_topics.command("copy")
@click.option(
    "--to-prefix", metavar="PREFIX", required=True, help="The prefix of the new topics, such as b. for b.objects."
)
@click.option("--follow", is_flag=True, help="Go on copying what comes, until Ctrl-C.")
@click.option("--switch", is_flag=True, help="Shut the old topics, copy what lacks, and let services use the new ones.")
@click.option(
    "--cancel", is_flag=True, help="Have the old topics take records again, after a --switch that did not end."
)
@_json_option
@settings_options(TopicsSettings)
def copy(to_prefix: str, follow: bool, switch: bool, cancel: bool, as_json: bool, settings: TopicsSettings) -> int:
    """Copy all topics under another prefix, with another number of partitions. Each call goes on where one ended.

    Copied are objects, descriptions, registrations, channels, agreements and usage. Without an option: up to where the
    topics end now.
    """
    from coldnotify_kafka.errors import TopicsNotAppliedError, TopicsRefusedError
    from confluent_kafka import KafkaException

    from coldnotify_cli.copying import run_copy
    from coldnotify_cli.topics_copy import CopyError

    if follow + switch + cancel > 1:
        raise click.UsageError("--follow, --switch and --cancel exclude each other")
    what = "follow" if follow else "switch" if switch else "cancel" if cancel else ""
    try:
        return run_copy(settings, to_prefix, what, as_json=as_json)
    except (CopyError, TopicsNotAppliedError, TopicsRefusedError) as error:
        raise click.ClickException(str(error)) from None
    except KafkaException as error:
        raise click.ClickException(f"Kafka ({settings.kafka}): {error.args[0].str()}; run it again") from None


@command_topics.command("acls")
@click.option("--apply", "change", is_flag=True, help="Apply the changes; without it, only show what differs.")
@_json_option
@settings_options(AclsSettings)
def acls(change: bool, as_json: bool, settings: AclsSettings) -> int:
    """Show, or with --apply create, missing Kafka ACLs: one principal per service; back-ends may only write objects."""
    from coldnotify_kafka import acls
    from coldnotify_kafka.errors import AclsFileError, AclsNotAppliedError

    from coldnotify_cli import parts_in_kafka

    try:
        wanted = parts_in_kafka.acls(settings.acls_principal, settings.topics)
    except AclsFileError as error:
        raise click.UsageError(f"COLDNOTIFY_ACLS_PRINCIPAL / --acls-principal: {error}") from None
    run = acls.apply if change else acls.plan
    try:
        with _waiting(settings):
            todo = run(_admin(settings), wanted, settings.topics_timeout_s)
    except AclsNotAppliedError as error:
        raise click.ClickException(f"Kafka ({settings.kafka}): {error}") from None
    echo(*([json.dumps(dataclasses.asdict(todo))] if as_json else str(todo).split("\n")))
    return 0


def _waiting(settings: TopicsSettings | AclsSettings) -> AbstractContextManager[None]:
    return waiting_notice(f"Kafka ({settings.kafka})", settings.topics_timeout_s)


def _run(settings: TopicsSettings, *, change: bool) -> "TopicPlan":
    from coldnotify_kafka import topic_plan
    from coldnotify_kafka.errors import TopicsNotAppliedError, TopicsRefusedError

    from coldnotify_cli import parts_in_kafka

    specs = parts_in_kafka.topics(settings.partitions or None, settings.replication, settings.topics)
    try:
        run = topic_plan.apply if change else topic_plan.plan
        with _waiting(settings):
            return run(_admin(settings), specs, settings.topics_timeout_s, keep=not settings.partitions)
    except TopicsNotAppliedError as error:
        raise click.ClickException(f"Kafka ({settings.kafka}): {error}") from None
    except TopicsRefusedError as error:
        raise click.ClickException(str(error)) from None


def _admin(settings: TopicsSettings) -> "AdminClient":
    from confluent_kafka.admin import AdminClient

    # librdkafka's own lines say the same as the one error that is shown.
    silent = logging.getLogger("coldnotify.topics")
    silent.addHandler(logging.NullHandler())
    silent.propagate = False
    config: dict[str, Any] = {
        "bootstrap.servers": settings.kafka,
        "logger": silent,
        **read_options(settings.kafka_config),
    }
    return AdminClient(config)
