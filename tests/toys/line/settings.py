"""The settings of the toy listener."""

from dataclasses import dataclass

from coldnotify_common.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class LineSettings(Settings):
    """Where people connect with netcat."""

    gateway_line_port: int = setting(55_010, "port for a line of text; 0: any free port", minimum=0, maximum=65535)
    gateway_line_text: str = setting("ColdNotify", "the line")
