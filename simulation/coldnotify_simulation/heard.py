"""Judges the members that sessions are sent by what they were sent before: P9, as a client of the protocol sees it.

The library ignores a version of an object that it does not know as a member. Another client may not.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coldnotify._core.document.document import Document
from coldnotify_schemas.digest import digest, sets_digest
from coldnotify_schemas.frames import FrameBuffer, parse_gateway_frame
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import CaughtUp, GatewayFrame, Notification, Registered

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.memberships import SimulatedMemberships
from coldnotify_simulation.promises import Broken, SimulatedPromises
from coldnotify_simulation.sets import SimulatedSets


@dataclass(slots=True)
class _Query:
    """A client's knowledge of one query."""

    members: set[str] = field(default_factory=set)
    """All that entered, and those of an answer that is not whole."""
    answer: set[str] | None = None
    """Those of an answer that is not whole."""
    answered: bool = False
    doubted: bool = False
    """The client was told to ask for it again, or has to: until the answer, versions may be of unknown members."""


class Heard:
    """Everything that clients were sent."""

    def __init__(self, promises: SimulatedPromises, memberships: SimulatedMemberships, groups: SimulatedSets) -> None:
        self._promises = promises
        self._memberships = memberships
        self._groups = groups
        self._epochs: dict[str, int | None] = {}
        """The epoch of each client's cursor in this session."""
        self._queries: dict[str, dict[int, _Query]] = {}
        """By client and hash."""
        self._named: dict[str, set[str]] = {}
        """By client: its registrations by name since its connection was made."""
        self._beside: dict[str, tuple[set[str], set[int]]] = {}
        """By client: its registrations by name, and the hashes of its queries, since a connection beside its session
        was made. That one's Hello says them; what has been unregistered since is sent until the service hears so."""
        self._frames: dict[SimulatedLink, FrameBuffer] = {}
        self._on_version: Callable[[SimulatedClient, Notification], None] | None = None
        self.counts: Counter[str] = Counter()
        """So many versions of members, and sets, were judged."""

    def note_versions(self, on_version: Callable[[SimulatedClient, Notification], None]) -> None:
        """Has this called with each version that a client is sent."""
        self._on_version = on_version

    def starts(self, client: SimulatedClient, document: Document) -> None:
        """Its process begins with what this document has."""
        self._queries[client.key] = {
            query_hash(text): _Query(
                set(kept.members) | set(kept.answer or ()),
                answer=None if kept.answer is None else set(kept.answer),
                answered=text not in document.pending_queries,
            )
            for text, kept in document.queries.items()
        }

    def registers(self, client: SimulatedClient, name: str) -> None:
        """Its application asks for an object by name."""
        self._named.setdefault(client.key, set()).add(name)
        if client.key in self._beside:
            self._beside[client.key][0].add(name)

    def registers_query(self, client: SimulatedClient, text: str) -> None:
        """Its application asks for a query. Results of an earlier registration may still be in transit."""
        one = self._queries[client.key].setdefault(query_hash(text), _Query())
        one.answered, one.answer = False, None
        if client.key in self._beside:
            self._beside[client.key][1].add(query_hash(text))

    def on_received(self, client: SimulatedClient, link: SimulatedLink, data: bytes) -> None:
        """It has taken in these frames."""
        for body in self._frames[link].feed(data):
            self._on_frame(client, parse_gateway_frame(body))

    def connects(self, client: SimulatedClient, link: SimulatedLink) -> None:
        """It has a connection, and is about to send Hello."""
        self._beside.pop(client.key, None)
        self._begin(client, link, set(client.wanted), _hashes(client))

    def connects_beside(self, client: SimulatedClient) -> None:
        """It has a connection beside its session, and is about to send Hello there."""
        self._beside[client.key] = set(client.wanted), _hashes(client)

    def moves(self, client: SimulatedClient, link: SimulatedLink) -> None:
        """This connection, which was beside its session, has the session from now on."""
        self._begin(client, link, *self._beside.pop(client.key))

    def _begin(self, client: SimulatedClient, link: SimulatedLink, names: set[str], hashes: set[int]) -> None:
        self._frames = {one: frames for one, frames in self._frames.items() if one.client is not client}
        self._frames[link] = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._named[client.key] = names
        self._epochs[client.key] = None if client.driver is None else client.driver.status(0.0).epoch
        queries = self._queries[client.key]
        self._queries[client.key] = {hash_: one for hash_, one in queries.items() if hash_ in hashes}
        for hash_ in hashes:
            self._queries[client.key].setdefault(hash_, _Query())
        for one in self._queries[client.key].values():
            one.doubted = False
            # The service goes on with the answer from where the client has it, or says that it begins again.
            one.answered &= one.answer is None

    def _on_frame(self, client: SimulatedClient, frame: GatewayFrame) -> None:
        match frame.WhichOneof("frame"):
            case "welcome" if frame.welcome.HasField("epoch"):
                self._epochs[client.key] = frame.welcome.epoch
            case "pong" if frame.pong.HasField("complete"):
                self._judge_sets(client, frame.pong.complete)
            case "notification":
                self._on_notification(client, frame.notification)
            case "registered":
                self._on_registered(client, frame.registered)
            case "page_end" if frame.page_end.sets_unknown:
                for one in self._queries[client.key].values():
                    one.doubted = True
            case "caught_up":
                self._on_caught_up(client, frame.caught_up)

    def _on_notification(self, client: SimulatedClient, said: Notification) -> None:
        if self._on_version is not None and said.HasField("version"):
            self._on_version(client, said)
        queries = self._queries[client.key]
        for one in self._of(client, said.entered):
            one.members.add(said.name)
            if one.answer is not None:
                one.answer.add(said.name)
        # What left as it was deleted may be said again, where pages begin behind that.
        if said.name and said.HasField("version") and not said.left:
            self._judge(client, said)
        for hash_ in said.left:
            if hash_ in queries:
                queries[hash_].members.discard(said.name)
                if (answer := queries[hash_].answer) is not None:
                    answer.discard(said.name)

    def _judge(self, client: SimulatedClient, said: Notification) -> None:
        queries = self._queries[client.key].values()
        if not queries or said.name in self._named[client.key] or said.name in client.wanted:
            return
        self.counts["frames judged"] += 1
        if not any(said.name in one.members or one.doubted for one in queries):
            raise Broken(
                f"P9: {client.name} is sent version {said.version} of {said.name}, and was not told that it is a member"
            )

    def _on_registered(self, client: SimulatedClient, said: Registered) -> None:
        for one in self._of(client, said.begun):
            one.answer = set()
        for one in self._of(client, said.answered):
            if one.answer is not None:
                one.members, one.answer = one.answer, None
            one.answered, one.doubted = True, False
        for one in self._of(client, said.unchanged):
            one.answer, one.answered, one.doubted = None, True, False

    def _on_caught_up(self, client: SimulatedClient, said: CaughtUp) -> None:
        queries = self._queries[client.key]
        for text in client.queries:
            queries.setdefault(query_hash(text), _Query())
        for one in queries.values():
            one.doubted |= not one.answered or one.answer is not None
        held = ((hash_, digest(one.members)) for hash_, one in queries.items())
        if said.HasField("sets_digest") and sets_digest(held) != said.sets_digest:
            for one in queries.values():
                one.doubted = True
        if said.HasField("complete"):
            self._judge_sets(client, said.complete)

    def _judge_sets(self, client: SimulatedClient, complete: int) -> None:
        """Judges that the client's sets are complete up to there, unless it was told to ask for any."""
        if self._epochs[client.key] != self._promises.epoch:
            return
        queries, group = self._queries[client.key], client.key.rpartition("/")[0]
        for text in client.queries:
            one = queries.get(query_hash(text))
            if one is None or one.doubted or not one.answered or self._memberships.doubts(client.key, text):
                continue
            self.counts["sets judged"] += 1
            wrong = self._groups.wrong(group, text, one.members, complete + 1)
            if wrong:
                raise Broken(
                    f"P9: {client.name} is told that it is complete up to {complete}, and was told "
                    f"{sorted(one.members)} as members of {text!r}: {sorted(wrong)} wrong"
                )

    def _of(self, client: SimulatedClient, hashes: Iterable[int]) -> list[_Query]:
        return [self._queries[client.key].setdefault(hash_, _Query()) for hash_ in hashes]


def _hashes(client: SimulatedClient) -> set[int]:
    return {query_hash(text) for text in client.queries}
