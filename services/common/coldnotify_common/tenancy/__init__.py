"""Tenants in a service: who has which domains, what may be let in, what is counted. See docs/tenants.md.

`table`, `token_bucket`, `known_nodes`, `gate` and `counting` are pure: no clock, no Kafka, no threads. `reader` and
`usage_writer` have a thread each; `tenancy` puts all of it together for a service; `tenant_store` is how agreements are
written.
"""
