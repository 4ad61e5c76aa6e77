"""The settings of the toy part."""

from dataclasses import dataclass

from coldnotify_common.security.inside import InsideSettings
from coldnotify_common.settings import setting


@dataclass(frozen=True, kw_only=True)
class ToySettings(InsideSettings):
    """The settings of `coldnotify toy`."""

    toy_host: str = setting("127.0.0.1", "address of the toy's HTTP port")
    toy_port: int = setting(51_990, "the toy's HTTP port; 0: any free port", minimum=0, maximum=65535)
    toy_every_s: float = setting(0.5, "seconds between two publishes", minimum=0.01)
