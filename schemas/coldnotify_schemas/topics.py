"""The names of the topics."""

OBJECTS = "coldnotify.objects"
REQUESTS = "coldnotify.requests"
REGISTRATIONS = "coldnotify.registrations"
SESSIONS = "coldnotify.sessions"
NOTIFICATIONS = "coldnotify.notifications"
REJECTED = "coldnotify.rejected"
CHANNELS_1H = "coldnotify.channels.1h"
CHANNELS_1D = "coldnotify.channels.1d"
CHANNELS_30D = "coldnotify.channels.30d"
CHANNELS_STATE = "coldnotify.channels_state"
TENANTS = "coldnotify.tenants"
USAGE = "coldnotify.usage"
VERDICTS = "coldnotify.verdicts"
USAGE_HISTORY = "coldnotify.usage_history"
USAGE_STATE = "coldnotify.usage_state"

CHANNELS = (CHANNELS_1H, CHANNELS_1D, CHANNELS_30D)
CO_PARTITIONED = (OBJECTS, REQUESTS, REGISTRATIONS, SESSIONS, *CHANNELS, CHANNELS_STATE)
"""Everything that concerns a domain/group is in the same partition of each of these."""
OF_TENANTS = (TENANTS, USAGE, VERDICTS, USAGE_HISTORY, USAGE_STATE)
"""What concerns tenants. Devices are served without them, too: nobody is limited then."""
ALL = (*CO_PARTITIONED, NOTIFICATIONS, REJECTED, *OF_TENANTS)
