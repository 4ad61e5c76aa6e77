"""For tests: a matcher's partition that is loaded and owned, and records of its state: sessions, buckets, claims."""

import json

from coldnotify_matcher.engine import ProducedRecord
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_matcher.record_headers import Headers, HeadersReader
from coldnotify_matcher.run_topics import Cluster, topics_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.events import JobRecord, Takeover
from coldnotify_streams.core.job import Ends

from coldnotify_testkit.engine_bench import CLUSTER, EPOCH, GATEWAY, PARTITION, PREFIX

TOPICS = TopicNames()
JOB_TOPICS = topics_of(TOPICS)
headers_of = HeadersReader(TOPICS)

KEY = f"{PREFIX}client-1"
ENDS = Ends(requests=1000, table=1000)
COMPACTED = JOB_TOPICS.compacted


def handled_on(
    table_committed: int | None = None, *, requests_start: int = 0, requests_committed: bool = True
) -> Takeover:
    """Returns the state at a takeover: the offset at which requests begin, and what is committed."""
    return Takeover(
        requests_start=requests_start,
        requests_committed=requests_committed,
        table_committed=table_committed,
        table_in_epoch=True,
    )


def partition(owner: str = "a", *, cluster: Cluster = CLUSTER, **ends: int) -> MatcherPartition:
    """One that is being loaded; `ends` by the last part of a topic's name, 0 by default."""
    one = MatcherPartition(PARTITION, cluster, owner, registrations_max=100)
    ends = {topic: ends.get(topic.rpartition(".")[2], 0) for topic in COMPACTED}
    one.load(dict.fromkeys(COMPACTED, 0), ends, handled_on())
    return one


def own(one: MatcherPartition) -> MatcherPartition:
    """Claims and takes over."""
    one.on_record(record(TOPICS.sessions, "@generation", one.claim().value, 1000), 0)
    assert one.claimed
    one.own(0, ENDS)
    return one


def record(topic: str, key: str | bytes, value: object, offset: int = 0, headers: Headers = ()) -> JobRecord:
    """Returns a record of this partition. A value that is not bytes is encoded as JSON."""
    encoded = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    said = headers_of(topic, headers)
    return JobRecord(
        topic, PARTITION, offset, end=False, key=key if isinstance(key, bytes) else key.encode(), value=encoded,
        said=said,
    )  # fmt: skip


def claim(generation: int, owner: str, **more: object) -> dict[str, object]:
    """Returns the record of a generation, as its owner writes it."""
    return {
        "format": 1,
        "generation": generation,
        "owner": owner,
        "requests_topic_id": "requests-id",
        "epoch": EPOCH,
        "requests_since": 0,
    } | more


def session(generation: int = 1, applied: int = 0, **more: object) -> dict[str, object]:
    """A session's record, online."""
    return {
        "format": 1,
        "generation": generation,
        "applied": applied,
        "online": True,
        "gateway": f"{GATEWAY:016x}",
        "inbox": 0,
        "session": 7,
        "epoch": EPOCH,
        "cursor": 3,
        "last_seen": 1,
    } | more


def bucket(*names: str, generation: int = 1, applied: int = 0) -> dict[str, object]:
    """A bucket of a client's registrations."""
    return {"format": 1, "generation": generation, "applied": applied, "objects": names}


def written(write: ProducedRecord) -> dict[str, object]:
    """A write's value as JSON."""
    value = json.loads(write.value or b"")
    assert isinstance(value, dict)
    return value


def written_claim(value: bytes | None) -> object:
    """The generation that is claimed."""
    return json.loads(value or b"")["generation"]
