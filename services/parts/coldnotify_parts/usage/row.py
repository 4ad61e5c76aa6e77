"""The usage job's row."""

from coldnotify_schemas.internal_protocol import USAGE_PORT

from coldnotify_parts.row import PartRow, beside
from coldnotify_parts.usage.panels import OVERVIEW

ROW = PartRow(
    name="usage",
    title="usage job",
    summary="Run the usage job, which measures what tenants use.",
    help="Run a worker of the usage job, which measures what tenants use. Several workers share the partitions. Needs "
    "coldnotify-server[usage].",
    app="coldnotify_usage.app",
    settings=("coldnotify_usage.settings:UsageSettings",),
    port_setting="usage_port",
    port=USAGE_PORT,
    metrics=("coldnotify_usage.metrics",),
    node=True,
    topics=beside(__file__, "topics.yaml"),
    rights=beside(__file__, "rights.yaml"),
    panels=OVERVIEW,
    deployed_by_hand=True,
    doctor="usage",
    ready_key="usage",
    stage=3,
    needs="faust",
    extra="coldnotify-server[usage]",
)
