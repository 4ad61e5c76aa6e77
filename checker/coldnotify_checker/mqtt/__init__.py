"""Judges M1 to M5, M8 and P7 for MQTT devices, from the lines that they wrote and from what the topics hold.

A topic is a name in the device's domain and group. What was published to it with retain are versions of an object, what
was published without are messages of a channel, whoever published it. docs/histories.md says what is judged.
"""
