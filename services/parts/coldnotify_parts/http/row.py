"""The HTTP service's row."""

from coldnotify_schemas.protocol import HTTP_PORT

from coldnotify_parts.http.panels import OVERVIEW
from coldnotify_parts.row import PartRow, beside

ROW = PartRow(
    name="http",
    title="HTTP service",
    summary="Run the HTTP service, to which publishers POST.",
    help="Run the HTTP service, to which publishers POST.",
    app="coldnotify_http.app",
    settings=("coldnotify_http.settings:HttpSettings",),
    port_setting="http_port",
    port=HTTP_PORT,
    metrics=("coldnotify_http.metrics:before_anything",),
    node=True,
    tenants=True,
    rights=beside(__file__, "rights.yaml"),
    alerts=beside(__file__, "alerts.yaml"),
    panels=OVERVIEW,
    deployed_by_hand=True,
    doctor="http",
    ready_key="http",
    flags=(
        # It finds them by the nodes topic, whatever the environment names.
        "--matcher=",
        "--gateway-http=",
        "--http-gateways=",
        "--http-gateways-ca={ca}",
        "--directory-addresses={tcp},{web}",
        "--http-kafka-data={data}",
        "--hooks-key-file={hooks_key_file}",
        "--object-payload-bytes-max={payload_bytes_max}",
    ),
    certificate=True,
    needed=True,
)
