"""A unit with queries, its application, its disk, and a service. Whatever happens, it has to receive the service's
sets.

Once it has caught up, its application has received these sets, and of each member the newest version published while it
was one.
"""

from collections.abc import Collection

from coldnotify._core.document.document import Document, decode
from coldnotify._core.driver import CallCallbacks, ChannelJob, MembersJob, Save, ShareJob
from coldnotify._core.interests.interests import QueryInterest

from coldnotify_testkit.crashing_unit import ME, CrashingUnit
from coldnotify_testkit.query_service import QueryService, QuerySession

QUERIES = [QueryInterest("lamp"), QueryInterest("room"), QueryInterest("any")]
NAMES = [f"{letter}{digit}" for letter in "abc" for digit in range(4)]
BY_NAME = ["a0", "b1"]


class QueryingUnit(CrashingUnit[QuerySession]):
    """A client, its application, its disk, and a service."""

    def __init__(self, seed: int, *, steps: int = 150) -> None:
        super().__init__(seed)
        self.service = QueryService(self.random)
        self.told: dict[str, set[str]] = {query.text: set() for query in QUERIES}
        """The members that the application derives from all its callbacks, by query."""
        self.versions: dict[str, dict[str, int]] = {query.text: {} for query in QUERIES}
        """The version that the application received of each present member, by query."""
        self.by_name: dict[str, int | None] = {}
        self.releases_change = self.random.random() < 0.2
        """Now and then the service is one that knows no queries."""
        self.with_members = {query.text: self.random.random() < 0.8 for query in QUERIES}
        self.with_values = {query.text: self.random.random() < 0.8 for query in QUERIES}
        self.wish: set[str] = set()
        self.failing = self.random.choice([0.0, 0.2])
        self.fails = self.failing > 0
        """A members callback that fails too often lets the versions pass."""
        self.takeovers_happen = self.random.random() < 0.5
        """Takeovers make a client discover wrong members."""
        self.crashes_happen = self.random.random() < 0.8
        for _ in range(self.random.randrange(15)):
            self.change()
        self.start()
        for _ in range(steps):
            self.step()
        self.settle()

    # The client

    def start(self) -> None:
        self.boot()
        self.deaf: set[str] = set()
        """Queries that were unregistered during the call. What the call delivers about them is ignored."""
        for number, query in enumerate(QUERIES):
            if self.with_values[query.text]:
                self.driver.application.subscribe(query, 10 + number)
            if self.with_members[query.text]:
                self.driver.application.subscribe_members(query, 20 + number)
        for name in BY_NAME:
            self.driver.application.subscribe(name, 1)
        # An application whose last wish was not saved says it again.
        for query in sorted(self.driver.application.queries - {QueryInterest(text) for text in self.wish}):
            self.driver.application.unregister(query)
        for name in sorted(self.driver.application.wanted - self.wish):
            self.driver.application.unregister(name)
        for text in sorted(self.wish):
            self.driver.application.register(QueryInterest(text) if text in self.told else text)

    def drop(self) -> None:
        if self.service.session is self.session:
            self.service.session = None
        self.session = None

    def hear(self, call: CallCallbacks, failed: Collection[int] = ()) -> None:
        """Lets the application process a call."""
        job = call.job
        self.log.append(f"HEARS {job}")
        if isinstance(job, MembersJob):
            if job.query.text in self.deaf or failed:
                return
            told = self.told[job.query.text]
            told |= job.added
            told -= job.removed
            for name in job.removed:
                self.versions[job.query.text].pop(name, None)
            return
        assert not isinstance(job, ChannelJob | ShareJob)
        note = job.notification
        for number in job.subscribers:
            if number in failed or (note.object_id if number == 1 else QUERIES[number - 10].text) in self.deaf:
                continue
            if number == 1:
                self.by_name[note.object_id] = note.version
                continue
            text = QUERIES[number - 10].text
            assert note.version is not None
            if self.with_members[text] and not self.fails:
                assert note.object_id in self.told[text], f"{note} before it entered {text}"
            self.versions[text][note.object_id] = note.version

    # What happens

    def change(self) -> None:
        name, query, other = self.random.choice(NAMES), self.random.choice(QUERIES), self.random.choice(QUERIES)
        match self.random.randrange(12):
            case 0 | 1 | 2:
                self.service.publish(name)
            case 3:
                self.service.publish(name, deleted=True)
            case 4 | 5 | 6 | 7:
                self.service.enter(query.text, name)
            case 8 | 9:
                self.service.leave(query.text, name)
            case 10 | 11:
                self.service.move(name, query.text, other.text)

    def wishes(self) -> None:
        text = self.random.choice([query.text for query in QUERIES] + BY_NAME)
        interest = QueryInterest(text) if text in self.told else text
        self.log.append(f"WISH {text} {text not in self.wish}")
        if text not in self.wish:
            self.wish.add(text)
            self.driver.application.register(interest)
        elif self.random.random() < 0.3:
            self.wish.discard(text)
            self.driver.application.unregister(interest)
            self.deaf.add(text)
            # An application that unregisters forgets; here, once that is durable.
            journal = self.driver._client._journal
            while not journal.is_durable(journal.urgent):
                self.io()
                self.disk_done()
            if isinstance(interest, QueryInterest):
                self.told[text], self.versions[text] = set(), {}
            else:
                self.by_name.pop(text, None)

    def toggle_values(self) -> None:
        """A callback for the versions of a query's members goes, or comes."""
        number, query = self.random.choice(list(enumerate(QUERIES)))
        self.with_values[query.text] = not self.with_values[query.text]
        self.log.append(f"VALUES {query.text} {self.with_values[query.text]}")
        if self.with_values[query.text]:
            self.driver.application.subscribe(query, 10 + number)
        else:
            self.driver.application.unsubscribe(query, 10 + number)

    def change_release(self) -> None:
        """Another release of the service takes over."""
        self.service.knows_queries = not self.service.knows_queries
        self.log.append(f"RELEASE {self.service.knows_queries}")
        self.service.take_over()
        self.lose("another release")

    def step(self) -> None:
        self.now += self.random.choice([0.0, 0.001, 0.1, 0.5])
        what = self.random.random()
        if what < 0.20:
            self.change()
        elif what < 0.24:
            self.wishes()
        elif what < 0.26:
            self.log.append("DROP")
            self.lose("dropped")
        elif what < 0.275 and self.crashes_happen:
            self.crash()
        elif what < 0.29 and self.takeovers_happen:
            self.log.append("TAKEOVER")
            self.service.take_over()
            if self.session is not None and not self.session.live:
                self.drop()
                self.driver.link_down("whoever caught it up has gone", self.now)
        elif 0.29 <= what < 0.293 and self.takeovers_happen:
            self.log.append("EPOCH")
            self.service.new_epoch()
            self.lose("epoch")
        elif what < 0.303:
            self.toggle_values()
        elif what < 0.31 and self.releases_change:
            self.change_release()
        elif what < 0.55:
            self.io()
        elif what < 0.65:
            self.disk_done()
        elif what < 0.85:
            self.application()
        else:
            self.deliver(self.random.choice([1, 20, 60, 300]))

    def open(self) -> QuerySession:
        return self.service.open()

    def is_heard(self, session: QuerySession) -> bool:
        return session is self.service.session

    def check_kept(self, save: Save) -> None:
        self.check(decode(save.data, ME))

    def check(self, document: Document) -> None:
        """Asserts that the document would be true after a crash: everything up to its cursor was delivered, or is
        delivered again.
        """
        if document.cursor is None or document.epoch != self.service.epoch:
            return
        for text, kept in document.queries.items():
            if text in document.pending_queries or text not in self.wish:
                continue
            changed_at = self.service.changed_at.get(text, {})
            for name in NAMES:
                if changed_at.get(name, 0) > document.cursor:
                    continue
                is_member = name in self.service.members(text)
                assert (name in kept.members) == is_member, f"{name} in {text} would be wrong: {document}"
                newest = self.service.objects.get(name)
                heard = self.with_values[text] and not kept.dropped
                if is_member and heard and newest is not None and newest.offset <= document.cursor:
                    told = self.versions[text].get(name, 0)
                    assert told >= newest.version, f"{name} of {text} would be lost: {document}"

    def failures(self, call: CallCallbacks) -> dict[int, BaseException]:
        if self.random.random() < self.failing:
            return {number: RuntimeError("no") for number in call.job.subscribers if self.random.random() < 0.8}
        return {}

    def on_call(self, call: CallCallbacks) -> None:
        self.deaf = set()

    # The end

    def settle(self) -> None:
        """Nothing fails any more: the client catches up."""
        self.failing = 0.0
        self.log.append("SETTLE")
        if not self.service.knows_queries:
            self.change_release()
        self.lose("the last one")
        self.catch_up()
        assert self.driver.application.queries == {QueryInterest(text) for text in self.wish if text in self.told}
        for text in self.wish & set(self.told):
            members = self.service.members(text)
            assert self.driver.application.members(QueryInterest(text)) == members, (
                text,
                self.driver.application.members(QueryInterest(text)),
                members,
            )
            if self.with_members[text]:
                assert self.told[text] == members, text
            if self.with_values[text]:
                newest = {name: self.service.objects[name].version for name in members if name in self.service.objects}
                told = {name: version for name, version in self.versions[text].items() if name in members}
                assert told == newest, (text, told, newest)
        members = {name for text in self.wish & set(self.told) for name in self.service.members(text)}
        document = self.driver._client._document()
        for text, kept in document.queries.items():
            if not (self.with_members[text] or self.with_values[text]):
                members |= kept.members  # nobody could be told that they have left
        assert set(document.applied) <= members | self.wish, "floors of objects that are neither registered nor members"
        for name in self.wish & set(BY_NAME):
            known = self.service.objects.get(name)
            assert self.by_name[name] == (None if known is None else known.version), name
