"""The matcher's settings: defaults that work, and errors that name the setting."""

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.settings import load
from coldnotify_matcher.engine import Bounds
from coldnotify_matcher.settings import MatcherSettings


def test_defaults() -> None:
    settings = load(MatcherSettings, {})

    assert (settings.matcher_host, settings.matcher_port) == ("127.0.0.1", 51001)
    assert settings.registrations_max == 10_000
    assert settings.rules().forgotten_after_ms == 180 * 86_400_000


def test_no_client_is_ever_forgotten_if_the_setting_says_0() -> None:
    settings = load(MatcherSettings, {"COLDNOTIFY_MATCHER_CLIENT_FORGOTTEN_AFTER_S": "0"})

    assert settings.rules().forgotten_after_ms == 0


def test_bounds_of_intervals_that_tune_themselves() -> None:
    given = {"COLDNOTIFY_MATCHER_CONFLATION": "a.b=auto", "COLDNOTIFY_MATCHER_CONFLATION_AUTO_MIN_MS": "50"}

    conflation = load(MatcherSettings, given).rules().conflation

    assert (conflation.auto, conflation.bounds) == (frozenset({"a.b"}), Bounds(50, 1000))


def test_objects_are_kept_unless_they_were_deleted_longer_ago_than_clients_are_remembered() -> None:
    retention = load(MatcherSettings, {}).rules().retention
    assert retention.of("any", deleted=False) == 0
    assert retention.of("any", deleted=True) == 180 * 86_400_000 + 3_600_000

    given = {"COLDNOTIFY_MATCHER_CLIENT_FORGOTTEN_AFTER_S": "0", "COLDNOTIFY_MATCHER_RETENTION": "a.b=30d,*=never"}
    retention = load(MatcherSettings, given).rules().retention
    assert [retention.of(domain, deleted=True) for domain in ("a.b", "any")] == [30 * 86_400_000, 0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COLDNOTIFY_MATCHER_PORT", "65536"),
        ("COLDNOTIFY_MATCHER_PORT", "x"),
        ("COLDNOTIFY_MATCHER_SESSION_TIMEOUT_MS", "999"),
        ("COLDNOTIFY_EPOCH_COUNTER", "-1"),
        ("COLDNOTIFY_MATCHER_CLIENT_FORGOTTEN_AFTER_S", "59"),
        ("COLDNOTIFY_MATCHER_CLIENT_FORGOTTEN_AFTER_S", "-1"),
        ("COLDNOTIFY_MATCHER_CONFLATION", "*=soon"),
        ("COLDNOTIFY_MATCHER_RETENTION", "*=30"),
        ("COLDNOTIFY_MATCHER_RETENTION", "animal.observer=9s"),
        ("COLDNOTIFY_MATCHER_CONFLATION_AUTO_MIN_MS", "1001"),
        ("COLDNOTIFY_MATCHER_CONFLATION_AUTO_MIN_MS", "-1"),
        ("COLDNOTIFY_MATCHER_CONFLATION_AUTO_MAX_MS", "0"),
        ("COLDNOTIFY_MATCHER_CONFLATION_AUTO_MAX_MS", "60001"),
        ("COLDNOTIFY_REGISTRATIONS_MAX", "0"),
        ("COLDNOTIFY_REGISTRATIONS_MAX", "10001"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        load(MatcherSettings, {name: value})
