"""The settings of `coldnotify auto`."""

from dataclasses import dataclass

from coldnotify_common.security.inside import InsideSettings
from coldnotify_common.settings import setting
from coldnotify_common.settings.channel_settings import ChannelSettings
from coldnotify_common.settings.object_settings import ObjectSettings

AUTO_PORT = 55_004


@dataclass(frozen=True, kw_only=True)
class AutoSettings(ObjectSettings, ChannelSettings, InsideSettings):
    """The settings of `coldnotify auto`. Its rules are in its file."""

    auto_host: str = setting("127.0.0.1", "address of the HTTP port of `coldnotify auto`")
    auto_port: int = setting(
        AUTO_PORT, "the HTTP port of `coldnotify auto`; 0: any free port", minimum=0, maximum=65535
    )
