"""The settings of the usage job."""

from dataclasses import dataclass

from coldnotify_common.security.inside import InsideSettings
from coldnotify_common.settings import setting
from coldnotify_schemas.internal_protocol import USAGE_PORT


@dataclass(frozen=True, kw_only=True)
class UsageSettings(InsideSettings):
    """The usage job's settings. --kafka-config applies to it, too: TLS and SASL, as docs/usage.md says."""

    usage_host: str = setting("127.0.0.1", "address of the usage job's HTTP port")
    usage_port: int = setting(USAGE_PORT, "the usage job's HTTP port; 0: any free port", minimum=0, maximum=65535)
    usage_session_timeout_s: float = setting(
        # Faust's own default leaves a dead worker's partitions alone for a minute.
        6,
        "seconds after which a dead worker is noticed; at least the broker's group.min.session.timeout.ms",
        minimum=1,
        maximum=300,
    )
    usage_history_s: float = setting(
        10, "seconds between two records of the hour's and the day's counts", minimum=0.5, maximum=600
    )

    @property
    def group(self) -> str:
        """The consumer group, which is also the Faust app's id."""
        return self.topics.group("usage")
