"""docs/settings.md, made from every setting that there is.

python -m coldnotify_tools.settings_doc > docs/settings.md
"""

from coldnotify_cli.every_setting import OTHER_VARIABLES, SECTIONS
from coldnotify_common.settings import ServiceSettings, describe, markdown_table

_HEAD = """# Settings

<!-- Generated: python -m coldnotify_tools.settings_doc > docs/settings.md -->

Every setting is a command line flag and an environment variable of the same name. The flag takes precedence. An invalid
value ends the command with exit code 2 and an error that names the setting. A service warns of variables that begin
with `COLDNOTIFY_` but name no setting. A setting that several commands have alike is described once.
"""


def generate() -> str:
    """The text of docs/settings.md."""
    parts = [_HEAD, "## Every service\n", markdown_table(describe(ServiceSettings))]
    common = {info.name for info in describe(ServiceSettings)}
    shown = dict.fromkeys(describe(ServiceSettings), "Every service")
    for section in SECTIONS:
        classes = section.load()
        infos = [info for cls in classes for info in describe(cls)]
        parts.append(f"## {section.title}\n")
        if issubclass(classes[0], ServiceSettings):
            parts.append("In addition to the settings of every service.\n")
            infos = [info for info in infos if info.name not in common]
        new = [info for info in dict.fromkeys(infos) if info not in shown]
        if new:
            parts.append(markdown_table(new))
        for title in dict.fromkeys(shown[info] for info in infos if info in shown):
            flags = ", ".join(f"`{info.flag}`" for info in infos if shown.get(info) == title)
            parts.append(f"As in [{title}](#{_anchor(title)}): {flags}.\n")
        shown.update(dict.fromkeys(new, section.title))
    parts.append("## Variables without a flag\n")
    rows = [f"| `{name}` | {meaning} |\n" for name, meaning in OTHER_VARIABLES.items()]
    parts.append("| environment | meaning |\n|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def _anchor(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-")


if __name__ == "__main__":
    print(generate(), end="")
