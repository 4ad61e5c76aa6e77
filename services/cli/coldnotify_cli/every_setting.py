"""Every setting: the settings classes of each command."""

from collections.abc import Mapping
from typing import NamedTuple

from coldnotify_common.imported import settings_classes
from coldnotify_common.settings import PREFIX, Settings, describe, unknown_variables
from coldnotify_parts.registry import PARTS

from coldnotify_cli import settings


class SettingsSection(NamedTuple):
    """The settings of one command; the classes are imported only when asked for."""

    title: str
    names: tuple[str, ...]

    def load(self) -> tuple[type[Settings], ...]:
        """The settings classes, the command's own first."""
        return settings_classes(self.names)

    @property
    def is_light(self) -> bool:
        """True if no service's code is imported with them."""
        return all(name.startswith(f"{settings.__name__}:") for name in self.names)


SECTIONS = (
    SettingsSection("coldnotify up", ("coldnotify_cli.settings:UpSettings", "coldnotify_cli.up_ports:PORTS")),
    SettingsSection("coldnotify broker", ("coldnotify_cli.settings:BrokerSettings",)),
    SettingsSection("coldnotify topics", ("coldnotify_cli.settings:DumpSettings",)),
    SettingsSection("coldnotify topics acls", ("coldnotify_cli.settings:AclsSettings",)),
    *(SettingsSection(f"coldnotify {row.name}", row.settings) for row in PARTS),
    SettingsSection("coldnotify auto", ("coldnotify_auto.settings:AutoSettings",)),
    SettingsSection("coldnotify publish", ("coldnotify_cli.settings:PublishCommandSettings",)),
    SettingsSection("coldnotify send", ("coldnotify_cli.settings:SendSettings",)),
    SettingsSection("coldnotify watch and link", ("coldnotify_cli.settings:WatchSettings",)),
    SettingsSection("coldnotify state", ("coldnotify_cli.settings:LookSettings",)),
    SettingsSection("coldnotify who-lacks", ("coldnotify_cli.settings:HttpNodeSettings",)),
    SettingsSection("coldnotify doctor", ("coldnotify_cli.settings:DoctorSettings",)),
    SettingsSection("coldnotify tenant set, list, show, remove", ("coldnotify_cli.settings:TenantSettings",)),
    SettingsSection("coldnotify tenant usage", ("coldnotify_cli.settings:HttpNodeSettings",)),
    SettingsSection("coldnotify object reset", ("coldnotify_cli.settings:ResetSettings",)),
)

OTHER_VARIABLES = {
    "COLDNOTIFY_CONTEXT": "as `coldnotify --context NAME`",
    "COLDNOTIFY_CACHE": "directory of Kafka's jars and their archive; default: `coldnotify` in the user's cache",
    "COLDNOTIFY_JAVA": "the `java` (17 or later) that runs the embedded Kafka; default: the one installed with it",
    "COLDNOTIFY_MAVEN_URL": "a mirror to fetch Kafka's jars from; default: Maven's central repository",
}
"""Variables that have no flag."""


def all_settings() -> list[type[Settings]]:
    """Every settings class."""
    return [one for section in SECTIONS for one in section.load()]


def warnings_of(environ: Mapping[str, str]) -> list[str]:
    """Returns a warning for each variable that looks like a setting and is not: most are misspelt.

    Services' settings come with their code, which takes longer than most commands: they are imported only for
    variables that no command knows.
    """
    unknown = {name for name in environ if name.startswith(PREFIX)} - OTHER_VARIABLES.keys()
    for section in sorted(SECTIONS, key=lambda section: not section.is_light):
        if not unknown:
            return []
        unknown -= {info.variable for one in section.load() for info in describe(one)}
    return unknown_variables(environ, all_settings(), OTHER_VARIABLES) if unknown else []
