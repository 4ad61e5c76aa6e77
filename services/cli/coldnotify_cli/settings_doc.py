"""Every setting there is: the list of settings classes, and docs/settings.md made from it.

python -m coldnotify_cli.settings_doc > docs/settings.md
"""

import importlib
from collections.abc import Mapping
from typing import NamedTuple

from coldnotify_common.settings import ServiceSettings, Settings, describe, markdown_table, unknown_variables
from coldnotify_streams.jobs.registry import JOBS


class Section(NamedTuple):
    """The settings of one command; the class is imported only when asked for."""

    title: str
    module: str
    class_name: str

    def load(self) -> type[Settings]:
        """The settings class."""
        cls: type[Settings] = getattr(importlib.import_module(self.module), self.class_name)
        assert issubclass(cls, Settings)
        return cls


SECTIONS = (
    Section("coldnotify up", "coldnotify_cli.up_settings", "EveryUpSetting"),
    Section("coldnotify broker", "coldnotify_cli.settings", "BrokerSettings"),
    Section("coldnotify topics", "coldnotify_cli.settings", "TopicsSettings"),
    Section("coldnotify topics acls", "coldnotify_cli.settings", "AclsSettings"),
    Section("coldnotify matcher", "coldnotify_matcher.settings", "MatcherSettings"),
    Section("coldnotify gateway", "coldnotify_gateway.every_setting", "EveryGatewaySetting"),
    Section("coldnotify http", "coldnotify_http.settings", "HttpSettings"),
    Section("coldnotify usage", "coldnotify_usage.settings", "UsageSettings"),
    *(Section(f"coldnotify job {row.name}", row.settings.__module__, row.settings.__name__) for row in JOBS),
    Section("coldnotify publish", "coldnotify_cli.settings", "PublishCommandSettings"),
    Section("coldnotify send", "coldnotify_cli.settings", "SendSettings"),
    Section("coldnotify watch", "coldnotify_cli.settings", "WatchSettings"),
    Section("coldnotify state", "coldnotify_cli.settings", "LookSettings"),
    Section("coldnotify who-lacks", "coldnotify_cli.settings", "HttpNodeSettings"),
    Section("coldnotify doctor", "coldnotify_cli.settings", "DoctorSettings"),
    Section("coldnotify tenant set, list, show, remove", "coldnotify_cli.settings", "TenantSettings"),
    Section("coldnotify tenant usage", "coldnotify_cli.settings", "HttpNodeSettings"),
    Section("coldnotify object reset", "coldnotify_cli.settings", "ResetSettings"),
)

OTHER_VARIABLES = {
    "COLDNOTIFY_CACHE": "directory of Kafka's jars and their archive; default: `coldnotify` in the user's cache",
    "COLDNOTIFY_JAVA": "the `java` (17 or later) that runs the embedded Kafka; default: the one installed with it",
    "COLDNOTIFY_MAVEN_URL": "a mirror to fetch Kafka's jars from; default: Maven's central repository",
}
"""Variables that have no flag."""

_HEAD = """# Settings

<!-- Generated: python -m coldnotify_cli.settings_doc > docs/settings.md -->

Every setting is a command line flag and an environment variable of the same name. The flag takes precedence. An invalid
value ends the command with exit code 2 and an error that names the setting. A service warns of variables that begin
with `COLDNOTIFY_` but name no setting.
"""


def all_settings() -> list[type[Settings]]:
    """Every settings class."""
    return [section.load() for section in SECTIONS]


def warnings_of(environ: Mapping[str, str]) -> list[str]:
    """One for each variable that looks like a setting and is none: misspelt ones, mostly."""
    return unknown_variables(environ, all_settings(), OTHER_VARIABLES)


def generate() -> str:
    """The text of docs/settings.md."""
    parts = [_HEAD, "## Every service\n", markdown_table(describe(ServiceSettings))]
    common = {info.name for info in describe(ServiceSettings)}
    for section in SECTIONS:
        cls = section.load()
        infos = describe(cls)
        parts.append(f"## {section.title}\n")
        if issubclass(cls, ServiceSettings):
            parts.append("In addition to the settings of every service.\n")
            infos = tuple(info for info in infos if info.name not in common)
        parts.append(markdown_table(infos))
    parts.append("## Variables without a flag\n")
    rows = [f"| `{name}` | {meaning} |\n" for name, meaning in OTHER_VARIABLES.items()]
    parts.append("| environment | meaning |\n|---|---|\n" + "".join(rows))
    return "\n".join(parts)


if __name__ == "__main__":
    print(generate(), end="")
