"""A device's part of a session, played by a service for a device that speaks another protocol. Pure."""
