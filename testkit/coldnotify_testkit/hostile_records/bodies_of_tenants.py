"""Makes the records of tenants, usage, verdicts, history, the usage job's state, nodes and webhooks from which hostile
ones are bent.
"""

from collections.abc import Callable
from random import Random

from coldnotify_schemas.tenant_usage import history_key, partition_node, usage_partition_of
from coldnotify_schemas.tenants import LIMITS
from coldnotify_schemas.topics import TopicNames

from coldnotify_testkit.hostile_records.documents import Documents
from coldnotify_testkit.hostile_records.records import KnownToAttacker
from coldnotify_testkit.hostile_records.values import NUMBERS, Body, Values

TOPICS = TopicNames()

_NEXT_KEYS = (
    "next/x",
    "next/",
    "next/-1",
    "next/8",
    "next/0x1",
    "next/\u00b2",
    "next/1/2",
    "next/0",
    "next/7",
    "next/ 1",
)
_OFFSETS = (
    b"",
    b"x",
    b"-1",
    b"1.5",
    b"0x10",
    b"9" * 5_000,
    b"9" * 19,
    "\u00b2".encode(),
    b"\xff",
    b"0",
    b"5",
    b" 7 ",
    b"1_0",
)
_COUNTERS = (
    "publishes",
    "bytes",
    "deliveries",
    "out_bytes",
    "refused",
    "high",
    "admitted",
    "objects",
    "clients",
    "new",
)


class TenantBodies:
    """Draws partition, key and value of a record. `of` draws for a topic, from what is known."""

    def __init__(self, random: Random, values: Values, documents: Documents) -> None:
        self._random = random
        self._values = values
        self._documents = documents
        self.of: dict[str, Callable[[KnownToAttacker], Body]] = {
            TOPICS.tenants: self._tenant,
            TOPICS.usage: self._usage,
            TOPICS.verdicts: self._verdict,
            TOPICS.usage_history: self._history,
            TOPICS.usage_state: self._state,
            TOPICS.nodes: self._node,
            TOPICS.hooks: self._hook,
            TOPICS.hooks_state: self._hook_state,
        }

    def _tenant(self, known: KnownToAttacker) -> Body:
        draw = self._random
        domains = ",".join(f'"{self._values.made_up("domain")}"' for _ in range(draw.choice((0, 1, 1, 3, 1_001))))
        fields = {"domains": f"[{domains}]", "principal": '"User:hostile"', "over": '"refuse"', "burst_s": "2"}
        fields |= {limit: str(draw.choice((1, 5.5, 0, *NUMBERS))) for limit in draw.sample(LIMITS, 2)}
        return 0, self._values.key(self._name()), self._documents.bent(fields)

    def _usage(self, known: KnownToAttacker) -> Body:
        draw, name = self._random, self._name()
        node = draw.choice((self._values.made_up("node"), partition_node(draw.randrange(known.partitions))))
        fields = {
            "node": f'"{node}"',
            "boot": f'"{self._values.made_up("boot")}"',
            "at_ms": str(draw.choice((known.now_ms, known.now_ms + 86_400_000 * 400, *NUMBERS))),
            "tenants": "{" + ",".join(f'"{one}": {self._counters()}' for one in (name, self._name())) + "}",
        }
        home = usage_partition_of(name, known.usage_partitions)
        return home, draw.choice((None, None, b"", b"key", b"\xff")), self._documents.bent(fields)

    def _verdict(self, known: KnownToAttacker) -> Body:
        draw = self._random
        shares = f'{{"{self._values.made_up("node")}": {draw.choice((0, 0.5, 1, 1.1, -1, 1e300))}}}'
        held = f'{{"{partition_node(0)}": [{draw.choice(NUMBERS)}, 0, 1]}}'
        at_ms = draw.choice((known.now_ms, *NUMBERS))
        fields = {
            "at_ms": str(at_ms), "until_ms": str(at_ms + 20_000), "per_s": self._counters(),
            "per_min": self._counters(), "gauges": self._counters(), "shares": shares, "out_shares": shares,
            "held": held,
            "exceeded": f'["{draw.choice(LIMITS)}", "nothing"]',
        }  # fmt: skip
        return 0, self._values.key(self._name()), self._documents.bent(fields)

    def _node(self, known: KnownToAttacker) -> Body:
        draw = self._random
        role, node = draw.choice(("gateway", "matcher", "http", "usage", "hostile")), self._values.made_up("node")
        fields = {
            "role": f'"{role}"', "id": f'"{node}"', "ready": draw.choice(("true", "false", "1")),
            # Nobody listens on this port, which belongs to the protocol "discard".
            "addresses": draw.choice(('{"inside": "127.0.0.1:9"}', '{"device": "x/y:1"}', '{"web": 5}', "[]", "{}")),
            "connections": str(draw.choice(NUMBERS)), "load": draw.choice(("0.5", "-1", "1e300")), "labels": "{}",
        }  # fmt: skip
        return 0, self._values.key(f"{role}/anonymous/{node}"), self._documents.bent(fields)

    def _hook(self, known: KnownToAttacker) -> Body:
        draw = self._random
        key = f"{known.domain}/{draw.choice(known.groups)}/{self._values.made_up('hook')}"
        fields = {
            # Without https nobody calls it, and nobody listens there.
            "url": draw.choice(('"http://127.0.0.1:9/"', '"http://u:p@127.0.0.1:9/"', '"x"', "7")),
            "objects": draw.choice(('["a"]', "[]", "[7]", '"a"')), "format": draw.choice(('"json"', '"xml"')),
            "rotation": str(draw.choice(NUMBERS)), "revision": str(draw.choice(NUMBERS)),
            "rotation_before": draw.choice(("null", "1")), "state": draw.choice(('"suspended"', "7")),
        }  # fmt: skip
        return (
            0,
            self._values.key(draw.choice((key, key, f"{key}/status", f"{key}/test"))),
            self._documents.bent(fields),
        )

    def _hook_state(self, known: KnownToAttacker) -> Body:
        draw = self._random
        key = f"{known.domain}/{draw.choice(known.groups)}/{self._values.made_up('hook')}"
        fields = {"generation": str(draw.choice(NUMBERS)), "document": draw.choice(("{}", "[]", '"x"'))}
        return 0, self._values.key(draw.choice((key, "0", f"{key}/x"))), self._documents.bent(fields)

    def _history(self, known: KnownToAttacker) -> Body:
        draw = self._random
        key = history_key(
            self._name(), draw.choice(("hour", "day")), known.now_ms / 1000 - draw.randrange(86_400 * 500)
        )
        keys = (key, f"usage:{self._name()}:hour:9999-99-99T99", "usage::day:", "usage:x:week:2026-11", key + "\n")
        return 0, self._values.key(draw.choice((key, draw.choice(keys)))), self._documents.bent_text(self._counters())

    def _state(self, known: KnownToAttacker) -> Body:
        draw, name = self._random, self._name()
        home = usage_partition_of(name, known.usage_partitions)
        if draw.random() < 0.4:
            return draw.randrange(known.usage_partitions), draw.choice(_NEXT_KEYS).encode(), draw.choice(_OFFSETS)
        key = f"{name}/{self._values.made_up('node')}/{self._values.made_up('boot')}"
        count = draw.choice(NUMBERS)
        counts = f"[{count},0,{draw.choice(NUMBERS)}]"
        hours = f'{{"{draw.choice(NUMBERS)}":{counts}}}'
        stored = f"[{draw.choice((known.now_ms, *NUMBERS))},[1,{count},0],{counts},{hours},{counts},{hours}]"
        return home, self._values.key(key), self._documents.bent_text(stored)

    def _name(self) -> str:
        """Returns the name of a tenant that nobody has set up."""
        return self._values.made_up("tenant")

    def _counters(self) -> str:
        draw = self._random
        said = ",".join(f'"{name}": {draw.choice((0, 1, 7.5, *NUMBERS))}' for name in draw.sample(_COUNTERS, 3))
        return "{" + said + "}"
