"""The row of the listener for WebSocket and HTTP."""

from coldnotify_gateway.listeners.row import ListenerRow

ROW = ListenerRow(
    name="web",
    port_setting="gateway_web_port",
    port_key="web_port",
    ready_key="web",
    beside=3,
    module="coldnotify_gateway.listeners.web.listener",
    class_name="WebListener",
)
