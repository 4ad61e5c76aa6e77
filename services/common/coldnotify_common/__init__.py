"""Code that all services share: settings, logging, the admin HTTP port, Kafka client configuration, tenancy,
`played`."""
