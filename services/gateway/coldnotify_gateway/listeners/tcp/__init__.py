"""Devices by TCP, plain or under TLS, directly or through a balancer: the frames are the byte stream."""
