"""The TCP listener: plain or under TLS, directly or through a balancer. The byte stream consists of frames."""
