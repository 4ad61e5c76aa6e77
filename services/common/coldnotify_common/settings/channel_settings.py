"""The retention of each domain's channels, the same for all services, because writers and readers must agree."""

from dataclasses import dataclass

from coldnotify_schemas.channels import Retentions, parse_retentions

from coldnotify_common.settings import Settings, invalid, setting


@dataclass(frozen=True, kw_only=True)
class ChannelSettings(Settings):
    """The settings for writing and reading channels."""

    channel_retentions: str = setting(
        "*=1d",
        "time for which messages of channels are kept, by domain: domain=30d,other.domain=1h,*=1d; 1h, 1d or 30d; *: "
        "all other domains. The same for all matchers, gateways and HTTP services: it is the topic that a domain's "
        "channels are in. A domain that gets another one starts there without messages; its clients miss those they "
        "had not been told",
    )

    def retentions(self) -> Retentions:
        """Returns the retention by domain. Raises SettingError."""
        try:
            return parse_retentions(self.channel_retentions)
        except ValueError as error:
            raise invalid("channel_retentions", str(error)) from None
