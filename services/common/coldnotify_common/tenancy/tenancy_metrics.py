"""Metrics of a service's tenancy. The number of labels is bounded, however many tenants there are."""

import time
from collections.abc import Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from coldnotify_common.tenancy.tenancy import Tenancy

FULLEST_MAX = 20
"""Number of pairs of tenant and limit whose use is shown: those with the highest use."""
FULL_AT_LEAST = 0.5
"""Minimum fraction shown: a lower use needs no attention, and gets no label."""


class TenancyCollector(Collector):
    """Reads a service's tenancy at each scrape. Without one (None), it only describes the metrics, for the
    documentation."""

    def __init__(self, tenancy: Tenancy | None) -> None:
        self._tenancy = tenancy

    def describe(self) -> Iterable[Metric]:
        """Yields all metrics without values."""
        return TenancyCollector(None).collect()

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics with their current values."""
        tenants = GaugeMetricFamily(
            "coldnotify_tenants",
            "Tenants by state: known to this service; damaged: the record cannot be read, so each is as it was before, "
            "or unknown; conflict: domains that more than one tenant names, each belongs to the first.",
            labels=["state"],
        )
        age = GaugeMetricFamily(
            "coldnotify_tenants_verdict_age_seconds",
            "Age of the usage job's newest verdict about any tenant; +Inf: none was read.",
        )
        admitted = CounterMetricFamily("coldnotify_tenants_admitted", "Publishes that this service let in.")
        refused = CounterMetricFamily(
            "coldnotify_tenants_refused",
            "Publishes, sessions (clients_max) and registrations (registrations_max) refused because the tenant was "
            "above its agreement, by the limit that was exceeded; "
            "50 tenants have a label of their own.",
            labels=["tenant", "limit"],
        )
        thinned = CounterMetricFamily(
            "coldnotify_tenants_thinned",
            "Deliveries left out because the tenant was above its agreement: a newer version came while the object "
            "waited; 50 tenants have a label of their own.",
            labels=["tenant"],
        )
        used = GaugeMetricFamily(
            "coldnotify_tenants_used_ratio",
            "Part of a limit that a tenant used in the last minute, over all services, by the usage job's verdict; "
            "the 20 highest from 0.5 on.",
            labels=["tenant", "limit"],
        )
        tenancy = self._tenancy
        if tenancy is not None:
            with tenancy.lock:
                now_s = time.monotonic()
                tenants.add_metric(["known"], len(tenancy.table))
                tenants.add_metric(["damaged"], len(tenancy.damaged))
                tenants.add_metric(["conflict"], len(tenancy.table.conflicts()))
                age.add_metric([], tenancy.gate.verdict_age_s(now_s))
                admitted.add_metric([], tenancy.admitted)
                for (tenant, limit), count in sorted(tenancy.refused.items()):
                    refused.add_metric([tenant, limit], count)
                for tenant, count in sorted(tenancy.thinned.items()):
                    thinned.add_metric([tenant], count)
                for tenant, limit, ratio in tenancy.gate.fullest(now_s, FULL_AT_LEAST, FULLEST_MAX):
                    used.add_metric([tenant, limit], ratio)
        yield from (tenants, age, admitted, refused, thinned, used)
