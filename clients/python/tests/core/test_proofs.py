"""When a client may say that it knows everything: by answers alone, and by when it asked for them."""

from itertools import pairwise

from coldnotify.errors import ServiceFresh, ServiceStale
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.protocol import AGE_UNKNOWN_S, AGE_UNSAID_S, FRESH_EXTRA_S, FRESH_FACTOR, KEEPALIVE_S
from coldnotify_testkit.client_bench import ClientBench

STALE_S = FRESH_FACTOR * KEEPALIVE_S + FRESH_EXTRA_S


def connected(*, age_s: int = 0) -> ClientBench:
    """A client that has caught up, 3 s after its Hello."""
    bench = ClientBench()
    bench.client.application.subscribe("a", 1)
    bench.client.application.register("a")
    bench.save()
    bench.connect()
    bench.now += 3
    bench.say(welcome=wire.Welcome(in_sync=True, epoch=1))
    bench.say(notification=wire.Notification(name="a", version=1, answer=True))
    bench.say(caught_up=wire.CaughtUp(complete=10, age_s=age_s))
    return bench


def as_of(bench: ClientBench) -> float | None:
    return bench.client.status(bench.now).fresh_as_of


def ping_after(bench: ClientBench, seconds: float) -> float:
    """Returns when the client sent its next Ping; time passes."""
    at = bench.client.deadline()
    while True:
        bench.now = max(bench.now, at)
        bench.client.tick(bench.now)
        if any(frame.HasField("ping") for frame in bench.out()):
            sent = bench.now
            bench.now += seconds
            return sent
        bench.save()
        at = max(bench.client.deadline(), bench.now + 0.01)


def test_nothing_is_known_after_a_start() -> None:
    assert as_of(ClientBench()) is None


def test_caught_up_proves_the_time_of_the_hello_less_the_age_once_all_is_told() -> None:
    bench = connected()
    hello_at = bench.now - 3
    bench.tell()
    assert as_of(bench) == hello_at - AGE_UNSAID_S
    assert as_of(connected(age_s=40)) == hello_at - 40


def test_a_pong_proves_the_time_of_its_ping_and_not_of_its_arrival() -> None:
    bench = connected()
    bench.tell()
    sent = ping_after(bench, 25)
    bench.say(pong=wire.Pong(complete=10))
    assert as_of(bench) == sent - AGE_UNSAID_S


def test_an_age_that_is_not_known_proves_nothing() -> None:
    bench = connected()
    bench.tell()
    before = as_of(bench)
    ping_after(bench, 1)
    bench.say(pong=wire.Pong(complete=10, age_s=AGE_UNKNOWN_S))
    assert as_of(bench) == before


def test_a_version_that_is_not_told_yet_holds_the_proof_back() -> None:
    bench = connected()
    bench.tell()
    before = as_of(bench)
    sent = ping_after(bench, 1)
    bench.say(notification=wire.Notification(name="a", version=2, offset=11))
    bench.say(pong=wire.Pong(complete=11))
    assert as_of(bench) == before
    bench.tell()
    assert as_of(bench) == sent - AGE_UNSAID_S


def test_a_notification_proves_nothing() -> None:
    bench = connected()
    bench.tell()
    before = as_of(bench)
    bench.now += 100
    bench.say(notification=wire.Notification(name="a", version=2, offset=11))
    bench.tell()
    assert as_of(bench) == before


def test_a_client_that_is_not_fresh_is_not_caught_up_and_says_so_once() -> None:
    bench = connected()
    bench.tell()
    assert bench.client.caught_up(bench.now)
    assert bench.client.take_reports() == []
    bench.now += STALE_S
    bench.client.tick(bench.now)
    bench.client.tick(bench.now + 50)
    assert not bench.client.caught_up(bench.now)
    assert [type(one) for one in bench.client.take_reports()] == [ServiceStale]
    pings = sum(frame.HasField("ping") for frame in bench.out())
    assert pings == 1, "it asks"
    bench.say(pong=wire.Pong(complete=10))
    bench.client.tick(bench.now)
    assert bench.client.caught_up(bench.now)
    assert [type(one) for one in bench.client.take_reports()] == [ServiceFresh]


def test_a_busy_client_asks_all_the_same_once_a_keepalive() -> None:
    bench = connected()
    bench.tell()
    pings = []
    for second in range(200):
        bench.now += 1
        bench.say(notification=wire.Notification(name="a", version=2 + second, offset=11 + second))
        bench.tell()
        bench.save()
        bench.client.tick(bench.now)
        if any(frame.HasField("ping") for frame in bench.out()):
            pings.append(bench.now)
            bench.say(pong=wire.Pong(complete=11 + second))
    assert len(pings) in (2, 3)
    assert min(b - a for a, b in pairwise(pings)) >= KEEPALIVE_S


def test_a_client_without_channels_says_the_time_of_its_objects() -> None:
    bench = connected()
    bench.tell()
    status = bench.client.status(bench.now)
    assert dict(status.streams) == {"objects": status.fresh_as_of}
