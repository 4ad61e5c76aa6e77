"""Databases of PostgreSQL as sources: a row is an object, or a message of an outbox."""
