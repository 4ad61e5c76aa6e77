"""The names of the topics."""

OBJECTS = "coldnotify.objects"
REQUESTS = "coldnotify.requests"
REGISTRATIONS = "coldnotify.registrations"
SESSIONS = "coldnotify.sessions"
NOTIFICATIONS = "coldnotify.notifications"
REJECTED = "coldnotify.rejected"

CO_PARTITIONED = (OBJECTS, REQUESTS, REGISTRATIONS, SESSIONS)
"""Everything that concerns a domain/group is in the same partition of each of these."""
