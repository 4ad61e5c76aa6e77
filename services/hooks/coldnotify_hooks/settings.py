"""The settings of the part that calls webhooks."""

from dataclasses import dataclass

from coldnotify_common.hooks.hook_settings import HookSettings
from coldnotify_common.security.inside import InsideSettings
from coldnotify_common.settings import setting
from coldnotify_common.settings.channel_settings import ChannelSettings
from coldnotify_schemas.internal_protocol import HOOKS_PORT
from coldnotify_schemas.protocol import DEVICE_PORT


@dataclass(frozen=True, kw_only=True)
class CallerSettings(InsideSettings, HookSettings, ChannelSettings):
    """The settings of `coldnotify hooks`."""

    hooks_host: str = setting("127.0.0.1", "address of the HTTP port of the caller of webhooks")
    hooks_port: int = setting(
        HOOKS_PORT, "HTTP port of the caller of webhooks; 0: any free port", minimum=0, maximum=65535
    )
    hooks_gateway: str = setting(
        f"127.0.0.1:{DEVICE_PORT}", "gateways that webhooks' clients connect to, host:port[,host:port]"
    )
    hooks_gateway_ca: str = setting("", "PEM file of the authorities that sign gateways' certificates; empty: no TLS")
    hooks_gateway_certificate: str = setting(
        "", "PEM file of a certificate, with its key, that may be any client hook.* of any group; empty: none"
    )
    hooks_gateway_token_file: str = setting(
        "", "file with a token that may be any client hook.* of any group, read at each connection; empty: none"
    )
