"""Clients of a partition, their sessions, and what they registered for."""
