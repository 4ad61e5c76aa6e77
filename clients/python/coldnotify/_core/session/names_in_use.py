"""The names that a session has used: notifications carry a name's CRC-32, until two names would share one."""

from collections.abc import Collection

from coldnotify_schemas.digest import object_crc


class NamesInUse:
    """The names of CRCs in this session."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self.are_said = False
        """The gateway was asked for names: no CRC comes any more."""

    def say_all(self) -> None:
        """The gateway is asked for names."""
        self.are_said = True

    def use(self, names: Collection[str]) -> bool:
        """These names are going to be used. False where two names of the session would share a CRC: ask for names
        first."""
        if self.are_said:
            return True
        fresh: dict[int, str] = {}
        for name in names:
            crc = object_crc(name)
            if self._names.get(crc, name) != name or fresh.setdefault(crc, name) != name:
                return False
        self._names |= fresh
        return True

    def name_of(self, crc: int) -> str | None:
        """None: nobody has used such a name."""
        return self._names.get(crc)
