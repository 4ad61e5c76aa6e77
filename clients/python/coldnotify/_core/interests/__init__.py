"""Interests: a client registers for them, and its pending operations. Here alone the kind of an interest is asked."""
