"""Kafka's topics and rights of all parts: those of topics.yaml and acls.yaml, and those that parts' rows have."""

from coldnotify_kafka import acls as acl_file
from coldnotify_kafka import topics as topic_file
from coldnotify_kafka.acls import Acl
from coldnotify_kafka.topics import TopicSpec
from coldnotify_parts.registry import PARTS


def topics(partitions: int | None, replication_factor: int) -> list[TopicSpec]:
    """Every topic. Raises TopicsFileError."""
    more = [row.topics for row in PARTS if row.topics]
    return topic_file.load(partitions=partitions, replication_factor=replication_factor, more=more)


def acls(principal: str) -> list[Acl]:
    """Every allowance; `principal` has the place {role}. Raises AclsFileError."""
    more = {row.name: row.rights for row in PARTS if row.rights}
    return acl_file.load(principal, more=more, topics=[one.name for one in topics(None, 1)])
