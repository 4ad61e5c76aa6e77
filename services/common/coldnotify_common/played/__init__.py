"""Plays a device's part of a session, for a device that speaks another protocol. Pure."""
