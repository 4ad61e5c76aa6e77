"""The numbers of the device protocol: what services, and clients in all languages, must agree on.

`make docs` makes the table in docs/protocol.md and the browser client's `src/schemas/protocol.ts` of this file. So a
constant here is a plain number; a comment that begins a line is the title of a section.
"""

# Frames

PROTOCOL_VERSION = 1
"""Sent in the Hello. A gateway refuses any other: a later client must be able to speak this version."""
CLIENT_FRAME_BYTES_MAX = 32 * 1024
"""The longest frame a gateway takes from a client: 64 objects of 255 bytes fit twice."""
GATEWAY_FRAME_BYTES_MAX = 256 * 1024
"""The longest frame a client takes: far more than a notification's payload needs."""
LINK_SESSIONS_MAX = 64
"""Open sessions of one connection that carries several."""
FRAME_LENGTH_BYTES_MAX = 5
"""A frame's length is a varint: 5 bytes carry 32 bits, as in other uses of protobuf."""
OBJECTS_PER_FRAME_MAX = 64
"""Objects in a Hello (register and unregister together), Register, Unregister or SyncChunk: the longest names fit."""

# Names

NAME_LENGTH_MAX = 64
"""Limit on characters of a domain's, group's or client's name. Each Hello and Kafka's keys contain them."""
OBJECT_BYTES_MAX = 255
"""Limit on an object's name as UTF-8. A longer one costs radio time whenever it is registered."""
REGISTRATIONS_MAX = 10_000
"""Objects that a client may be registered for. An operator may allow fewer."""
PATTERNS_MAX = 64
"""Patterns of channels of one client."""
PATTERN_NAMES_MAX = 100_000
"""Channels that a pattern may fit when it is registered."""
QUERIES_MAX = 64
"""Queries that a client may be registered for. Each costs its partition's matcher an index and a set."""
QUERY_BYTES_MAX = 4096
"""Limit on a query's text as UTF-8: a condition that people write needs a tenth of it."""
HELLO_QUERY_BYTES_MAX = 16 * 1024
"""Limit on the texts of all queries in one Hello or Register: with 64 of the longest names it fits in a frame."""
CHANNEL_ATTRIBUTES_MAX = 16
"""Limit on the attributes of a subscription, and on those that a message is addressed to. Each
reg-sync contains them.
"""
MESSAGE_BYTES_MAX = 64 * 1024
"""Limit on a channel's message, which need not be JSON. An operator may set a lower one."""
MESSAGE_ID_BYTES_MAX = 64
"""Limit on a message's id, by which repeats are recognised: a UUID has 36."""
MESSAGE_KEY_BYTES_MAX = 64
"""Limit on the key of a message of a channel, as UTF-8."""
REPEATS_KNOWN_OFFSETS = 10_000
"""A message is delivered to nobody if an earlier one of its channel, within so many offsets, has the same id or `moved`
header, as long as the log still has that one.
"""
PUBLISHES_UNANSWERED_MAX = 64
"""Publishes of one session that wait for their answers. A gateway refuses further ones, and reads on."""
CLOCK_AHEAD_S_MAX = 3_600
"""A version or expiry that a client's clock made so far ahead of the service's is refused: Kafka has the same bound."""
CLOCK_SET_S = 1_577_836_800
"""The beginning of 2020, as Unix time: a clock that is before it was never set."""
LOOKING_DIGITS = 24
"""Hex digits in the random name of a page that only looks: 96 bits, so no two pages draw the same."""

# A session

HELLO_S = 10
"""Limit from the connection to a complete Hello, unless the operator sets another: strangers hold no connection."""
WELCOME_S = 30
"""A gateway sends Welcome or Wait within this time of the Hello, or the client gives up the connection."""
ANSWER_S = 30
"""A request or reg-sync that is not answered within this time is sent again. Services wait as long for that."""
REQUESTS_UNANSWERED_MAX = 4
"""Register and Unregister that a client has under way: their answers take at most 1.1 MiB of a gateway's memory."""
SYNC_CHUNKS_MAX = 1_024
"""SyncChunks of one set, and of one client within ANSWER_S, unless the operator sets another number: six times
REGISTRATIONS_MAX."""
ACK_DELAY_S = 1
"""Cursors are acknowledged this late, unless the application chooses another delay: what comes meanwhile is merged."""
UNSETTLED_ERROR_BYTES_MAX = 200
"""Limit on an error's first line in an Unsettled: enough to recognise it."""
KEEPALIVE_S = 60
"""The meaning of a keepalive of 0. A longer one saves battery, a shorter one notices a dead link sooner."""
WEBSOCKET_KEEPALIVE_S = 45
"""The clients' default over WebSocket, because intermediaries close idle connections after 60 s."""
WEB_PROFILE_KEEPALIVE_S = 4
"""The clients' default for lines that cost nothing: a dead link is noticed within 14 s."""
KEEPALIVE_S_MAX = 86_400
"""A longer keepalive counts as this: a gateway notices each dead connection within two days."""
AGE_UNSAID_S = 6
"""An age of what a client was told is left out of a frame up to this: an idle session sends no byte more."""
AGE_UNKNOWN_S = 65_535
"""In place of an age that is not known, or higher."""
FRESH_PROOF_S = 12
"""With nothing wrong, what is proved is a keepalive and this old at most."""
FRESH_FACTOR = 2.5
"""A proof is fresh for so many keepalives and FRESH_EXTRA_S, unless the application chooses a time."""
FRESH_EXTRA_S = 20
"""See FRESH_FACTOR."""
SILENCE_FACTOR = 1.5
"""Either side gives up the other after so many keepalives and SILENCE_EXTRA_S: a Ping may be late."""
SILENCE_EXTRA_S = 10
"""For the way over a slow link; one keepalive, if that is shorter."""

# After the end

STAY_AWAY_FROM_CODE = 64
"""Close codes from this one on require somebody to change something first: the client does not come back."""
BACKOFF_MIN_S = 1
"""The first pause before connecting again is random, up to this long: all clients of a gateway lose it at once."""
BACKOFF_MAX_S = 300
"""The pauses double up to this: a service that was away for long finds its clients within minutes."""
DISPLACED_MIN_S = 60
"""The first pause after DISPLACED: two devices with one name must not displace each other all the time."""
DISPLACED_MAX_S = 3_600
"""The pauses after DISPLACED double up to this. A session that lasts as long ends the doubling."""
UNKNOWN_SESSION_DELAY_S = 1
"""The upper end of the random delay after UNKNOWN_SESSION: when a service returns, it sends this to all clients at
once.
"""

CLOSE_S_MAX = 3_600
"""`retry_after_s` and `not_here_s` of a Close count as at most this: no gateway sends a client away for good."""

# WebSocket, sync and HTTP

DEVICE_PORT = 55_000
"""TCP, the gateway's port for devices."""
WEB_PORT = 55_003
"""The gateway's port for WebSocket, sync and events."""
HTTP_PORT = 55_002
"""The HTTP service's port."""
WEBSOCKET_SENT_BYTES_MAX = 64 * 1024
"""Limit on a message from a gateway, because a client holds a message until it is complete."""
WEBSOCKET_TAKEN_FRAMES_MAX = 4
"""A gateway takes messages as long as so many of the longest frames: what a client has under way fits in one."""
SYNC_WAIT_S_MAX = 60
"""The longest `wait_s`: after more, intermediaries may consider the connection dead."""
PUBLISHES_PER_REQUEST_MAX = 1_000
"""Records in one POST: enough to save round trips, few enough that one request holds up nobody."""
OUTCOMES_PER_REQUEST_MAX = 200
"""Offsets in one question for outcomes: a URL of 4 KB."""
OUTCOME_WAIT_S_MAX = 10
"""The longest `wait_s` of a request for outcomes: a matcher reads within seconds what was acknowledged, or is away."""
ITEMS_PER_PAGE_MAX = 1_000
"""Highest `limit` of a list: a page of this size takes milliseconds, so listing a large group delays nobody."""

# The state file

STATE_FORMAT = 1
"""The `format` of a document without queries, which release 0.1.0 reads."""
STATE_FORMAT_WITH_QUERIES = 2
"""Format of a state file with queries: a library refuses a higher format than it knows, and 0.1.0 would lose them."""
STATE_FORMAT_WITH_CHANNELS = 3
"""Format of a state file with channels: a library without them would deliver none of their messages."""
STATE_FORMAT_WITH_BYTES = 4
"""Format of a state file that keeps a payload of any bytes: a library without them would take it for none."""
STATE_FORMAT_WITH_GROUPS = 5
"""Format of a state file of a client of several groups: a library without them would take it for one group's."""
STATE_FORMAT_WITH_SHARES = 6
"""Format of a state file with shares: a library without them would leave them without a word."""
