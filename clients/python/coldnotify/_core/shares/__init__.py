"""Shares: the messages that a client holds as a member, and the Holds that say so. See docs/queues.md."""
