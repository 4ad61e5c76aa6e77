"""The usage job: what tenants use, made of the nodes' cumulative counters, and what follows from it (docs/usage.md)."""
