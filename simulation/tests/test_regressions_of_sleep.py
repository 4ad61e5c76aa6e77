"""What units do that slept in RAM, scripted: a connection that dies between its beginning and its Hello.

Stands for: sleeping, doubts
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from coldnotify._core.client import Client as Core
from coldnotify._core.session.standstill import LOOK_S
from coldnotify_simulation.client import SETTINGS
from coldnotify_simulation.scripted import check, connected, link_of, must


def a_unit_sleeps_while_its_hello_waits_for_the_disk() -> None:
    world = connected("a")
    (client,) = world.clients
    link_of(client).cut("a network that changes")
    world.clock.run_until(lambda: client.link is None)
    attempts = client.attempts
    world.clock.run_until(lambda: client.attempts > attempts)
    world.register(client, "b")
    world.clock.run_until(lambda: client.link is not None)
    link = link_of(client)
    client.stop()
    link.cut("died while its client slept", client_notices_s=float("inf"))
    world.run(12.0)
    client.go_on()
    must(not client.caught_up, "its application asks before the disk has answered")
    world.run(SETTINGS.silence_grace_s + LOOK_S + 1.0)
    must(client.link is not link, "P2: it keeps a connection that died while it slept")
    world.settle([client])


@contextmanager
def what_has_no_session_is_in_no_doubt() -> Iterator[None]:
    doubt = Core.doubt

    def without(self: Core, now: float, stood_still_s: float) -> None:
        doubt(self, now, stood_still_s)
        self._doubted = False

    with patch.object(Core, "doubt", without):
        yield


def test_a_connection_that_died_before_its_hello_is_given_up_within_the_grace() -> None:
    check(a_unit_sleeps_while_its_hello_waits_for_the_disk, what_has_no_session_is_in_no_doubt)
