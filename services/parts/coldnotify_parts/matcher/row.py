"""The matcher's row."""

from coldnotify_schemas.internal_protocol import MATCHER_PORT

from coldnotify_parts.matcher.panels import DASHBOARD, OVERVIEW
from coldnotify_parts.row import PartRow, beside

ROW = PartRow(
    name="matcher",
    title="matcher",
    summary="Run the matcher.",
    help="Run a matcher, which matches publishes with registrations. Several matchers share the partitions.",
    app="coldnotify_matcher.app",
    settings=("coldnotify_matcher.settings:MatcherSettings",),
    port_setting="matcher_port",
    port=MATCHER_PORT,
    metrics=("coldnotify_matcher.metrics",),
    node=True,
    tenants=True,
    topics=beside(__file__, "topics.yaml"),
    rights=beside(__file__, "rights.yaml"),
    alerts=beside(__file__, "alerts.yaml"),
    panels=OVERVIEW,
    dashboard=DASHBOARD,
    deployed_by_hand=True,
    doctor="matcher",
    containers=2,
    ready_key="matcher",
    ready_list="matchers",
    several="matchers",
    flags=("--matcher-id=matcher-{number}", "--object-payload-bytes-max={payload_bytes_max}"),
    stage=1,
    # Gateways and HTTP wait for a matcher by themselves, as when it dies. The stage matters for the stop: they stop
    # first.
    awaited=False,
    needed=True,
)
