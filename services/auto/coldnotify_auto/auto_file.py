"""The file of `coldnotify auto`: sources by name, each of a kind."""

from pathlib import Path

from coldnotify_schemas.names import InvalidName, check_name

from coldnotify_auto.source import Source
from coldnotify_auto.sources.source_kinds import read_source
from coldnotify_auto.yaml_sections import AutoFileError, read_yaml

SOURCES_MAX = 64
"""Each source has a thread, and up to 1,000 records that are not acknowledged."""
NAME_CHARS_MAX = 32


def read_auto_file(file: Path) -> list[Source]:
    """Returns the file's sources. Raises AutoFileError: `file:line: key: what was expected`."""
    top = read_yaml(file)
    sources = []
    for name, section in top.named("sources", "sources by name"):
        try:
            check_name("name", name)
        except InvalidName as error:
            raise AutoFileError(f"{section.file}:{section.line}: {section.path}: {error}") from None
        if len(name) > NAME_CHARS_MAX:
            raise AutoFileError(
                f"{section.file}:{section.line}: {section.path}: the name has more than {NAME_CHARS_MAX} characters"
            )
        sources.append(read_source(name, section))
    top.end()
    if len(sources) > SOURCES_MAX:
        raise top.fault("sources", f"expected at most {SOURCES_MAX}, found {len(sources)}")
    return sources
