"""Streams: a session follows the log of objects, and the log of its domain's channels with their messages."""
