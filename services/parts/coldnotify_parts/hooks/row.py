"""The row of the part that calls webhooks."""

from coldnotify_schemas.internal_protocol import HOOKS_PORT

from coldnotify_parts.hooks.panels import OVERVIEW
from coldnotify_parts.row import PartRow, beside

ROW = PartRow(
    name="hooks",
    title="caller of webhooks",
    summary="Run the caller of webhooks.",
    help="Run a caller of webhooks: each is a client whose callbacks are POST requests. Several callers share them. "
    "Without --hooks-key-file it calls nobody.",
    app="coldnotify_hooks.app",
    settings=("coldnotify_hooks.settings:CallerSettings",),
    port_setting="hooks_port",
    port=HOOKS_PORT,
    metrics=("coldnotify_hooks.metrics",),
    topics=beside(__file__, "topics.yaml"),
    rights=beside(__file__, "rights.yaml"),
    alerts=beside(__file__, "alerts.yaml"),
    panels=OVERVIEW,
    ready_key="hooks",
    flags=("--hooks-key-file={hooks_key_file}", "--hooks-gateway={tcp}", "--hooks-gateway-ca={ca}"),
    stage=3,
    switch="hooks_key_file",
)
