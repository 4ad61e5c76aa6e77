"""The application's requests while there is no driver: applied to the document once it is read."""

from coldnotify._core.application import Application
from coldnotify._core.interests.interests import ChannelInterest, Interest, QueryInterest, ShareInterest
from coldnotify._core.interests.since import Since
from coldnotify._core.shares.share_member import KeptShare, check_room


class Wishes:
    """The calls that matter still, in an order that leads to the same."""

    def __init__(self) -> None:
        self.only: set[str] | None = None
        self.steps: dict[Interest, tuple[bool, ...]] = {}
        """By interest: unregister (False), register (True), or both in this order."""
        self.descriptions: dict[QueryInterest, bool] = {}
        """By registered query: true if descriptions are requested."""
        self.channels: dict[str, tuple[bool, list[tuple[ChannelInterest, Since]]]] = {}
        """By name: true if it is unregistered first, and the registrations after that."""

        self.shares: dict[tuple[str, str], tuple[bool, tuple[ShareInterest, KeptShare] | None]] = {}
        """By channel and name: true if it is unregistered first, and the registration after that."""

    def register(self, interest: Interest) -> None:
        """Want this."""
        self.steps[interest] = (False, True) if False in self.steps.get(interest, ()) else (True,)

    def unregister(self, interest: Interest) -> None:
        """Want this no more."""
        self.steps[interest] = (False,)

    def ask_descriptions(self, query: QueryInterest, *, wanted: bool) -> None:
        """Sets whether descriptions of this query's members are told."""
        self.descriptions[query] = wanted

    def register_channel(self, channel: ChannelInterest, since: Since) -> None:
        """Want this channel's messages."""
        ends, wanted = self.channels.get(channel.name, (False, []))
        # Of those of one name, the first says where it begins, the last which attributes it has.
        self.channels[channel.name] = ends, [*wanted[:1], (channel, since)]

    def unregister_channel(self, name: str) -> None:
        """Want it no more."""
        self.channels[name] = True, []

    def register_share(self, share: ShareInterest, kept: KeptShare) -> None:
        """Be a member of this share. Raises ValueError if the client's shares have no room."""
        place = share.channel, share.share
        others = [wish for key, (_, wish) in self.shares.items() if wish is not None and key != place]
        check_room({**dict(others), share: kept})
        ends, _ = self.shares.get(place, (False, None))
        self.shares[place] = ends, (share, kept)

    def unregister_share(self, channel: str, share: str) -> None:
        """Be a member no more."""
        self.shares[channel, share] = True, None

    def register_only(self, names: set[str]) -> None:
        """Registers for exactly these objects, by name: earlier requests for others are dropped."""
        self.only = names
        self.steps = {
            interest: steps
            for interest, steps in self.steps.items()
            if not isinstance(interest, str) or (interest in names and True in steps)
        }

    def apply(self, application: Application) -> None:
        """Ask all of it."""
        if self.only is not None:
            application.register_only(self.only)
        for interest, steps in self.steps.items():
            for wanted in steps:
                (application.register if wanted else application.unregister)(interest)
        for query, asked in self.descriptions.items():
            application.ask_descriptions(query, wanted=asked)
        for name, (ends, wanted_channels) in self.channels.items():
            if ends:
                application.unregister_channel(name)
            for channel, since in wanted_channels:
                application.register_channel(channel, since)
        for (name, share), (ends, wish) in self.shares.items():
            if ends:
                application.unregister_share(name, share)
            if wish is not None:
                application.register_share(*wish)
