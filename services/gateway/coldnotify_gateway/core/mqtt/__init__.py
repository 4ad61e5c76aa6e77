"""MQTT devices: packets in, packets out; between them a session as any other, whose set the service keeps.

`device.py` is what a connection holds beside a session's own fields: held filters, deliveries, publishes. Here is state
alone: `core/from_mqtt.py` handles packets, `core/to_mqtt.py` what the matcher tells.
"""
