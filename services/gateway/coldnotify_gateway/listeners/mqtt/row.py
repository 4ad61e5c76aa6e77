"""The row of the MQTT listener."""

from coldnotify_gateway.listeners.row import ListenerRow

ROW = ListenerRow(
    name="mqtt",
    port_setting="gateway_mqtt_port",
    port_key="mqtt_port",
    ready_key="mqtt",
    beside=4,
    usual_port=1883,
    module="coldnotify_gateway.listeners.mqtt.listener",
    class_name="MqttListener",
)
