"""The application's calls: what it registers for, its callbacks, and what it has been told."""

from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from typing import Any

from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.delivery.member_descriptions import parsed_description
from coldnotify._core.interests.interests import ChannelInterest, Interest, QueryInterest, ShareInterest
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.interests.since import Since
from coldnotify._core.shares.lease import Lease
from coldnotify._core.shares.share_member import KeptShare
from coldnotify.notification import Notification


class Application:
    """The calls of one client's application. They need no connection, and nothing here waits for one."""

    def __init__(self, registrations: Registrations, delivery: Delivery) -> None:
        self._registrations = registrations
        self._delivery = delivery

    def register(self, interest: Interest) -> None:
        """Want this object, or this query's members. No change if it is wanted already."""
        if self._registrations.register(interest):
            self._delivery.wants(interest)

    def unregister(self, interest: Interest) -> None:
        """Want it no more. Its subscribers stay."""
        if self._registrations.unregister(interest):
            self._delivery.forget(interest)

    def register_channel(self, channel: ChannelInterest, since: Since) -> None:
        """Want this channel's messages. `since` counts if none of this name is wanted."""
        self._delivery.channels.want(channel, since)

    def unregister_channel(self, name: str) -> None:
        """Want it no more. Its subscribers stay."""
        channel = self._delivery.channels.of(name)
        if channel is not None:
            self.unregister(channel)

    def register_share(self, share: ShareInterest, kept: KeptShare) -> None:
        """Be a member of this share, with these leases. Raises ValueError if the client's shares have no room."""
        self._delivery.shares.want(share, kept)

    def unregister_share(self, channel: str, share: str) -> None:
        """Be a member no more. Its subscribers stay."""
        found = self._delivery.shares.of(channel, share)
        if found is not None:
            self.unregister(found)

    def settle(self, lease: Lease, told: Callable[[], object]) -> None:
        """Settles a message of a share while its callback runs. `told` is called once that is answered, or lost."""
        self._delivery.shares.settle(lease, told)

    def register_only(self, names: Iterable[str]) -> None:
        """Want exactly these objects, by name. Queries stay as they are."""
        names = set(names)
        for name in sorted(self._registrations.wanted - names):
            self.unregister(name)
        for name in sorted(names):
            self.register(name)

    @property
    def wanted(self) -> Set[str]:
        """The names in the wanted set."""
        return self._registrations.wanted

    @property
    def queries(self) -> Set[QueryInterest]:
        """The queries in the wanted set."""
        return self._registrations.queries

    def is_settled(self, name: str) -> bool:
        """Returns true if the object is wanted by its name, and its registration is confirmed and answered."""
        return name in self._registrations.wanted and not self._registrations.is_owed(name)

    def floor(self, name: str) -> int:
        """Returns the newest version of this object that the application was told; -1: none was."""
        floor = self._delivery.floors.get(name)
        return -1 if floor is None else floor[1]

    def current(self, name: str) -> Notification | None:
        """Returns the notification that callbacks of this object last handled, if it is kept."""
        found = self._delivery.told_last.get(name)
        description = None if found is None else parsed_description(self._delivery.queries.descriptions.of(name))
        return found if found is None or description is None else replace(found, description=description)

    def members(self, query: QueryInterest) -> frozenset[str]:
        """Returns a query's members: as members callbacks were told, or as the service reported if there are none."""
        return self._delivery.queries.members(query)

    def knows_members(self, query: QueryInterest) -> bool:
        """Returns true if these are all members, as of the last update: nothing of the query must still be answered or
        told.
        """
        return query in self._registrations.queries and not self._registrations.is_owed(query)

    def ask_descriptions(self, query: QueryInterest, *, wanted: bool) -> None:
        """Sets whether descriptions of this query's members are told."""
        self._delivery.queries.descriptions.ask(query, wanted=wanted)

    def descriptions(self, query: QueryInterest) -> dict[str, dict[str, Any] | None]:
        """Returns the last descriptions of the members of a query that asks for them; None: the object has none."""
        return {name: parsed_description(said) for name, said in self._delivery.queries.descriptions.get(query).items()}

    def subscribe(self, interest: Interest, subscriber: int) -> None:
        """Callback number `subscriber` is for this object, or for the versions of this query's members."""
        self._delivery.subscribe(interest, subscriber)

    def unsubscribe(self, interest: Interest, subscriber: int) -> None:
        """Removes callback number `subscriber`."""
        self._delivery.unsubscribe(interest, subscriber)

    def subscribe_members(self, query: QueryInterest, subscriber: int) -> None:
        """Adds callback number `subscriber` for objects that enter and leave this query."""
        self._delivery.subscribe_members(query, subscriber)

    def unsubscribe_members(self, query: QueryInterest, subscriber: int) -> None:
        """Removes members callback number `subscriber`."""
        self._delivery.unsubscribe_members(query, subscriber)

    def subscribe_missed(self, channel: ChannelInterest | ShareInterest, subscriber: int) -> None:
        """Adds callback number `subscriber` for missed messages of the channel of this name, or of this share."""
        if isinstance(channel, ShareInterest):
            self._delivery.shares.subscribe_missed(channel, subscriber)
        else:
            self._delivery.channels.subscribe_missed(channel.name, subscriber)

    def unsubscribe_missed(self, channel: ChannelInterest | ShareInterest, subscriber: int) -> None:
        """Removes callback number `subscriber`."""
        if isinstance(channel, ShareInterest):
            self._delivery.shares.unsubscribe_missed(channel, subscriber)
        else:
            self._delivery.channels.unsubscribe_missed(channel.name, subscriber)

    def subscribe_lost(self, share: ShareInterest, subscriber: int) -> None:
        """Adds callback number `subscriber` for leases that are lost."""
        self._delivery.shares.subscribe_lost(share, subscriber)

    def unsubscribe_lost(self, share: ShareInterest, subscriber: int) -> None:
        """Removes callback number `subscriber`."""
        self._delivery.shares.unsubscribe_lost(share, subscriber)
