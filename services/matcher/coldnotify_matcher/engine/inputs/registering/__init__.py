"""Registering: handles the interests in frames, by kind."""
