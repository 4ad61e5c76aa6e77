"""The operator's settings for the engine."""
