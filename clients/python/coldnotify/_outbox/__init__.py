"""The durable outbox around its core (`_core.publishing`): its directory, and who empties it."""
