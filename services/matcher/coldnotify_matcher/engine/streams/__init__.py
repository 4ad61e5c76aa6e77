"""Streams: how far a session has been told a log, the page that is being filled, and the answers that it is owed."""
