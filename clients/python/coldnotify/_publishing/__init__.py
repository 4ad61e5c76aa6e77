"""Inside of coldnotify.publisher: what it raises, what it checks, how it talks to Kafka."""
