"""Registering: what frames say of interests, by kind, and what comes of it."""
