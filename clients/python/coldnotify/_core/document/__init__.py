"""The state that survives a power cut, as JSON."""
