"""A thread that works until it is stopped."""

import threading

from coldnotify_common.own_thread import OwnThread

WAIT_S = 60.0


class Waiting(OwnThread):
    """Works until it is told to stop."""

    def __init__(self, *, deaf: bool = False) -> None:
        super().__init__("waiting", join_s=0.01 if deaf else WAIT_S)
        self.released = threading.Event()
        self.ended = threading.Event()
        if not deaf:
            self.released.set()

    def _run(self) -> None:
        self._stop.wait(WAIT_S)
        self.released.wait(WAIT_S)
        self.ended.set()


def test_it_is_stopped_at_the_end_of_with() -> None:
    with Waiting() as work:
        assert not work.ended.is_set()
    assert work.ended.is_set()


def test_it_may_be_stopped_before_it_is_started() -> None:
    Waiting().stop()


def test_the_wait_for_its_end_is_bounded() -> None:
    work = Waiting(deaf=True)
    work.start()
    work.stop()
    assert not work.ended.is_set()
    work.released.set()
    assert work.ended.wait(WAIT_S)
