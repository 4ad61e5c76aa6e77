"""Shares of channels: each message is handed to one of several members. See docs/adr/0072-work-queues.md."""
