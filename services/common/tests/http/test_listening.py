"""A port that listens at once, and how long a process that begins lets it wait."""

import pytest
from coldnotify_common.http.listening import ListenError, first_rush, listening

HOST = "127.0.0.1"


def test_a_port_that_cannot_be_had_is_an_error_that_names_setting_and_address() -> None:
    with listening(HOST, 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ListenError, match=f"^LAMP: cannot listen on {HOST}:{port}: Address already in use$"):
            listening(HOST, port, setting="LAMP")
    with pytest.raises(ListenError, match=r"^cannot listen on no\.such\.host\.invalid:1: "):
        listening("no.such.host.invalid", 1)


def test_the_first_rush_lasts_until_all_is_ready_or_its_time_is_over() -> None:
    reasons = iter(["starting", "loading", None])
    assert len(list(first_rush(lambda: next(reasons), 60))) == 2
    assert list(first_rush(lambda: "starting", 0)) == []
    assert all(wait_s > 0 for wait_s in first_rush(lambda: "starting", 0.05)), "and it ends"
