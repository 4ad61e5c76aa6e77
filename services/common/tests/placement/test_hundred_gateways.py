"""A model of gateways and their clients, which runs the rules themselves: moving ends, whatever was drawn.

Stands for: fair_shares
"""

from dataclasses import dataclass, field
from random import Random

import pytest
from coldnotify_common.placement.fair_shares import (
    BALANCE_NOT_HERE_S,
    REST_S,
    Balance,
    GatewayShare,
    not_here_s,
    outlook,
)

STEP_S = 30.0


@dataclass(eq=False)
class ModelGateway:
    """A gateway of the model."""

    limit: int
    weight: float = 1.0
    up: bool = True
    balance: Balance = field(default_factory=Balance)
    clients: dict["ModelClient", float] = field(default_factory=dict)
    """Its sessions, and when they began."""
    home: int = 0

    def share(self) -> GatewayShare:
        """Its numbers, as the others know them."""
        return GatewayShare(len(self.clients), self.limit, self.weight, self.home)


@dataclass(eq=False)
class ModelClient:
    """A client of the model."""

    knows: list[ModelGateway]
    home: ModelGateway | None
    at: ModelGateway | None = None
    moves: bool = False
    """It has said so in its Hello."""
    out_until: dict[ModelGateway, float] = field(default_factory=dict)
    sent_s: float = float("-inf")
    home_try_s: float = 0.0
    home_wait_s: float = 30.0


class Model:
    """Gateways and clients, and what has happened to them."""

    def __init__(self, random: Random, gateways: list[ModelGateway], *, balances: bool) -> None:
        self.random, self.gateways, self.balances = random, gateways, balances
        self.now_s = 0.0
        self.clients: list[ModelClient] = []
        self.sent: list[float] = []
        """When a client was sent away."""
        self.refused = 0

    def add(self, client: ModelClient) -> None:
        """Adds a client, and connects it."""
        self.clients.append(client)
        self.connect(client)

    def others(self, one: ModelGateway) -> list[GatewayShare]:
        """The shares of the other gateways."""
        return [other.share() for other in self.gateways if other is not one and other.up]

    def awake(self, client: ModelClient, but: ModelGateway | None = None) -> list[ModelGateway]:
        """The gateways that a client may try."""
        return [one for one in client.knows if one is not but and client.out_until.get(one, 0.0) <= self.now_s]

    def connect(self, client: ModelClient) -> None:
        """The client tries its home first, then the others in an order drawn by weight, and last those left out.

        It says that it moves as long as it has another one to try.
        """
        order = sorted(client.knows, key=lambda one: -(self.random.random() ** (1 / one.weight)))
        if client.home is not None:
            order = [client.home, *(one for one in order if one is not client.home)]
        awake = self.awake(client)
        tries = [one for one in order if one in awake]
        for place, one in enumerate([*tries, *order]):
            if one.up and self.hello(client, one, moves=bool(tries[place + 1 :])):
                return

    def hello(self, client: ModelClient, one: ModelGateway, *, moves: bool) -> bool:
        """Returns true if the gateway takes the client."""
        if len(one.clients) >= one.limit:
            return False
        at_home = one is client.home
        if moves and not at_home:
            known = outlook(one.share(), self.others(one))
            if seconds := not_here_s(one.share(), known, balances=self.balances):
                client.out_until[one] = self.now_s + seconds
                self.refused += 1
                return False
        client.at, client.moves = one, moves
        one.clients[client] = self.now_s
        one.home += at_home
        return True

    def leave(self, client: ModelClient) -> None:
        """Its session ends."""
        assert client.at is not None
        del client.at.clients[client]
        client.at.home -= client.at is client.home
        client.at = None

    def die(self, one: ModelGateway) -> None:
        """A gateway dies. Its clients go elsewhere."""
        one.up = False
        for client in list(one.clients):
            self.leave(client)
            self.connect(client)

    def come_back(self, one: ModelGateway) -> None:
        """It is there again, empty."""
        one.up, one.balance = True, Balance()

    def step(self) -> None:
        """Half a minute passes."""
        self.now_s += STEP_S
        for one in self.gateways:
            if one.up and self.balances:
                self.send_away(one, one.balance.tick(self.now_s, one.share(), outlook(one.share(), self.others(one))))
        for client in self.clients:
            if client.at is None:
                self.connect(client)
            elif client.home is not None and client.at is not client.home and client.home_try_s <= self.now_s:
                self.try_home(client, client.home)

    def send_away(self, one: ModelGateway, count: int) -> None:
        """Balance ends sessions, as a gateway does."""
        old = [
            client
            for client, since_s in one.clients.items()
            if client.moves and one is not client.home and since_s < self.now_s - REST_S
        ]
        for client in old[:count]:
            assert client.sent_s <= self.now_s - REST_S, "nobody is sent twice within half an hour"
            client.sent_s = self.now_s
            client.out_until[one] = self.now_s + BALANCE_NOT_HERE_S
            self.sent.append(self.now_s)
            self.leave(client)
            self.connect(client)

    def try_home(self, client: ModelClient, home: ModelGateway) -> None:
        """Make before break."""
        if home.up and len(home.clients) < home.limit:
            self.leave(client)
            assert self.hello(client, home, moves=True)
            client.home_wait_s = 30.0
        else:
            client.home_wait_s = min(600.0, 2 * client.home_wait_s)
        client.home_try_s = self.now_s + client.home_wait_s

    def run(self, seconds: float) -> None:
        """Time passes."""
        for _ in range(int(seconds / STEP_S)):
            self.step()


@pytest.mark.parametrize("seed", [0])
def test_a_hundred_gateways_with_drawn_limits_homes_and_deaths_come_to_rest(seed: int) -> None:
    random = Random(seed)
    gateways = [ModelGateway(random.randint(20, 120), random.choice((1.0, 1.0, 2.0, 3.0))) for _ in range(100)]
    model = Model(random, gateways, balances=True)
    for _ in range(int(sum(one.limit for one in gateways) * random.uniform(0.3, 0.7))):
        knows = random.sample(gateways, random.choice((1, 2, 3, 10)))
        model.add(ModelClient(knows, random.choice((None, knows[0]))))
    down: list[ModelGateway] = []
    for _ in range(40):
        model.run(random.choice((60, 120, 240)))
        if down and random.random() < 0.5:
            model.come_back(down.pop(random.randrange(len(down))))
        else:
            down.append(random.choice([one for one in gateways if one.up]))
            model.die(down[-1])
    for one in down:
        model.come_back(one)
    model.run(2 * 3600)
    assert model.sent, "there was something to balance"
    sent, refused = len(model.sent), model.refused
    model.run(1800)
    assert (len(model.sent), model.refused) == (sent, refused), "it has come to rest"
    homeless = [client for client in model.clients if client.at is None]
    assert all(len(one.clients) == one.limit for client in homeless for one in client.knows)


def restarted(*, balances: bool) -> list[list[int]]:
    """Lets one of three gateways be away for a minute. Returns the shares before, and each minute after its return."""
    gateways = [ModelGateway(19_000) for _ in range(3)]
    model = Model(Random(1), gateways, balances=balances)
    for _ in range(3000):
        model.add(ModelClient(list(gateways), None))
    model.run(3600)
    shares = [[len(one.clients) for one in gateways]]
    model.die(gateways[0])
    model.run(60)
    model.come_back(gateways[0])
    for _ in range(11):
        shares.append([len(one.clients) for one in gateways])
        model.run(60)
    return shares


def test_after_a_restart_balance_makes_three_gateways_equal_within_ten_minutes() -> None:
    shares = restarted(balances=True)
    assert max(shares[-1]) <= 1.1 * min(shares[-1])
    without = restarted(balances=False)
    assert without[-1][0] == 0, "nobody goes back by himself"
