"""The HTTP service: publishing by POST."""
