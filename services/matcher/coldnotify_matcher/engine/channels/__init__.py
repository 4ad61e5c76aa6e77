"""Channels: registrations, pages and requests, and the shell's calls about the logs that hold them."""
