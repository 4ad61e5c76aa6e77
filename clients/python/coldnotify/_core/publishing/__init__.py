"""Publishes that wait for their answers, and the durable outbox's records."""
