"""What the command `coldnotify gateway` takes: GatewaySettings, and what listeners that do not ship can be told."""

from coldnotify_gateway.listeners.registry import with_added
from coldnotify_gateway.settings import GatewaySettings

EveryGatewaySetting = with_added(GatewaySettings)
