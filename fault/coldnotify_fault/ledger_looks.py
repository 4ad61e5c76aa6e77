"""Asks the service's ledger, again and again, which clients lack an object's newest version, and
records the answers.
"""

import json
import random
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from coldnotify_checker.histories import now_us

from coldnotify_fault.history import HistoryFile

_EVERY_S = 0.5
_TIMEOUT_S = 10.0
_JOIN_S = 15.0
_ITEMS_MAX = 1000


class LedgerLooker:
    """A thread that looks, until it is stopped."""

    def __init__(self, http_url: str, objects: Sequence[str], history: HistoryFile, seed: int) -> None:
        """`objects`: domain/group/object of those that are asked about."""
        self._http_url = http_url
        self._objects = list(objects)
        self._history = history
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-looks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Looks no more."""
        self._stopping.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            object_ = self._random.choice(self._objects)
            asked = now_us()
            said = self._ask(object_)
            # One page holds all clients of a campaign; an answer about half of them is none.
            if said is None or said["wanted_version"] is None or said["next"] is not None or said["told_at_least"]:
                continue
            domain, group, _ = object_.split("/", 2)
            self._history.write(
                "ledger",
                asked=asked,
                object=object_,
                version=said["wanted_version"],
                incarnation=said["incarnation"],
                lacking=[f"{domain}/{group}/{one['client']}" for one in said["items"]],
            )

    def _ask(self, object_: str) -> dict[str, Any] | None:
        domain, group, name = object_.split("/", 2)
        path = f"/v1/domains/{domain}/groups/{group}/objects/{quote(name, safe='')}/lacking?limit={_ITEMS_MAX}"
        try:
            with urlopen(self._http_url + path, timeout=_TIMEOUT_S) as response:
                if response.status != HTTPStatus.OK:
                    return None
                said = json.load(response)
        except (OSError, HTTPException, ValueError):
            return None  # the service, or the matcher behind it, is away
        return said if isinstance(said, dict) else None
