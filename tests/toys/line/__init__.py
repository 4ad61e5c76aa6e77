"""A listener as somebody may add it: it answers each connection with one line."""
