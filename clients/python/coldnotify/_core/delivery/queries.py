"""The queries that a client wants: their members as the service reports them, and when a registration is settled.

The differences between a name and a query are in this module, and in its parts: `interests` (on the wire), `membership`
(the sets), `telling` (members callbacks). `delivery` knows objects only, and asks here why an object is wanted.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import sets_digest

from coldnotify._core.delivery.asked_descriptions import AskedDescriptions
from coldnotify._core.delivery.floors import Floor
from coldnotify._core.delivery.membership import KeptQuery, Membership, Reached
from coldnotify._core.delivery.telling import MembersCallbacks
from coldnotify._core.interests.interests import Interest, QueryInterest, queries_of, spare_bytes
from coldnotify._core.interests.registrations import OperationStage, Registrations
from coldnotify._core.journal import Journal
from coldnotify._core.settings import ClientSettings
from coldnotify._core.streams.frontier import Hold
from coldnotify.errors import ColdNotifyError

_MISMATCHES_MAX = 2
"""How often in a row a session asks for its sets; what is wrong after that is left to the next session."""


class ObjectVersions(Protocol):
    """The interface of those who deliver objects' versions, for queries."""

    def hold(self) -> Hold:
        """The cursor waits from here on."""

    def release(self, hold: Hold) -> None:
        """It need not wait for this any more."""

    def is_heard(self, query: QueryInterest) -> bool:
        """Returns true if callbacks are told the versions of its members."""

    def newest(self, name: str) -> Floor | None:
        """Returns the object's newest version that waits to be told, or is being told."""

    def offer(self, name: str) -> None:
        """The object's version may be told, if one waits."""

    def is_telling(self, name: str) -> bool:
        """Returns true if callbacks are being told a version of the object."""

    def unwanted(self, name: str) -> None:
        """Nothing of the object is to be told any more."""

    def forget_floor(self, name: str) -> None:
        """Forgets the object's floor: when it comes again, it is told again."""

    def report(self, error: ColdNotifyError) -> None:
        """The application should hear of this."""


class Queries:
    """All wanted queries, and for each object those because of which it is wanted."""

    def __init__(
        self,
        journal: Journal,
        registrations: Registrations,
        settings: ClientSettings,
        objects: ObjectVersions,
        kept: Mapping[QueryInterest, KeptQuery],
    ) -> None:
        self._journal = journal
        self._registrations = registrations
        self._objects = objects
        self.callbacks = MembersCallbacks(journal, settings, self)
        self.by_hash: dict[int, Membership] = {}
        self.of: dict[str, list[Membership]] = {}
        """By object: the queries because of which its versions are told."""
        self.told_unknown = False
        """The application has heard that the service knows no queries."""
        self._all_known = True
        """False once the service reported that it forgot some differences, since it began to catch this session up."""
        self._mismatches = 0
        """So many times in a row the service's sets were others than ours."""
        self.descriptions = AskedDescriptions(journal, self)
        for query in sorted(registrations.queries):
            membership = Membership(query, kept.get(query, KeptQuery()), registered=True)
            self.by_hash[query.hash] = membership
            for name in membership.received:
                self.of.setdefault(name, []).append(membership)
            self.callbacks.resume(membership)

    # What the application asks for

    def add(self, query: QueryInterest) -> None:
        """It is wanted from now on."""
        self.by_hash[query.hash] = Membership(query, KeptQuery(), registered=False)

    def forget(self, query: QueryInterest) -> None:
        """It is not wanted any more. Its subscribers stay."""
        membership = self.by_hash.pop(query.hash, None)
        if membership is None:
            return
        self.callbacks.forget(membership)
        names = {*membership.received, *membership.deferred}
        for name in sorted(membership.kept.entering):
            # It had no floor, so as to be told again for this query. Who wants it by its name, too, is still owed that.
            self._registrations.ask_again(name)
        told, membership.members, membership.received = membership.members, set(), set()
        membership.deferred.clear()
        for name in sorted(names):
            self._unindex(membership, name)
        self.gone(told)
        self._journal.changed()

    def get(self, query: QueryInterest) -> Membership | None:
        """Returns its state."""
        return self.by_hash.get(query.hash)

    def members(self, query: QueryInterest) -> frozenset[str]:
        """Returns the members as members callbacks were told; if there are none, as the service reported."""
        membership = self.get(query)
        if membership is None:
            return frozenset()
        if not self.callbacks.are_for(query):
            return frozenset(membership.received)
        return frozenset() if membership.followed else frozenset(membership.members)

    @property
    def kept(self) -> dict[str, KeptQuery]:
        """Returns the states by text, for the document."""
        return {one.query.text: one.kept for one in self.by_hash.values()}

    @property
    def all_parked(self) -> set[QueryInterest]:
        """The queries whose members callbacks failed too often."""
        return {one.query for one in self.by_hash.values() if one.parked}

    def subscribe(self, query: QueryInterest) -> None:
        """There is now a callback for the members' versions."""
        membership = self.get(query)
        if membership is None:
            return
        if membership.dropped:
            self._spoil(membership)
            self._registrations.ask_again(query)
        if membership.touched:
            self.callbacks.touch(membership)

    def unsubscribe(self, query: QueryInterest) -> None:
        """There is no callback for the members' versions any more."""
        membership = self.get(query)
        if membership is None:
            return
        for name in sorted({*membership.received, *membership.deferred}):
            if name in membership.received and self._objects.newest(name) is not None:
                self.miss(membership)  # it is told to others now
            if name in membership.deferred:
                self._undefer(membership, name)
            self._objects.offer(name)
        membership.untold.clear()
        membership.entering.clear()
        self.callbacks.touch(membership)

    # What a session says

    def begin_session(self) -> None:
        """A new session."""
        self._mismatches = 0
        self._all_known = True
        self.descriptions.begin_session()
        for membership in self.by_hash.values():
            membership.begin_session()

    def begin_sync(self) -> None:
        """Begins a reg-sync: the service gets all registrations again, and answers them all."""
        for membership in self.by_hash.values():
            self._restart(membership)

    def unknown(self) -> None:
        """The service knows no queries. What it does not tell is answered, as a whole, by one that does."""
        for membership in self.by_hash.values():
            self._restart(membership)
            self._trust(membership)

    def confirmed(self, queries: Iterable[QueryInterest]) -> None:
        """The service has these registrations: its frames speak of them."""
        for query in queries:
            membership = self.get(query)
            if membership is not None:
                membership.registered = True

    def said(self, interests: Collection[Interest]) -> list[wire.Interest]:
        """Returns the queries among `interests`, for a frame that has them all."""
        queries = queries_of(interests)
        if not queries:
            return []
        spare = spare_bytes(interests)
        said = []
        for query in queries:
            membership = self.by_hash.get(query.hash)
            if membership is None:
                continue
            if membership.undescribed:
                self._spoil(membership)
            entry = wire.Interest(kind=wire.INTEREST_QUERY, text=query.text)
            reached = membership.reached
            if membership.held:
                entry.held = membership.digest
                membership.said_held = True
            elif reached is not None and len(reached.name.encode()) <= spare:
                spare -= len(reached.name.encode())
                entry.reached, entry.reached_at = reached
                membership.resuming = reached
            said.append(entry)
        return said

    def enter(self, name: str, hashes: Iterable[int], *, answer: bool) -> list[Membership]:
        """The object is a member of these. Returns those for which the application has not been told the object's
        version.
        """
        new = []
        for membership in self._registered(hashes):
            was_indexed = membership.concerns(name)
            is_new = membership.enter(name, answer=answer)
            # One that comes back before that it left was told: who tells its version now, does so without this query.
            is_new = is_new or (not was_indexed and self._objects.is_telling(name))
            if is_new and self._objects.is_heard(membership.query):
                new.append(membership)
            if not was_indexed:
                self.of.setdefault(name, []).append(membership)
                self._objects.offer(name)  # its turn may come later now
            if name in membership.touched:
                self.callbacks.touch(membership)
            if membership.reached is not None:
                self._journal.changed()
        return new

    def leave(self, name: str, hashes: Iterable[int]) -> None:
        """The object is a member of these no more."""
        for membership in self._registered(hashes):
            self._leave(membership, name)

    def await_version(self, name: str, hashes: Iterable[int], *, answer: bool) -> None:
        """The object entered, and its version waits to be told. `answer`: it is part of their answers."""
        for membership in self._registered(hashes):
            if self._objects.is_heard(membership.query):
                (membership.untold if answer else membership.entering).add(name)
                if name in membership.doubtful:
                    # It has come again: what is left is to tell it, and nothing to be asked for.
                    membership.doubtful.remove(name)
                    membership.entering.add(name)

    def page_end(self, page_end: wire.PageEnd) -> None:
        """Notes what a page reached, which need not come again once it is told."""
        if page_end.HasField("query") and page_end.reached:
            membership = self.by_hash.get(page_end.query)
            if membership is not None and membership.answering and membership.whole and membership.candidate is None:
                reached = Reached(page_end.reached, page_end.reached_at)
                membership.candidate = reached, set(membership.untold)
                self._reach(membership)

    def begun(self, hashes: Iterable[int]) -> None:
        """Their answers begin."""
        for membership in self._registered(hashes):
            if membership.reached is not None:
                self._journal.changed()
            # Until all of it is told, the cursor says nothing of it: also of one that was not asked for.
            self._registrations.expect(membership.query)
            membership.begin_answer()

    def answered(self, hashes: Iterable[int]) -> None:
        """All their members have come. An answer without its beginning does not count: the next CaughtUp asks again."""
        for membership in self._registered(hashes):
            if membership.answer is not None:
                whole = membership.whole or membership.resuming is not None
                for name in sorted(membership.end_answer()):
                    self._leave(membership, name)
                self._end_answer(membership, whole=whole)

    def unchanged(self, hashes: Iterable[int]) -> None:
        """Their members are those that are held."""
        for membership in self._registered(hashes):
            membership.forget_answer()
            membership.held = False
            self._end_answer(membership, whole=False)

    def compare(self, digest: int) -> None:
        """Compares the service's digest of all sets. If it differs, asks before the cursor passes."""
        known = self._known()
        self._all_known = False
        if known and sets_digest((one.query.hash, one.digest) for one in known) != digest:
            self.ask_all()
            return
        self._mismatches = 0
        for membership in known:
            if membership.doubtful and not self._registrations.is_owed(membership.query):
                self._registrations.ask_again(membership.query)

    def ask_all(self) -> None:
        """Some sets may differ from the service's: which ones is found out. If that does not help, they are all
        answered whole, and if that does not help either, they are in the next session."""
        known = self._known()
        self._all_known = False
        asked = (OperationStage.UNSENT, OperationStage.SENT)
        if all(self._registrations.stage(membership.query) in asked for membership in known):
            return
        self._mismatches += 1
        for membership in known:
            # Who lacks versions needs the whole answer.
            membership.held = self._mismatches == 1 and (
                membership.held or not (self._registrations.is_owed(membership.query) or membership.dropped)
            )
            membership.held = membership.held and not membership.doubtful
            if self._mismatches > _MISMATCHES_MAX:
                membership.given_up = True
                self._registrations.owe(membership.query)
                self._trust(membership)
            else:
                self._registrations.ask_again(membership.query)
                membership.in_question = True
                self._offer_all(membership)

    def new_epoch(self) -> None:
        """The client has no cursor: all queries are answered whole."""
        for membership in self.by_hash.values():
            query = membership.query
            said_more = membership.said_held or membership.resuming is not None
            self._restart(membership)
            if said_more and self._registrations.is_owed(query):
                self._registrations.ask_again(query)
            else:
                self._registrations.expect(query)

    def caught_up(self) -> None:
        """The client is complete."""
        self.callbacks.begun = True
        self.descriptions.caught_up()
        if self._all_known:
            self._mismatches = 0  # what the service does not know the next time is another matter
            for membership in self.by_hash.values():
                membership.doubtful.clear()  # whoever entered above the cursor has come again
        self._all_known = True

    # What becomes of members' versions

    def have(self, name: str) -> bool:
        """Returns true if the object is a member, as the service reported."""
        memberships = self.of.get(name)
        return memberships is not None and any(name in one.received for one in memberships)

    def missed(self, name: str) -> None:
        """A version of the object came, even if others were told it before: queries without a
        callback for it miss it.
        """
        for membership in list(self.of[name]):
            if name not in membership.deferred and not self._objects.is_heard(membership.query):
                self.miss(membership)

    def replaced(self, name: str) -> None:
        """A version of the object replaces one that waited."""
        for membership in list(self.of[name]):
            if name in membership.deferred:
                self._undefer(membership, name)

    def note_leaving(self, name: str) -> None:
        """A version was told. Queries that the object has left, and whose callbacks have not heard of that, were not
        told it; it may enter them again before.
        """
        for one in self.by_hash.values():
            if name in one.members and not one.concerns(name) and self._objects.is_heard(one.query):
                one.missed.add(name)

    def told(self, name: str, floor: Floor) -> None:
        """This version of the object was told."""
        for membership in list(self.of.get(name, ())):
            self._tell(membership, name)
            newest = membership.deferred.get(name)
            if newest is not None and newest <= floor:
                self._undefer(membership, name)
            self.settle(membership)

    def lost(self, name: str) -> None:
        """A version of the object could not be told: its queries must be answered again, as a whole."""
        for membership in list(self.of.get(name, ())):
            if name in membership.deferred:
                self._undefer(membership, name)
            elif self._objects.is_heard(membership.query):
                self._spoil(membership)
                membership.untold.add(name)
                self.owe(membership)

    def is_blocked(self, name: str) -> bool:
        """Returns true if it must first be known whose member it is, or if a members callback must first be told that
        it has entered.
        """
        return any(
            one.in_question or (one.is_entering(name) and not one.parked and self.callbacks.are_for(one.query))
            for one in self.of.get(name, ())
        )

    # For those who tell members

    def hold(self) -> Hold:
        """The cursor waits from here on."""
        return self._objects.hold()

    def release(self, hold: Hold) -> None:
        """It need not wait for this any more."""
        self._objects.release(hold)

    def is_heard(self, query: QueryInterest) -> bool:
        """Returns true if callbacks are told the versions of its members."""
        return self._objects.is_heard(query)

    def offer(self, name: str) -> None:
        """The object's version may be told, if one waits."""
        self._objects.offer(name)

    def report(self, error: ColdNotifyError) -> None:
        """The application should hear of this."""
        self._objects.report(error)

    def gone(self, names: set[str]) -> None:
        """The application hears that these are members of a query no more: floors end with the membership."""
        for name in names:
            if name not in self.of and name not in self._registrations.wanted:
                self._objects.forget_floor(name)

    def owe(self, membership: Membership) -> None:
        """Something of it cannot be told for now: the query must be answered again."""
        membership.held = False
        self._registrations.owe(membership.query)

    def settle(self, membership: Membership) -> None:
        """Settles the registration, if everything was told."""
        missed = membership.dropped and self._objects.is_heard(membership.query)
        if not (membership.telling or membership.touched or membership.untold or missed or membership.given_up):
            self._registrations.settle(membership.query)

    # One query

    def _registered(self, hashes: Iterable[int]) -> list[Membership]:
        """Those that are wanted; a frame may speak of one that is wanted no more, or was earlier."""
        found = (self.by_hash.get(hash_) for hash_ in hashes)
        return [membership for membership in found if membership is not None and membership.registered]

    def _known(self) -> list[Membership]:
        return [
            one
            for one in self.by_hash.values()
            if one.registered and self._registrations.stage(one.query) is not OperationStage.WITHHELD
        ]

    def _trust(self, membership: Membership) -> None:
        """Its members are those that the service reports, as far as that can be known."""
        if membership.in_question:
            membership.in_question = False
            self._offer_all(membership)

    def _offer_all(self, membership: Membership) -> None:
        for name in sorted({*membership.received, *membership.deferred}):
            self._objects.offer(name)

    def _end_answer(self, membership: Membership, *, whole: bool) -> None:
        self._journal.changed()
        self._trust(membership)
        if whole:
            membership.doubtful.clear()
        self._registrations.arrived(membership.query)
        if membership.dropped and self._objects.is_heard(membership.query):
            if whole:
                membership.dropped = False
            else:
                self._registrations.ask_again(membership.query)
        self.callbacks.try_again(membership)
        self.settle(membership)

    def _leave(self, membership: Membership, name: str) -> None:
        newest = self._objects.newest(name) if self._objects.is_heard(membership.query) else None
        if membership.in_question and not self._objects.is_telling(name):
            newest = None  # what waits came when it may have been no member any more
        if not membership.leave(name, newest):
            return
        if membership.reached is not None:
            self._journal.changed()
        self.callbacks.touch(membership)
        self._tell(membership, name)
        if name not in membership.deferred:
            self._unindex(membership, name)

    def _undefer(self, membership: Membership, name: str) -> None:
        del membership.deferred[name]
        self.callbacks.touch(membership)
        self._unindex(membership, name)

    def _unindex(self, membership: Membership, name: str) -> None:
        if membership.descriptions is not None:
            membership.descriptions.forget(name)
        memberships = self.of[name]
        memberships.remove(membership)
        if memberships:
            self._objects.offer(name)
            return
        del self.of[name]
        if name in self._registrations.wanted:
            self._objects.offer(name)
        else:
            self._objects.unwanted(name)
            if name not in membership.members:
                self._objects.forget_floor(name)

    def _tell(self, membership: Membership, name: str) -> None:
        membership.untold.discard(name)
        membership.entering.discard(name)
        membership.doubtful.discard(name)
        if membership.candidate is not None:
            membership.candidate[1].discard(name)
            self._reach(membership)

    def _reach(self, membership: Membership) -> None:
        if membership.candidate is not None and not membership.candidate[1]:
            membership.reached, membership.candidate = membership.candidate[0], None
            self._journal.changed()

    def miss(self, membership: Membership) -> None:
        """A version of a member, or its description, is dropped, because there is no callback for it."""
        if not membership.dropped:
            membership.dropped = True
            self._journal.changed()
        self._spoil(membership)
        if not self.callbacks.are_for(membership.query):
            self.owe(membership)

    def ask_whole(self, membership: Membership) -> None:
        """It is to be answered again, whole."""
        self._spoil(membership)
        # Where an answer came, what is owed of it would be asked for in the next session.
        if self._registrations.stage(membership.query) in (None, OperationStage.ARRIVED):
            self._registrations.ask_again(membership.query)

    def _spoil(self, membership: Membership) -> None:
        """A version is missing in its answer: the next one is to be whole."""
        membership.held = membership.whole = False
        if membership.reached is not None:
            self._journal.changed()
        membership.candidate = membership.reached = None

    def _restart(self, membership: Membership) -> None:
        """Whatever has come of its answer comes again."""
        self._spoil(membership)
        membership.forget_answer()
