"""The settings of the listener for WebSocket and HTTP."""

from dataclasses import dataclass

from coldnotify_common.settings import Settings, setting
from coldnotify_schemas.protocol import WEB_PORT


@dataclass(frozen=True, kw_only=True)
class WebSettings(Settings):
    """Settings of the port that devices connect to by WebSocket and HTTP, and limits of their requests."""

    gateway_web_port: int = setting(
        WEB_PORT,
        "port that devices connect to with WebSocket and HTTP; several gateways may share it; 0: any free port",
        minimum=0,
        maximum=65535,
    )
    gateway_web_origins: str = setting(
        "",
        "origins whose web pages may connect with WebSocket and HTTP, separated by spaces, as "
        "https://host[:port]; pages whose origin is the address they connect to always may; *: all",
    )
    gateway_sync_bytes_max: int = setting(
        # 10,000 names of 255 bytes fit.
        4 * 1024 * 1024,
        "maximum size of the body of a POST to /v1/sync (bytes)",
        minimum=1024,
    )
    gateway_sync_s: float = setting(
        30,
        "seconds that a POST to /v1/sync may wait for its body, for the matcher, or for the client to read",
        minimum=1,
    )
