"""What the jobs that are a folder of their own bring to the command: topics, settings, parts of `coldnotify up`."""

from coldnotify_kafka import topics as topic_file
from coldnotify_kafka.topics import TopicSpec
from coldnotify_streams.jobs.registry import JOBS


def topics(partitions: int | None, replication_factor: int) -> list[TopicSpec]:
    """Every topic, those of jobs too. Raises TopicsFileError."""
    more = [row.topics for row in JOBS if row.topics]
    return topic_file.load(partitions=partitions, replication_factor=replication_factor, more=more)
