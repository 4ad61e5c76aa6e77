"""The gateway's row."""

from coldnotify_schemas.internal_protocol import GATEWAY_HTTP_PORT

from coldnotify_parts.gateway.panels import DASHBOARD, OVERVIEW
from coldnotify_parts.row import PartRow, beside

ROW = PartRow(
    name="gateway",
    title="gateway",
    summary="Run a gateway.",
    help="Run a gateway, which holds the devices' connections. Several gateways may share one port.",
    app="coldnotify_gateway.app",
    settings=("coldnotify_gateway.settings:GatewaySettings", "coldnotify_gateway.listeners.registry:OWN_SETTINGS"),
    port_setting="gateway_http_port",
    port=GATEWAY_HTTP_PORT,
    metrics=("coldnotify_gateway.metrics:before_anything",),
    node=True,
    tenants=True,
    topics=beside(__file__, "topics.yaml"),
    rights=beside(__file__, "rights.yaml"),
    alerts=beside(__file__, "alerts.yaml"),
    panels=OVERVIEW,
    dashboard=DASHBOARD,
    deployed_by_hand=True,
    doctor="gateway_http",
    containers=2,
    ready_list="gateways_http",
    several="gateways",
    flags=("--object-payload-bytes-max={payload_bytes_max}",),
    listeners=True,
    certificate=True,
    needed=True,
)
