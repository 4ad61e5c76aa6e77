"""The row of the kind `url`."""

from coldnotify_auto.source import SourceRow
from coldnotify_auto.sources.url.url_source import read

ROW = SourceRow(name="url", read=read)
