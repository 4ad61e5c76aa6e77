"""Channels: registrations, pages and requests, and what the shell says of the logs that they are in."""
