"""The row of the kind `folder`."""

from coldnotify_auto.source import SourceRow
from coldnotify_auto.sources.folder.folder_source import read

ROW = SourceRow(name="folder", read=read)
