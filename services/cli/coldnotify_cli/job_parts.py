"""What the jobs that are a folder of their own bring to the command: their topics, and where they are looked for."""

from coldnotify_common.errors import SettingError
from coldnotify_kafka import topics as topic_file
from coldnotify_kafka.topics import TopicSpec
from coldnotify_streams.jobs.registry import JOBS


def topics(partitions: int | None, replication_factor: int) -> list[TopicSpec]:
    """Every topic, those of jobs too. Raises TopicsFileError."""
    more = [row.topics for row in JOBS if row.topics]
    return topic_file.load(partitions=partitions, replication_factor=replication_factor, more=more)


def addresses(text: str) -> dict[str, str]:
    """By job, the host:port that `--jobs` says, else the default port on this machine. Raises SettingError."""
    found = {row.name: f"127.0.0.1:{row.port}" for row in JOBS}
    for one in filter(None, (part.strip() for part in text.split(","))):
        name, _, address = one.partition("=")
        if name not in found or not address:
            known = ", ".join(found) or "there is none here"
            raise SettingError(f"COLDNOTIFY_JOBS / --jobs: {one!r} is not JOB=host:port with a job ({known})")
        found[name] = address
    return found
