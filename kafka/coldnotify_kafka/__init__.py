"""Kafka as ColdNotify needs it: the topics as code and an embedded broker."""
