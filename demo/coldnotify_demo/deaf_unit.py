"""A configuration_unit whose application ignores what it is told. See faults."""

from coldnotify_demo import configuration_unit


class _Deaf(configuration_unit.ConfigurationFiles):
    def update(self, notification: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    configuration_unit.ConfigurationFiles = _Deaf  # type: ignore[misc]
    configuration_unit.main()
