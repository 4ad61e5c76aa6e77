"""Topics and filters of the MQTT devices that campaign and simulation draw."""

RETAINED = ("state/door", "state/tap", "mixed")
"""Topics to which devices publish with retain."""
UNRETAINED = ("events/door", "events/tap", "mixed")
MQTT_OBJECTS = ("config", "state/boiler")
"""Objects that back-ends publish."""
MQTT_CHANNELS = ("orders", "events/door")
"""Channels to which back-ends send."""
FILTERS = ("#", "+/door", "state/+", "events/#", "+", "config", "mixed", "events/tap", "orders")
