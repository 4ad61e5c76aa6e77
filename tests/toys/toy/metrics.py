"""The metrics of the toy part."""

from prometheus_client import Counter

PUBLISHED = Counter("coldnotify_toy_published", "Publishes that Kafka acknowledged.")
