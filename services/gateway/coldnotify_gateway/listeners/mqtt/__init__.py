"""The listener for MQTT devices: TCP as the first listener serves it, with packets in place of frames."""
