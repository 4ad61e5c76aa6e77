"""The settings of the matcher."""

from dataclasses import dataclass

from coldnotify_common.security.inside import InsideSettings
from coldnotify_common.settings import invalid, setting
from coldnotify_common.settings.channel_settings import ChannelSettings
from coldnotify_common.settings.object_settings import ObjectSettings
from coldnotify_schemas.internal_protocol import MATCHER_PORT
from coldnotify_schemas.protocol import ANSWER_S, REGISTRATIONS_MAX

from coldnotify_matcher.engine import CONFLATION_MS_MAX, Bounds, Rules, parse_intervals, parse_retention
from coldnotify_matcher.engine.rules.channel_bounds import LOGS_AT_FIRST, MATCHER_BYTES_MAX, ChannelBounds

FORGOTTEN_AFTER_S_MIN = 60
"""A gateway that stands still for a moment (15 s: its sessions are offline) must not have its clients unregistered."""
DELETED_KEPT_LONGER_S = 3600
"""Deletions are kept longer than the clients that may lack them: these are checked in turn, a million in 17 minutes."""


@dataclass(frozen=True, kw_only=True)
class MatcherSettings(ObjectSettings, ChannelSettings, InsideSettings):
    """The matcher's settings."""

    matcher_id: str = setting(
        "matcher-1", "name of this matcher in its consumer group; each running matcher needs its own"
    )
    matcher_group: str = setting("", "consumer group of all matchers; empty: coldnotify-matcher, or PREFIXmatcher")
    matcher_host: str = setting("127.0.0.1", "address of the matcher's HTTP port")
    matcher_port: int = setting(MATCHER_PORT, "the matcher's HTTP port; 0: any free port", minimum=0, maximum=65535)
    matcher_session_timeout_ms: int = setting(
        6000,
        "time after which a dead matcher is noticed (ms); at least the broker's group.min.session.timeout.ms",
        minimum=1000,
        maximum=300_000,
    )
    matcher_standby: bool = setting(
        False,
        "also follow the partitions of other matchers, so that a takeover does not need to load them; takes their "
        "memory a second time",
    )
    epoch_counter: int = setting(
        0,
        "part of every cursor's epoch; raise it on all matchers after restoring the objects topic from a backup",
        minimum=0,
        maximum=2**31 - 1,
    )
    registrations_max: int = setting(
        REGISTRATIONS_MAX,
        "maximum number of objects that a client may be registered for; more are refused with a reason",
        minimum=1,
        maximum=REGISTRATIONS_MAX,
    )
    matcher_half_sets_bytes_max: int = setting(
        # The longest set that one client can send takes 11 MiB.
        32 * 1024 * 1024,
        "maximum memory (bytes), per partition, for the names of incomplete registration sets (last chunk "
        f"missing); above it a set without a new chunk for {ANSWER_S} s is dropped, else the one of the largest that "
        "has waited longest, and its client sends its set again",
        minimum=16 * 1024 * 1024,
    )
    matcher_client_forgotten_after_s: int = setting(
        180 * 86_400,
        "time (s) after which a client that was not seen is forgotten; it registers again if it comes back; 0: "
        "never, else at least 60",
        minimum=0,
        maximum=100 * 365 * 86_400,
    )
    matcher_retention: str = setting(
        "*=never",
        "time for which objects are kept after they were last published or described, by domain: "
        "domain=30d,other.domain=12h,*=never; *: all other domains; units s, m, h, d; at least 10s. Deleted objects "
        "are kept for an hour longer than --matcher-client-forgotten-after-s at most",
    )
    matcher_conflation: str = setting(
        "*=0",
        "time (ms) after a publish of an object for which its next publishes are held and merged, by domain: "
        "domain=200,other.domain=auto,*=0; *: all other domains; 0: never; at most 60000; auto: as long as "
        "gateways need to keep up",
    )
    matcher_conflation_auto_min_ms: int = setting(
        0,
        "shortest interval (ms) of a domain with auto, used while all gateways keep up",
        minimum=0,
        maximum=CONFLATION_MS_MAX,
    )
    matcher_conflation_auto_max_ms: int = setting(
        1000,
        "longest interval (ms) of a domain with auto, however far gateways lag",
        minimum=1,
        maximum=CONFLATION_MS_MAX,
    )
    matcher_channels_bytes_max: int = setting(
        MATCHER_BYTES_MAX,
        "maximum memory (bytes) for messages of channels, of all its partitions together: latest ones, older ones "
        "that were read again, summaries, pages being filled. Each log has an even part of a quarter, and of the rest "
        "as much as it uses of all",
        minimum=3 * 1024 * 1024,
    )

    def __post_init__(self) -> None:
        """Raises SettingError."""
        if 0 < self.matcher_client_forgotten_after_s < FORGOTTEN_AFTER_S_MIN:
            given = self.matcher_client_forgotten_after_s
            words = f"{given} is less than {FORGOTTEN_AFTER_S_MIN}, the least allowed but for 0 (never)"
            raise invalid("matcher_client_forgotten_after_s", words)
        if self.matcher_conflation_auto_min_ms > self.matcher_conflation_auto_max_ms:
            words = f"{self.matcher_conflation_auto_min_ms} is above --matcher-conflation-auto-max-ms"
            raise invalid("matcher_conflation_auto_min_ms", f"{words} {self.matcher_conflation_auto_max_ms}")
        self.rules()

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.matcher_group or self.topics.group("matcher")

    def rules(self) -> Rules:
        """Returns the settings that concern the engine. Raises SettingError."""
        bounds = Bounds(self.matcher_conflation_auto_min_ms, self.matcher_conflation_auto_max_ms)
        try:
            conflation = parse_intervals(self.matcher_conflation, bounds)
        except ValueError as error:
            raise invalid("matcher_conflation", str(error)) from None
        forgotten_after_s = self.matcher_client_forgotten_after_s
        deleted_kept_s = forgotten_after_s + DELETED_KEPT_LONGER_S if forgotten_after_s else 0
        try:
            retention = parse_retention(self.matcher_retention, deleted_ms=deleted_kept_s * 1000)
        except ValueError as error:
            raise invalid("matcher_retention", str(error)) from None
        return Rules(
            topics=self.topics,
            forgotten_after_ms=self.matcher_client_forgotten_after_s * 1000,
            conflation=conflation,
            retention=retention,
            payload_bytes_max=self.object_payload_bytes_max,
            half_sets_bytes_max=self.matcher_half_sets_bytes_max,
            retentions=self.retentions(),
            channel_bounds=ChannelBounds.of(self.matcher_channels_bytes_max // LOGS_AT_FIRST),
        )
