"""Settings: their declaration and reading, and those that several services share."""

from coldnotify_common.settings.declaring import (
    PREFIX,
    ServiceSettings,
    SettingError,
    SettingInfo,
    Settings,
    TopicsPrefixSettings,
    describe,
    environment,
    flags_of,
    load,
    markdown_table,
    networks_of,
    put_environment,
    setting,
    settings_options,
    unknown_variables,
)

__all__ = [
    "PREFIX",
    "ServiceSettings",
    "SettingError",
    "SettingInfo",
    "Settings",
    "TopicsPrefixSettings",
    "describe",
    "environment",
    "flags_of",
    "load",
    "markdown_table",
    "networks_of",
    "put_environment",
    "setting",
    "settings_options",
    "unknown_variables",
]
