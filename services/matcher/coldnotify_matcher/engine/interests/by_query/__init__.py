"""Interests by query: conditions on descriptions and names of objects, and the sets of matching objects."""
