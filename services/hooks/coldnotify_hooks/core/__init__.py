"""The pure core: when a hook may be called, and what an answer means."""
