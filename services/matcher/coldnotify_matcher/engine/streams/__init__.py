"""Streams: a session's progress in a log, the page that is being filled, and the answers that it is owed."""
