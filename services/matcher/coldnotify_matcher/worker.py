"""The matcher's worker: the shell of a stream job, with the matcher's job, metrics and spans."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import cast

import structlog
from coldnotify_common.stop import StopFlag
from coldnotify_common.tenancy.tenancy import PartitionStock, Tenancy, Used
from coldnotify_common.tracing import Attributes, Span, Tracer
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.internal_protocol import FORMAT
from coldnotify_streams.core.actions import LookedAtPartitions
from coldnotify_streams.core.events import JobRecord
from coldnotify_streams.core.job import JobPartition
from coldnotify_streams.job_clock import JobClock
from coldnotify_streams.lag import Gauges
from coldnotify_streams.worker import GroupMember
from coldnotify_streams.worker import JobWorker as StreamWorker

from coldnotify_matcher import metrics
from coldnotify_matcher.engine import ProducedRecord
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds, divided
from coldnotify_matcher.engine.tenants.allowances import Allowances, OutAgreement
from coldnotify_matcher.engine.tenants.ceilings import Ceilings, HeldAgreement
from coldnotify_matcher.engine.tenants.high_shares import HighAgreement, HighShares
from coldnotify_matcher.matcher_job import MatcherJob
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_matcher.record_headers import HeadersReader
from coldnotify_matcher.run_topics import Cluster, check_topics, cluster_of, topics_of
from coldnotify_matcher.settings import MatcherSettings

log = structlog.get_logger()

_NOBODY = 1
"""The id of no gateway: these are 64 random bits."""

_GAUGES = Gauges(
    metrics.LAG_REQUESTS,
    metrics.LAG_OBJECTS,
    metrics.LAG_STANDBY,
    metrics.PARTITIONS_STANDBY,
    metrics.LAG_CHANNELS,
)


class MatcherWorker(StreamWorker):
    """Serves the partitions that the group assigns to this matcher."""

    def __init__(
        self,
        settings: MatcherSettings,
        stop: StopFlag,
        tracer: Tracer | None = None,
        tenancy: Tenancy | None = None,
        clock: JobClock | None = None,
    ) -> None:
        member = GroupMember(
            settings=settings,
            group=settings.group,
            id=settings.matcher_id,
            session_timeout_ms=settings.matcher_session_timeout_ms,
            standby=settings.matcher_standby,
        )
        headers_of = HeadersReader(settings.topics)
        super().__init__(member, topics_of(settings.topics), stop, _GAUGES, read_headers=headers_of, clock=clock)
        metrics.show_topics(settings.topics)
        self._settings = settings
        self._tracer = tracer
        self._tenancy = tenancy
        self._allowances = Allowances(None if tenancy is None else tenancy.tenant_of)
        self._ceilings = Ceilings(None if tenancy is None else tenancy.tenant_of)
        self._high_shares = HighShares(None if tenancy is None else tenancy.tenant_of)
        self._rules = replace(
            settings.rules(),
            allowances=self._allowances,
            ceilings=self._ceilings,
            high_shares=self._high_shares,
            clocks=self.clock.trust,
        )
        self._spans: list[Span] = []
        """Spans of the publishes in this step."""
        self._cluster: Cluster | None = None

    @property
    def partitions(self) -> Mapping[int, MatcherPartition]:
        """The partitions of this matcher."""
        return cast(Mapping[int, MatcherPartition], self.owned)

    @property
    def followed(self) -> Mapping[int, MatcherPartition]:
        """The partitions of others that the warm standby follows."""
        return cast(Mapping[int, MatcherPartition], self.others)

    def begin(self) -> MatcherJob:
        """Look at the topics, and make the run's job. Raises RunFailure, ServiceError."""
        self._cluster = cluster_of(
            self.admin, self._settings.topics, self._settings.epoch_counter, self._rules.retentions
        )
        metrics.PARTITIONS.set(self._cluster.partitions)
        if self._cluster.channels_missing:
            log.warning(
                "there are no channels: clients' registrations of them stay pending",
                reason=self._cluster.channels_missing,
            )
        return MatcherJob(
            self._cluster,
            f"{self._settings.matcher_id}:{secrets.token_hex(4)}",
            rules=self._rules,
            registrations_max=self._settings.registrations_max,
            traced=None if self._tracer is None else self._traced,
        )

    def check_topics(self) -> None:
        """Raises RunFailure if the topics are not those that the run began with, ServiceError if they are not known."""
        assert self._cluster is not None
        check_topics(self.admin, self._settings.epoch_counter, self._cluster, self._rules.retentions)

    def clock_probe(self) -> ProducedRecord:
        """Returns an inbox record for a gateway that does not exist: all gateways skip it, like those of others."""
        inbox = internal_pb2.Inbox(format=FORMAT, gateway=_NOBODY)
        return ProducedRecord(self._settings.topics.notifications, 0, None, inbox.SerializeToString())

    def on_durable(self, partitions: Sequence[JobPartition]) -> None:
        """Count the partitions' events, and end spans."""
        for partition in partitions:
            for name, by in partition.take_counts().items():
                metrics.count(name, by)
            if self._tenancy is not None:
                used = cast(MatcherPartition, partition).take_use()
                self._tenancy.used((domain, Used(*use.counts, use.high)) for domain, use in used.items())
                self._tenancy.turned_away(cast(MatcherPartition, partition).engine.state.take_refusals().items())
        if self._spans:
            spans, self._spans = self._spans, []
            for span in spans:
                span.end()

    def on_took_over(self, partition: JobPartition, seconds: float) -> None:
        """Note that a partition is served, so long after it was assigned."""
        metrics.TAKEOVER_SECONDS.labels("followed" if partition.warm else "loaded").observe(seconds)

    def on_loads_anew(self) -> None:
        """Note that a partition that had failed is loaded again."""
        metrics.count("partition_reloads", 1)

    def on_looked(self, looked: LookedAtPartitions) -> None:
        """Show the served and the waiting partitions."""
        metrics.PARTITIONS_OWNED.set(len(looked.owned))
        metrics.PARTITIONS_WAITING.set(looked.waiting)
        if looked.tick:
            owned = cast(Sequence[MatcherPartition], looked.owned)
            self._divide_memory()
            self._show_intervals(owned)
            metrics.CLOCKS_APART.set(len(self.clock.trust.apart))
            held = [partition.engine.removals_held for partition in owned]
            for what, number in zip(metrics.REMOVED, map(sum, zip(*held, strict=True)), strict=False):
                metrics.REMOVALS_HELD.labels(what).set(number)
            metrics.PARKED.set(sum(partition.engine.state.parked for partition in owned))
            metrics.BLOCKS_WANTED.set(sum(partition.engine.channels.awaited_blocks for partition in owned))
            self._show_shares(owned)
            if self._tenancy is not None:
                self._tenancy.holds(
                    PartitionStock(one.number, str(one.engine.state.generation), one.engine.inventory.look())
                    for one in owned
                )
                self._ceilings.agree(HeldAgreement(*limit) for limit in self._tenancy.held_limits())
                self._high_shares.agree(HighAgreement(*share) for share in self._tenancy.high_shares())
                limits = (OutAgreement(*limit) for limit in self._tenancy.out_limits())
                self._allowances.agree(limits, self.clock.trust.now_ms)

    def _show_shares(self, owned: Sequence[MatcherPartition]) -> None:
        rules = [share.rule for partition in owned for share in partition.engine.state.shares]
        metrics.SHARE_MESSAGES.labels("held").set(sum(rule.held for rule in rules))
        metrics.SHARE_MESSAGES.labels("waiting").set(sum(rule.waiting for rule in rules))
        now_ms = self.clock.trust.now_ms
        oldest_ms = min((ms for rule in rules if (ms := rule.oldest_ms) is not None), default=now_ms)
        metrics.SHARE_OLDEST_SECONDS.set(max(0, now_ms - oldest_ms) / 1000)

    def _divide_memory(self) -> None:
        """Divide the memory for channels among the logs of all partitions, served or followed."""
        partitions = chain(self.partitions.values(), self.followed.values())
        logs = [log for one in partitions for log in one.engine.state.channel_logs.values()]
        parts = divided(self._settings.matcher_channels_bytes_max, [log.memory_bytes for log in logs])
        for log, part in zip(logs, parts, strict=True):
            log.bound(ChannelBounds.of(part))

    def on_stepped(self, seconds: float) -> None:
        """Note the duration of a step that had something to do."""
        metrics.STEP_SECONDS.observe(seconds)

    def _show_intervals(self, owned: Sequence[MatcherPartition]) -> None:
        for domain in self._rules.conflation.entries:  # named in the setting, so they stay few
            longest_ms = max((p.engine.conflation.interval_ms(domain) for p in owned), default=0)
            metrics.CONFLATION_INTERVAL_SECONDS.labels(domain).set(longest_ms / 1000)

    def _traced(self, record: JobRecord, traceparent: str) -> str:
        """Begin a span of the record; its deliveries belong to that span."""
        assert self._tracer is not None
        about: Attributes = {
            "coldnotify.object": (record.key or b"").decode(errors="replace"),
            "coldnotify.partition": record.partition,
            "coldnotify.offset": record.offset,
        }
        span = self._tracer.begin("match", traceparent, about)
        self._spans.append(span)
        return span.traceparent
