"""The retention of each domain's channels, the same for all services, because writers and readers must agree."""

from dataclasses import dataclass

from coldnotify_schemas.channels import Retentions, parse_retentions
from coldnotify_schemas.protocol import MESSAGE_BYTES_MAX

from coldnotify_common.settings import Settings, describe, setting


@dataclass(frozen=True, kw_only=True)
class ChannelSettings(Settings):
    """The settings for writing and reading channels."""

    channel_retentions: str = setting(
        "*=1d",
        "how long the messages of channels are kept, by domain: domain=30d,other.domain=1h,*=1d; 1h, 1d or 30d; "
        "*: all other domains. The same for all matchers, gateways and HTTP services: it is the topic that a domain's "
        "channels are in. A domain that is given another one begins anew there, and its clients miss what they had "
        "not been told",
    )
    channel_message_bytes_max: int = setting(
        MESSAGE_BYTES_MAX,
        "maximum size (bytes) of a channel's message; larger ones are refused, and those in Kafka are rejected",
        minimum=1024,
        maximum=MESSAGE_BYTES_MAX,
    )

    def retentions(self) -> Retentions:
        """Returns the retention by domain. Raises SettingError."""
        try:
            return parse_retentions(self.channel_retentions)
        except ValueError as error:
            info = next(info for info in describe(type(self)) if info.name == "channel_retentions")
            raise info.error(str(error)) from None
