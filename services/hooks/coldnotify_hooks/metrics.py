"""Every metric of the part that calls webhooks."""

from prometheus_client import Counter, Gauge

CALLS = Counter(
    "coldnotify_hooks_calls_total",
    "Calls of webhooks: applied, failed (another status), away (no answer, or 429, 503), gone (410)",
    ("outcome",),
)
for _outcome in ("applied", "failed", "away", "gone"):
    CALLS.labels(_outcome)  # so that a rate is known before the first
GIVEN_UP = Counter(
    "coldnotify_hooks_given_up_total",
    "Versions passed over, and messages sent to hook.NAME.dead, because no call was applied in a day",
)
SERVED = Gauge("coldnotify_hooks_served", "Webhooks that this process calls, suspended ones included")
SUSPENDED = Gauge(
    "coldnotify_hooks_suspended", "Webhooks of this process whose receivers have said twice that they are gone"
)
FAILING = Gauge("coldnotify_hooks_failing", "Objects and channels of webhooks that wait for another try")
