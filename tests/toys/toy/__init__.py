"""A part as somebody may add it: a source, which publishes one object again and again."""
