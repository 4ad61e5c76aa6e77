"""`coldnotify topics copy`: the order in which an installation moves to another prefix, and what is printed of it."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from click import UsageError
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.plurals import number_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import KafkaError, KafkaException

from coldnotify_cli.copied_records import LOWERED, NOT_UNDERSTOOD, UNREADABLE
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import TopicsSettings
from coldnotify_cli.topics_copy import TopicsCopy

Say = Callable[..., None]
"""Prints lines of progress."""

_SAY_S = 5.0
_AGAIN_S = 1.0
_BEHIND_MAX = 2_000
"""Offsets that may lack when the old topics are shut: less than a second of copying."""
_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._NOENT,  # no leaders are found
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Nodes are away, start, or elect who leads."""
_LEFT = {
    NOT_UNDERSTOOD: "{} not understood (matchers reject them, too) or of takeovers",
    UNREADABLE: "{} that Kafka cannot read",
    LOWERED: "{} with an incarnation that is lowered",
}


def run_copy(settings: TopicsSettings, to_prefix: str, what: str, *, as_json: bool = False) -> int:
    """Runs the command; `what`: follow, switch, cancel, or "" to copy up to the present end.

    `as_json`: the result is one JSON object, and progress goes to stderr.

    Raises CopyError, KafkaException, UsageError, and what topic_plan.create_missing raises.
    """
    try:
        target = TopicNames(to_prefix)
    except ValueError as error:
        raise UsageError(f"--to-prefix: {error}") from None
    if target == settings.topics:
        raise UsageError(f"--to-prefix: {to_prefix} is the prefix of the topics themselves")
    copy = TopicsCopy(
        {"bootstrap.servers": settings.kafka, **read_options(settings.kafka_config)},
        settings.topics,
        target,
        partitions=settings.partitions or None,
        replication=settings.replication,
        timeout_s=settings.topics_timeout_s,
    )
    say = partial(echo, err=as_json)
    if what == "cancel":
        copy.open_again()
        say(f"{settings.topics_prefix}* take records again")
    elif copy.is_complete:
        say(_then(to_prefix))
    else:
        _copied(copy, settings, target, what, say)
    if as_json:
        echo(json.dumps({"records": copy.records, "complete": copy.is_complete, **copy.counts}))
    return 0


def _copied(copy: TopicsCopy, settings: TopicsSettings, target: TopicNames, what: str, say: Say) -> None:
    copy.make_topics()
    try:
        _until_done(copy, settings, target, what, say)
    except KeyboardInterrupt:
        if what == "switch":
            raise
    finally:
        copy.close()


def _until_done(copy: TopicsCopy, settings: TopicsSettings, target: TopicNames, what: str, say: Say) -> None:
    """Begins again after an error of Kafka's: with --follow for ever, else for --topics-timeout-s."""
    failing_s = None
    while True:
        try:
            copy.begin()
            _catch_up(copy, say)
            failing_s = None
            if what == "follow":
                _follow(copy, say)
            elif what == "switch":
                _switch(copy, settings, target, say)
            return
        except (KafkaException, TimeoutError) as error:
            said = error.args[0] if isinstance(error, KafkaException) else KafkaError(KafkaError._TIMED_OUT)
            now_s = time.monotonic()
            failing_s = failing_s or now_s
            too_long = what != "follow" and now_s - failing_s > settings.topics_timeout_s
            if too_long or not _passes(said):
                raise KafkaException(said) from error
            echo(f"begins again: {said.str()}", err=True)
        time.sleep(_AGAIN_S)


def _passes(error: KafkaError) -> bool:
    """Returns true if the error ends by itself. Only those of transactions say that of themselves."""
    return error.retriable() or error.txn_requires_abort() or error.code() in _PASSING


def _catch_up(copy: TopicsCopy, say: Say) -> None:
    begun_s, ends = time.monotonic(), copy.ends()
    while not copy.copy_on(_SAY_S, ends):
        now = copy.progress(ends)
        say(f"{number_of(now.records, 'record')} copied, {now.behind} offsets to go")
    spent_s = time.monotonic() - begun_s
    say(f"{number_of(copy.progress(ends).records, 'record')} copied, up to the end as of {spent_s:.1f} s ago")
    for name, words in _LEFT.items():
        if copy.counts[name]:
            say(words.format(number_of(copy.counts[name], "record")))


def _follow(copy: TopicsCopy, say: Say) -> None:
    while True:
        copy.copy_on(_SAY_S)
        now = copy.progress(copy.ends())
        say(f"{number_of(now.records, 'record')} copied, {now.behind} offsets behind")


def _switch(copy: TopicsCopy, settings: TopicsSettings, target: TopicNames, say: Say) -> None:
    while copy.progress(ends := copy.ends()).behind > _BEHIND_MAX:
        copy.copy_on(_SAY_S, ends)
    begun_s = time.monotonic()
    say(f"{datetime.now(UTC):%H:%M:%S} UTC: {settings.topics_prefix}* take no records any more")
    copy.shut()
    ends = copy.ends()
    while not copy.copy_on(_SAY_S, ends):
        if time.monotonic() - begun_s > settings.topics_timeout_s:
            echo("an open transaction holds up the end of a topic, if it goes on: see coldnotify doctor", err=True)
        say(f"{copy.progress(ends).behind} offsets to go")
    copy.copy_strays(settings.topics.group("matcher"))
    copy.complete()
    say(f"complete after {time.monotonic() - begun_s:.1f} s; {_then(target.prefix)}")


def _then(prefix: str) -> str:
    return f"restart all services, and whoever writes to Kafka, with --topics-prefix {prefix}"
