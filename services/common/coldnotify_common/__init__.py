"""Services have in common: settings, logging, the admin HTTP port, Kafka client configuration, tenancy, `played`."""
