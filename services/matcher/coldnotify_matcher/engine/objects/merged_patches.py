"""Patches that clients publish: what they have made of descriptions, and what is not in the log yet.

A patch is merged into what its object's description is once all that was made before has come back from the log. So
each is merged in the order of the requests, without waiting for Kafka. Its record says the last request in it, and a
request up to that one changes nothing when it is handled again.

A description that is being changed by HTTP waits: two that merge into the same one would undo each other.
"""

from collections import Counter
from dataclasses import dataclass

from coldnotify_schemas.description_patches import parse_description_patch, request_header
from coldnotify_schemas.descriptions import KEY_PREFIX, Description, encode_description_record, merge_patch
from coldnotify_schemas.records import InvalidRecord

from coldnotify_matcher.engine.objects.description_store import NEVER, DescriptionStore
from coldnotify_matcher.engine.outputs import ProducedRecord

Place = tuple[str, str]
"""A group (domain/group) and an object's name."""


@dataclass(slots=True)
class Made:
    """A description that patches have made, until it has come back from the log."""

    description: Description
    version: int
    """The timestamp of its record, in ms."""
    request: int
    """Offset of the last request in it."""


class MergedPatches:
    """Those of one partition."""

    def __init__(self, descriptions: DescriptionStore) -> None:
        self._descriptions = descriptions
        self._made: dict[Place, Made] = {}
        self._due: dict[Place, None] = {}
        """Those that are to be written with this step."""
        self._by_http: Counter[Place] = Counter()
        """Descriptions that are being changed by HTTP."""
        self.first_offset: int | None = None
        """Offset of the first request that waits for one of these; None: none waits."""

    def merge(self, place: Place, patch: bytes, offset: int, now_ms: int) -> str:
        """Merge the patch of the request at this offset. Returns why it cannot be, or "". It is durable with this
        step."""
        made, described = self._made.get(place), self._descriptions.of(*place)
        if offset <= max(self._descriptions.request_of(*place), NEVER if made is None else made.request):
            return ""  # it is handled again
        before = made or described
        description, version = (None, NEVER) if before is None else (before.description, before.version)
        try:
            merged = merge_patch(description, parse_description_patch(patch))
        except InvalidRecord as error:
            return str(error)
        self._made[place] = Made(merged, max(now_ms, version + 1), offset)
        self._due[place] = None
        return ""

    def read_back(self, group: str, name: str) -> None:
        """Note that a record of this description has come from the log."""
        made = self._made.get((group, name))
        if made is not None and self._descriptions.request_of(group, name) >= made.request:
            del self._made[group, name]

    def headers_of(self, key: str) -> tuple[tuple[str, bytes], ...]:
        """Returns the headers of a record that says again what is in force. `key`: of its records."""
        domain, group, name = key.removeprefix(KEY_PREFIX).split("/", 2)
        request = self._descriptions.request_of(f"{domain}/{group}", name)
        return () if request == NEVER else (request_header(self._descriptions.requests_epoch, request),)

    def take_records(self, topic: str, partition: int) -> list[ProducedRecord]:
        """Returns the records of this step."""
        due, self._due = self._due, {}
        records = []
        for group, name in due:
            made = self._made[group, name]
            key, value = f"{KEY_PREFIX}{group}/{name}".encode(), encode_description_record(made.description)
            headers = (request_header(self._descriptions.requests_epoch, made.request),)
            records.append(ProducedRecord(topic, partition, key, value, headers, made.version))
        return records

    # --- changes by HTTP

    def begin_change(self, place: Place) -> None:
        """Have patches of this description wait from here on."""
        self._by_http[place] += 1

    def end_change(self, place: Place) -> None:
        """Have them wait no longer."""
        self._by_http[place] -= 1
        if not self._by_http[place]:
            del self._by_http[place]

    def is_changing(self, place: Place) -> bool:
        """Returns true if this description is being changed by HTTP."""
        return place in self._by_http

    def is_made(self, place: Place) -> bool:
        """Returns true if patches have made what is not in the log yet."""
        return place in self._made

    def wait(self, first_offset: int | None) -> None:
        """Note the offset of the first request that waits; None: none does."""
        self.first_offset = first_offset
