"""The experiments, by the names that `make bench` takes."""

from coldnotify_loadtest.bench import Experiment
from coldnotify_loadtest.experiments.backlog import SLOW_LINK, STUCK
from coldnotify_loadtest.experiments.channel_catch_up import CATCH_UP
from coldnotify_loadtest.experiments.channels import CHANNELS
from coldnotify_loadtest.experiments.copying import COPY
from coldnotify_loadtest.experiments.flood import FLOOD
from coldnotify_loadtest.experiments.growth import E2
from coldnotify_loadtest.experiments.home import HOME
from coldnotify_loadtest.experiments.horizontal import HORIZONTAL
from coldnotify_loadtest.experiments.isolation import ISOLATION
from coldnotify_loadtest.experiments.kills import KILLS
from coldnotify_loadtest.experiments.mqtt_publishing import MQTT_PUBLISHING
from coldnotify_loadtest.experiments.partitions import PARTITIONS
from coldnotify_loadtest.experiments.peers import PEERS
from coldnotify_loadtest.experiments.pipeline import CONFLATION, MATCHER
from coldnotify_loadtest.experiments.priority import PRIORITY
from coldnotify_loadtest.experiments.queries import QUERIES
from coldnotify_loadtest.experiments.queues import QUEUES
from coldnotify_loadtest.experiments.rates import E1
from coldnotify_loadtest.experiments.recovery import E3, E4
from coldnotify_loadtest.experiments.scale import SCALE
from coldnotify_loadtest.experiments.sources import SOURCES
from coldnotify_loadtest.experiments.split_merge import SPLIT_MERGE
from coldnotify_loadtest.experiments.strangers import STRANGERS
from coldnotify_loadtest.experiments.takeover import TAKEOVER
from coldnotify_loadtest.experiments.usage import USAGE
from coldnotify_loadtest.experiments.wakes import CROWD, WAKES, WAKES_MATRIX
from coldnotify_loadtest.experiments.wire import WIRE

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        *(E1, E2, E3, E4, TAKEOVER, KILLS, WIRE, SLOW_LINK, STUCK, CONFLATION, MATCHER, SCALE, PEERS),
        *(WAKES, WAKES_MATRIX, CROWD, QUERIES, FLOOD, ISOLATION, USAGE, CHANNELS, CATCH_UP, PRIORITY),
        *(STRANGERS, HORIZONTAL, HOME, PARTITIONS, SPLIT_MERGE, COPY, MQTT_PUBLISHING, SOURCES, QUEUES),
    )
}
