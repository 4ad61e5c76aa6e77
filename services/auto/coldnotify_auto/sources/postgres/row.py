"""The row of the kind `postgres`."""

from coldnotify_auto.source import Source, SourceRow
from coldnotify_auto.yaml_sections import Section


def read(name: str, section: Section) -> Source:
    """Makes a source of its section. Raises AutoFileError."""
    from coldnotify_auto.sources.postgres.postgres_source import read_postgres

    return read_postgres(name, section)


ROW = SourceRow(name="postgres", read=read, needs="psycopg2", extra="coldnotify-server[postgres]")
