"""Strangers' connections leave files for those that ask."""

import pytest
from coldnotify_http.open_files import CONNECTIONS_MAX, SILENT_MAX, raised, share_out


@pytest.mark.parametrize("files", [0, 384, 388, 1024, 4096, 20_000, 10**6])
def test_all_together_are_no_more_than_there_are_and_silent_ones_are_few_of_them(files: int) -> None:
    shared = share_out(files, 5000)
    assert 1 <= shared.silent_max <= min(SILENT_MAX, shared.connections_max / 2)
    assert 1 <= shared.passed_on_max <= 5000
    assert shared.connections_max <= CONNECTIONS_MAX
    if files >= 388:
        assert shared.connections_max + shared.passed_on_max <= files - 384
    assert shared.silent_max + shared.passed_on_max <= shared.connections_max


def test_this_process_can_pass_on() -> None:
    assert raised(3).passed_on_max == 3
