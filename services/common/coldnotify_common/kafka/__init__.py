"""Kafka: configurations of clients, a consumer that no record stops, statistics."""
