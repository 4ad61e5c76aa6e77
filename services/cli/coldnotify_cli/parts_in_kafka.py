"""Kafka's topics and rights of all parts: those of topics.yaml and acls.yaml, and those that parts' rows have."""

from coldnotify_kafka import acls as acl_file
from coldnotify_kafka import topics as topic_file
from coldnotify_kafka.acls import Acl
from coldnotify_kafka.topics import TopicSpec
from coldnotify_parts.registry import PARTS
from coldnotify_schemas.topics import TopicNames


def topics(partitions: int | None, replication_factor: int, names: TopicNames) -> list[TopicSpec]:
    """Returns every topic of the installation with these names. Raises TopicsFileError."""
    more = [row.topics for row in PARTS if row.topics]
    return topic_file.load(partitions=partitions, replication_factor=replication_factor, more=more, names=names)


def acls(principal: str, names: TopicNames) -> list[Acl]:
    """Returns every rule; `principal` has the place {role}, or is "", as in acls.load. Raises AclsFileError."""
    more = {row.name: row.rights for row in PARTS if row.rights}
    in_files = [one.name for one in topics(None, 1, TopicNames())]
    return acl_file.load(principal, more=more, topics=in_files, names=names)
