"""The numbers of docs/internal-protocol.md, on which gateways and matchers must agree, each with its reason."""

FORMAT = 1
"""Format of requests and inbox records. A record of another format is set aside: the meaning of its
fields is unknown.
"""
BEAT_S = 5
"""How often a gateway reports its sessions, to each partition in which it has any."""
GATEWAY_SILENCE_S = 15
"""Three beats. A matcher that has not heard of a gateway for so long takes it for dead, and its sessions for offline; a
gateway that has no answer for so long takes the matcher for away."""
UNHEARD_S = 8
"""A gateway that has no answer to a Beat for so long, or stood still for so long, may have been taken for dead: that
comes GATEWAY_SILENCE_S after the last Beat that arrived, and the first that did not is up to BEAT_S younger."""
PAGE_BYTES_MAX = 64 * 1024
"""The longest page, whatever the link carries: a page in transit is delivered even if newer versions are published."""
MATCHER_PORT = 51_001
"""A matcher's HTTP port."""
GATEWAY_HTTP_PORT = 55_001
"""A gateway's HTTP port."""
USAGE_PORT = 51_003
"""The HTTP port of a worker of the usage job."""
HOOKS_PORT = 51_004
"""The HTTP port of a caller of webhooks."""
