"""Tenants in a service: maps domains to tenants, admits publishes, counts usage. See docs/tenants.md.

`table`, `token_bucket`, `known_nodes`, `gate` and `counting` are pure: no clock, no Kafka, no threads. `reader` and
`usage_writer` have a thread each; `tenancy` combines them for a service; `tenant_store` reads and writes agreements in
Kafka.
"""
