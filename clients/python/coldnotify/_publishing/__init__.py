"""The parts of coldnotify.publisher: its errors, its checks, its connection to Kafka."""
