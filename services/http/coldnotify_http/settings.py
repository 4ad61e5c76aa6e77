"""The settings of the HTTP publishing service."""

from dataclasses import dataclass

from coldnotify_common.settings import ServiceSettings, setting


@dataclass(frozen=True, kw_only=True)
class HttpSettings(ServiceSettings):
    """What the HTTP service can be told."""

    http_host: str = setting("127.0.0.1", "the address that publishers connect to")
    http_port: int = setting(55002, "the TCP port of it; 0: any free one", minimum=0, maximum=65535)
    http_body_bytes_max: int = setting(
        # 1000 records with the largest payload and a long name each.
        8 * 1024 * 1024,
        "the largest body of a request, in bytes",
        minimum=1,
    )
    http_body_timeout_s: float = setting(30, "how long a publisher may take to send a body, in seconds", minimum=0.1)
    http_publish_timeout_s: float = setting(10, "how long Kafka may take to acknowledge, in seconds", minimum=0.1)
    http_publishes_max: int = setting(
        # More than a broker acknowledges in a second here: what comes on top would only wait longer.
        10_000,
        "how many objects may be on their way to Kafka at once; beyond it the answer is 503",
        minimum=1000,
    )
