"""The codec of MQTT 3.1.1 and 5.0, without I/O: `PacketBuffer` makes packets of bytes, `encode` makes bytes of packets.

`packets` has the packets, `errors` all that a stranger's bytes can raise. Both directions are here: a server reads what
clients send, tests and load devices what servers do. References such as [MQTT-3.3.2-2] are to the statements of MQTT
5.0, unless 3.1.1 is named. The package needs the extra `records` of this distribution; the devices' library does not
load it.
"""
