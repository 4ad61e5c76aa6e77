"""The settings of webhooks that the HTTP service and the part that calls them share."""

import stat
from dataclasses import dataclass
from pathlib import Path

import structlog

from coldnotify_common.hooks.hook_signatures import check_key
from coldnotify_common.hooks.hook_urls import HookUrls
from coldnotify_common.settings import Settings, invalid, setting

log = structlog.get_logger()


def _check_networks(text: str) -> None:
    HookUrls.of(text, "", "https")


def _check_ports(text: str) -> None:
    HookUrls.of("", text, "https")


@dataclass(frozen=True, kw_only=True)
class HookSettings(Settings):
    """Settings of webhooks."""

    hooks_key_file: str = setting(
        "",
        "file with at least 32 random bytes, from which the secrets of webhooks are derived; the same for the HTTP "
        "service and `coldnotify hooks`; empty: there are no webhooks",
    )
    hooks_networks: str = setting(
        "",
        "addresses and networks that webhooks may lead to although they are not global, such as 10.0.0.0/8, separated "
        "by commas",
        check=_check_networks,
    )
    hooks_ports: str = setting(
        "", "ports that webhooks may have besides 80 and 443, separated by commas", check=_check_ports
    )
    hooks_schemes: str = setting("https", "schemes that webhooks may have", choices=("https", "https,http"))

    def hook_urls(self) -> HookUrls:
        """Returns what is allowed."""
        return HookUrls.of(self.hooks_networks, self.hooks_ports, self.hooks_schemes)

    def hooks_key(self) -> bytes | None:
        """Returns the key; None: there are no webhooks. Raises SettingError."""
        if not self.hooks_key_file:
            return None
        path = Path(self.hooks_key_file)
        try:
            key = check_key(path.read_bytes())
            others = path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        except (OSError, ValueError) as error:
            raise invalid("hooks_key_file", f"{path}: {error}") from None
        if others & stat.S_IROTH:
            log.warning("every user of this machine can read the key of webhooks", file=str(path))
        return key
