"""The row of the TCP listener."""

from coldnotify_gateway.listeners.row import ListenerRow

ROW = ListenerRow(
    name="tcp",
    port_setting="gateway_port",
    port_key="port",
    ready_key="gateway",
    beside=0,
    module="coldnotify_gateway.listeners.tcp.listener",
    class_name="TcpListener",
)
