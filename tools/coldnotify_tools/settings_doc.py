"""docs/settings.md, made from every setting that there is.

python -m coldnotify_tools.settings_doc > docs/settings.md
"""

from coldnotify_cli.every_setting import OTHER_VARIABLES, SECTIONS
from coldnotify_common.settings import ServiceSettings, describe, markdown_table

_HEAD = """# Settings

<!-- Generated: python -m coldnotify_tools.settings_doc > docs/settings.md -->

Every setting is a command line flag and an environment variable of the same name. The flag takes precedence. An invalid
value ends the command with exit code 2 and an error that names the setting. A service warns of variables that begin
with `COLDNOTIFY_` but name no setting.
"""


def generate() -> str:
    """The text of docs/settings.md."""
    parts = [_HEAD, "## Every service\n", markdown_table(describe(ServiceSettings))]
    common = {info.name for info in describe(ServiceSettings)}
    for section in SECTIONS:
        classes = section.load()
        infos = [info for cls in classes for info in describe(cls)]
        parts.append(f"## {section.title}\n")
        if issubclass(classes[0], ServiceSettings):
            parts.append("In addition to the settings of every service.\n")
            infos = [info for info in infos if info.name not in common]
        parts.append(markdown_table(infos))
    parts.append("## Variables without a flag\n")
    rows = [f"| `{name}` | {meaning} |\n" for name, meaning in OTHER_VARIABLES.items()]
    parts.append("| environment | meaning |\n|---|---|\n" + "".join(rows))
    return "\n".join(parts)


if __name__ == "__main__":
    print(generate(), end="")
