"""Kafka: client configurations, a consumer that skips unreadable records, statistics."""
