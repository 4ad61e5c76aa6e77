"""Who is let in where flow control has no permit left: those who have few under way, and not who has them all."""

from aiohttp import web
from coldnotify.publisher import Published
from coldnotify_common.security.shared import Who
from coldnotify_http.entrance import BEYOND_MAX, Entered, Entrance
from coldnotify_http.metrics import Metrics
from coldnotify_http.settings import HttpSettings
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX
from prometheus_client import CollectorRegistry

LIMIT, FEW = 200, 20
DONE = Published(1, 0, 0)


class Node:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.entrance = Entrance(HttpSettings(), Metrics(self.registry))

    def enter(self, who: Who, publishes: int = 1) -> Entered | None:
        entered = self.entrance.enter(who, "d", "g", publishes, 0)
        return None if isinstance(entered, web.Response) else entered

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"coldnotify_http_{name}")


def test_a_lone_publisher_has_all_permits_and_not_one_more() -> None:
    node = Node()
    assert all(node.enter("one") for _ in range(LIMIT))
    assert node.enter("one") is None
    assert (node.metric("publishes_under_way"), node.metric("flow_refused_total")) == (LIMIT, 1)


def test_a_publisher_with_few_permits_enters_beside_one_with_all() -> None:
    node = Node()
    all_ = [node.enter("one") for _ in range(LIMIT)]
    few = [node.enter("other") for _ in range(FEW)]
    assert all(few)
    assert node.enter("other") is None
    assert node.metric("publishes_under_way") == LIMIT, "what is beyond is not measured"
    for entered in [*few, *all_]:
        assert entered is not None
        node.entrance.leave(entered, [DONE])
    assert node.metric("publishes_under_way") == 0
    assert node.entrance._held == {}
    assert node.entrance._beyond.taken == 0


def test_the_first_request_of_who_has_nothing_may_be_long_and_what_is_beyond_has_a_bound() -> None:
    node = Node()
    assert node.enter("one", PUBLISHES_PER_REQUEST_MAX)
    long = [node.enter(who, PUBLISHES_PER_REQUEST_MAX) for who in ("a", "b", "c")]
    assert [one is not None for one in long] == [True, True, False]
    assert node.enter("a") is None
    assert BEYOND_MAX == 2 * PUBLISHES_PER_REQUEST_MAX
    assert node.enter(None) is None, "who cannot be told from others has no share"


def test_one_at_a_time_takes_one_permit_at_a_time() -> None:
    node = Node()
    first = node.entrance.enter("one", "d", "g", PUBLISHES_PER_REQUEST_MAX, 0, at_a_time=1)
    assert isinstance(first, Entered)
    for _ in range(3):
        assert node.metric("publishes_under_way") == 1
        node.entrance.leave(first, [DONE])
        following = node.entrance.next(first)
        assert following is not None
        first = following
