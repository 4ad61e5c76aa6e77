"""The row of the toy listener."""

from coldnotify_gateway.listeners.row import ListenerRow

ROW = ListenerRow(
    name="line",
    port_setting="gateway_line_port",
    port_key="line_port",
    ready_key="line",
    beside=10,
    module="coldnotify_gateway.listeners.line.listener",
    class_name="LineListener",
    settings="coldnotify_gateway.listeners.line.settings:LineSettings",
)
