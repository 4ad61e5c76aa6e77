"""When and where to connect again."""

from random import Random

from coldnotify._core.session.reconnect import Address, Backoff
from coldnotify._core.settings import ClientSettings
from coldnotify_schemas.close_codes import CloseCode

SETTINGS = ClientSettings()


class AlwaysMost(Random):
    def uniform(self, a: float, b: float) -> float:
        return b


class AlwaysLeast(Random):
    def uniform(self, a: float, b: float) -> float:
        return a


def test_it_doubles_from_a_second_to_five_minutes():
    backoff = Backoff(SETTINGS, AlwaysMost())
    assert [backoff.delay_s(None) for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_the_jitter_is_full():
    backoff = Backoff(SETTINGS, AlwaysLeast())
    assert [backoff.delay_s(None) for _ in range(3)] == [0, 0, 0]


def test_it_starts_over_once_caught_up():
    backoff = Backoff(SETTINGS, AlwaysMost())
    for _ in range(5):
        backoff.delay_s(None)
    backoff.begin_anew()
    assert backoff.delay_s(None) == 1


def test_displaced_doubles_also_when_it_caught_up_in_between():
    backoff = Backoff(SETTINGS, AlwaysLeast())
    delays = []
    for _ in range(8):
        delays.append(backoff.delay_s(CloseCode.DISPLACED))
        backoff.begin_anew()
    assert delays == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    backoff.undisturbed()
    assert backoff.delay_s(CloseCode.DISPLACED) == 60


def test_unknown_session_comes_back_at_once_but_not_for_ever():
    backoff = Backoff(ClientSettings(backoff_min_s=50), AlwaysMost())
    assert backoff.delay_s(CloseCode.UNKNOWN_SESSION) == 1
    assert backoff.delay_s(CloseCode.UNKNOWN_SESSION) == 100


def test_addresses_as_text():
    assert str(Address("::1", 5)) == "[::1]:5"
    assert str(Address("h", 5)) == "h:5"
