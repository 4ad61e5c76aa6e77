"""PUBLISHes of QoS 2 that kept sessions have not released: whose messages they became, and the versions that are given.

A version is given before its record is in Kafka. Until then no other PUBLISH is given the same.
"""

from coldnotify_schemas.arrival_versions import arrival_version
from coldnotify_schemas.matcher_state import UnreleasedRecord
from msgspec.structs import replace

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.objects.object_map import ObjectMap

UNKNOWN = -1


class UnreleasedPublishes:
    """Those of one partition. Each client's own are in `client.filters.unreleased`, by packet identifier."""

    def __init__(self, objects: ObjectMap) -> None:
        self._objects = objects
        self._by_id: dict[str, RegisteredClient] = {}
        """The clients of messages that are not known to be in Kafka, by the message's id."""
        self._given: dict[str, int] = {}
        """The highest version that is given, by the object's key."""

    def version_for(self, key: str, now_ms: int) -> int:
        """Returns the version for a PUBLISH of the object of this key, above all that are given."""
        obj = self._objects.get(key)
        newest = UNKNOWN if obj is None else obj.version
        return arrival_version(max(newest, self._given.get(key, UNKNOWN)), now_ms)

    def put(self, client: RegisteredClient, one: UnreleasedRecord) -> None:
        """Hold one for a client whose set is kept."""
        client.filters.hold(one)
        if one.id and not one.object and not one.written:
            self._by_id[one.id] = client
        if one.object:
            key = f"{client.group_key}/{one.object}"
            self._given[key] = max(one.version, self._given.get(key, UNKNOWN))

    def drop(self, client: RegisteredClient, one: UnreleasedRecord) -> None:
        """Hold one no more."""
        client.filters.release(one.identifier)
        self._by_id.pop(one.id, None)
        key = f"{client.group_key}/{one.object}"
        if self._given.get(key) == one.version:
            del self._given[key]

    def drop_all(self, client: RegisteredClient, offset: int | None = None) -> None:
        """Hold none of a client any more. `offset`: of those alone that came in requests before this one."""
        for one in list(client.filters.unreleased.values()):
            if offset is None or one.applied < offset:
                self.drop(client, one)

    def written(self, id_: str) -> RegisteredClient | None:
        """Notes that the message of this id is in Kafka. Returns the client whose record does not say so yet."""
        client = self._by_id.pop(id_, None)
        if client is None:
            return None
        for one in client.filters.unreleased.values():
            if one.id == id_:
                client.filters.hold(replace(one, written=True))
                return client
        return None
