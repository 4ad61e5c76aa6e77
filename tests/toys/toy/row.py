"""The row of the toy part."""

from coldnotify_parts.panels import PartPanel
from coldnotify_parts.row import PartRow

ROW = PartRow(
    name="toy",
    title="toy source",
    summary="Publish an object now and then.",
    help="Publish the object toy/toy/toy every --toy-every-s.",
    app="coldnotify_parts.toy.app",
    settings=("coldnotify_parts.toy.settings:ToySettings",),
    port_setting="toy_port",
    port=51_990,
    metrics=("coldnotify_parts.toy.metrics",),
    ready_key="toy",
    topics="coldnotify.toy: {partitions: 1, settings: {cleanup.policy: delete}}",
    rights="{topics: {coldnotify.objects: [write], coldnotify.toy: [read, write]}, groups: {coldnotify-toy*: [read]}}",
    alerts="""
        - alert: ToyIsSilent
          expr: rate(coldnotify_toy_published_total[5m]) == 0
          for: 5m
          labels: {severity: ticket}
          annotations:
            summary: "The toy publishes nothing"
            runbook_url: "{{ $externalLabels.coldnotify_docs }}/runbooks/ToyIsSilent.html"
    """,
    panels=(PartPanel("Toys", "ops", {"": "sum(rate(coldnotify_toy_published_total[$__rate_interval]))"}),),
)
