"""A tenancy's metrics: what they say, and that they have a bound."""

import json
import time

from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.tenancy import Tenancy
from coldnotify_common.tenancy.tenancy_metrics import FULLEST_MAX, TenancyCollector
from prometheus_client import CollectorRegistry


def test_what_the_metrics_say() -> None:
    tenancy, registry = Tenancy(ServiceSettings(kafka="127.0.0.1:1"), "http"), CollectorRegistry()
    registry.register(TenancyCollector(tenancy))
    assert registry.get_sample_value("coldnotify_tenants_verdict_age_seconds") == float("inf")
    for n in range(FULLEST_MAX + 5):
        agreed = {"domains": [f"d{n}"], "in_per_s": 1, "burst_s": 1}
        tenancy.on_tenant(b"t%d" % n, json.dumps(agreed).encode())
        verdict = {"at_ms": int(time.time() * 1000), "until_ms": 1, "per_min": {"publishes": 60 - n}}
        tenancy.on_verdict(b"t%d" % n, json.dumps(verdict).encode())
    tenancy.on_tenant(b"broken", b"{")
    tenancy.on_tenant(b"zz", b'{"domains": ["d1", "d2"]}')
    for _ in range(3):
        tenancy.admit("d0", 1, 1)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"coldnotify_tenants{name}", labels)

    states = ("known", "damaged", "conflict")
    assert [value("", state=state) for state in states] == [FULLEST_MAX + 6, 1, 2]
    assert (value("_admitted_total"), value("_refused_total", tenant="t0", limit="in_per_s")) == (1, 2)
    assert (value("_verdict_age_seconds") or 99) < 20
    assert value("_used_ratio", tenant="t0", limit="in_per_s") == 1
    shown = [s for m in registry.collect() if m.name == "coldnotify_tenants_used_ratio" for s in m.samples]
    assert len(shown) == FULLEST_MAX
