"""What the matcher can be told."""

from dataclasses import dataclass

from coldnotify_common.settings import ServiceSettings, setting


@dataclass(frozen=True, kw_only=True)
class MatcherSettings(ServiceSettings):
    """The matcher's settings."""

    matcher_id: str = setting(
        "matcher-1", "this matcher's name in its consumer group; each running matcher needs one of its own"
    )
    matcher_group: str = setting("coldnotify-matcher", "the consumer group of all matchers")
    matcher_host: str = setting("127.0.0.1", "address of the matcher's HTTP port")
    matcher_port: int = setting(51001, "the matcher's HTTP port; 0: any free one", minimum=0, maximum=65535)
    matcher_session_timeout_ms: int = setting(
        6000,
        "how long a dead matcher goes unnoticed (ms); not below the broker's group.min.session.timeout.ms",
        minimum=1000,
        maximum=300_000,
    )
    epoch_counter: int = setting(
        0,
        "part of every cursor's epoch: raise it after the objects topic was restored from a backup, on all matchers",
        minimum=0,
        maximum=2**31 - 1,
    )
    registrations_max: int = setting(
        10_000, "objects a client may be registered for; more are refused with a reason", minimum=1, maximum=10_000
    )
