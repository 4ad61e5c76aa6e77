"""The durable outbox around its core (`_core.outbox_queue`, `_core.outbox_log`): its directory, and who empties it."""
