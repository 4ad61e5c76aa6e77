"""Makes the valid records from which hostile ones are bent, with names that exist or are made up."""

from collections.abc import Callable
from random import Random

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.matcher_state import FORMAT_WITH_FILTERS, GENERATION_KEY, WILL_BUCKET, generation_max
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

from coldnotify_testkit.hostile_records.bodies_of_channels import OfChannels
from coldnotify_testkit.hostile_records.bodies_of_tenants import TenantBodies
from coldnotify_testkit.hostile_records.documents import Documents
from coldnotify_testkit.hostile_records.honest import COMES_BACK
from coldnotify_testkit.hostile_records.messages import HostileMessages, fields_of
from coldnotify_testkit.hostile_records.records import KnownToAttacker
from coldnotify_testkit.hostile_records.values import MADE_UP, NUMBERS, Body, Values

TOPICS = TopicNames()

_REAL_SESSION_SHARE = 0.05
"""Share of requests with a real session: each costs an honest client some of its time."""
_DESCRIPTION_SHARE = 0.2
_WILL_SHARE = 0.3
_PAYLOADS = (
    *('{"a": [1, null]}', "7", '"x"'),
    *('"AP8="', '"AP8"', '"A==="', '"\\u0041P8="', '""', f'"{"AP8A" * 1366}"', f'"{"x" * 5000}"'),
)
"""As JSON, and as what a header says to be base64: right, wrong, too long."""
_DESCRIPTIONS = (
    "null", "{}", '{"Room": 410, "Kind": "lamp", "on": true}', '{"Location/Room": -0.0}', '{"9": 1}', '{"a": [1]}',
    '{"a": null}', '{"a": 1e999}', f'{{"a": "{"x" * 257}"}}',
    "{" + ",".join(f'"k{number}": {number}' for number in range(65)) + "}",
)  # fmt: skip


class HostileBodies:
    """Draws partition, key and value of a record: `of` a topic."""

    def __init__(self, random: Random, values: Values) -> None:
        self._random = random
        self._values = values
        self._documents = Documents(random, values)
        self._messages = HostileMessages(random, values)
        self._of: dict[str, Callable[[KnownToAttacker], Body]] = {
            TOPICS.objects: self._object,
            TOPICS.requests: self._request,
            TOPICS.registrations: self._registrations,
            TOPICS.sessions: self._session,
            TOPICS.notifications: self._inbox,
            TOPICS.rejected: self._rejected,
            **OfChannels(random, values, self._documents).of,
            **TenantBodies(random, values, self._documents).of,
        }

    def of(self, topic: str, known: KnownToAttacker) -> Body:
        """One for this topic, where records of its key belong."""
        return self._of[topic](known)

    def _object(self, known: KnownToAttacker) -> Body:
        draw, group = self._random, self._group(known)
        name = draw.choice([self._values.made_up("object"), draw.choice(known.objects)])
        if draw.random() < _DESCRIPTION_SHARE:
            said = {"description": draw.choice(_DESCRIPTIONS)}
            return (
                self._home(known, group),
                self._values.key(f"{KEY_PREFIX}{known.domain}/{group}/{name}"),
                self._documents.bent(said),
            )
        fields = {
            "version": str(draw.choice((0, 1, 5, draw.randrange(1 << 40)))),
            "source": f'"{draw.choice(known.clients)}"',
            "payload": draw.choice(_PAYLOADS),
            "expires_at": str(draw.choice((1, known.now_ms + 60_000))),
            "deleted": draw.choice(("true", "false")),
            "incarnation": str(draw.choice((0, 1, 2))),
        }
        some = {field: fields[field] for field in draw.sample(list(fields), draw.randint(0, len(fields)))}
        key = self._values.key(f"{known.domain}/{group}/{name}")
        return self._home(known, group), key, self._documents.bent(some)

    def _registrations(self, known: KnownToAttacker) -> Body:
        draw, group = self._random, self._group(known)
        if draw.random() < _WILL_SHARE:
            return self._wills(known, group)
        bucket = draw.choice((0, 0, 0, 1, 2, 9_999, *NUMBERS))
        objects = [self._values.made_up("object") for _ in range(draw.choice((0, 1, 3, 64, 65)))]
        fields = {
            "format": "1",
            "generation": str(self._generation(known, self._home(known, group))),
            "applied": str(draw.choice((-1, 0, 1, 1000))),
            "objects": "[" + ",".join(f'"{name}"' for name in objects) + "]",
        }
        return (
            self._home(known, group),
            self._values.key(f"{self._client_key(known, group)}/{bucket}"),
            self._documents.bent(fields),
        )

    def _wills(self, known: KnownToAttacker, group: str) -> Body:
        draw, home = self._random, self._home(known, group)
        gateway = draw.choice([*known.gateways, draw.getrandbits(64)])
        will = {
            "gateway": f'"{gateway:016x}"',
            "session": str(draw.choice((1, 2, (1 << 32) - 1))),
            "begun": str(draw.choice((1, known.now_ms, *NUMBERS))),
            "topic": f'"{self._values.made_up("object")}"',
            "payload": draw.choice(('""', '"AP8="', '"AP8"', f'"{"AP8A" * 30_000}"')),
            "retain": draw.choice(("true", "false")),
            "delay_s": str(draw.choice((0, 1, *NUMBERS))),
            "expiry_s": str(draw.choice(("null", 0, 1, *NUMBERS))),
            "due": str(draw.choice((0, 1, known.now_ms, known.now_ms + 1000, *NUMBERS))),
            "waits": draw.choice(("true", "false")),
            "version": str(draw.choice((-1, 0, known.now_ms, *NUMBERS))),
            "incarnation": str(draw.choice((0, 1, *NUMBERS))),
        }
        bent = self._documents.bent(will) or b"null"
        one = bent.decode(errors="replace")
        fields = {
            "format": str(FORMAT_WITH_FILTERS),
            "generation": str(self._generation(known, home)),
            "applied": str(draw.choice((-1, 0, 1, 1000))),
            "now": draw.choice((one, "null")),
            "owed": f"[{','.join([one] * draw.choice((0, 1, 2)))}]",
            "over": str(draw.choice((0, 1, known.now_ms, *NUMBERS))),
        }
        key = self._values.key(f"{self._client_key(known, group)}/{WILL_BUCKET}")
        return home, key, self._documents.bent(fields)

    def _session(self, known: KnownToAttacker) -> Body:
        draw, group = self._random, self._group(known)
        home = self._home(known, group)
        common = {"format": "1", "generation": str(self._generation(known, home))}
        if draw.random() < 0.2:
            topic_id = f'"{known.requests_topic_id}"'
            claim = {"owner": '"matcher-9:0badcafe"', "requests_topic_id": topic_id, "epoch": "7"}
            if draw.random() < 0.5:
                claim["requests_since"] = str(draw.choice(NUMBERS))
            return home, self._values.key(GENERATION_KEY), self._documents.bent(common | claim)
        gateway = draw.choice([*known.gateways, draw.getrandbits(64)])
        fields = {
            "applied": str(draw.choice((-1, 0, 1, 1000))),
            "online": draw.choice(("true", "false")),
            "gateway": f'"{gateway:016x}"',
            "inbox": str(draw.randrange(known.inboxes)),
            "session": str(draw.choice((1, 2, (1 << 32) - 1))),
            "epoch": str(draw.getrandbits(32)),
            "cursor": str(draw.choice((-1, 0, 5))),
            "last_seen": str(known.now_ms - draw.randrange(1 << 40)),
        }
        return home, self._values.key(self._client_key(known, group)), self._documents.bent(common | fields)

    def _request(self, known: KnownToAttacker) -> Body:
        draw, group = self._random, self._group(known)
        gateway = self._gateway(known)
        request = internal_pb2.Request(
            format=1,
            gateway=gateway,
            inbox=known.gateways.get(gateway, draw.randrange(known.inboxes)),
            session=draw.randint(1, MADE_UP),
            domain=known.domain,
            group=group,
            client=self._values.made_up("client"),
        )
        if known.sessions and draw.random() < _REAL_SESSION_SHARE:
            real = draw.choice(known.sessions)
            request.gateway, request.inbox, request.session = real.gateway, real.inbox, real.number
            request.group, request.client, group = real.group, real.client, real.group
        kinds = fields_of(internal_pb2.Request.DESCRIPTOR.oneofs_by_name["body"])
        body = getattr(request, draw.choice(kinds).name)
        body.SetInParent()
        self._messages.fill(body, 0.5)
        if request.WhichOneof("body") == "acks" and draw.random() < 0.7:
            del request.acks.completes[len(request.acks.sessions) :]
            request.acks.completes.extend(0 for _ in range(len(request.acks.sessions) - len(request.acks.completes)))
        if draw.random() < 0.3:
            self._messages.bend(request)
        return self._home(known, group), None, self._values.bent(request.SerializeToString())

    def _inbox(self, known: KnownToAttacker) -> Body:
        draw = self._random
        gateway = draw.choice([*known.gateways, *known.gateways, 0, draw.getrandbits(64)])
        partition = draw.choice([*(one.partition for one in known.sessions), draw.randrange(known.partitions)])
        last = known.numbers.get((gateway, partition), 0)
        inbox = internal_pb2.Inbox(
            format=1,
            partition=partition,
            generation=draw.choice((known.generations.get(partition, 1),) * 4 + (self._later(known, partition),)),
            gateway=gateway,
            number=draw.choice((last + 1, last, last + 2, 0, 1, self._values.number(64))) % (1 << 64),
        )
        for _ in range(draw.choice((0, 1, 1, 2, 5))):
            self._item(inbox.items.add(), known)
        if draw.random() < 0.2:
            self._messages.bend(inbox)
        where = known.gateways.get(gateway, draw.randrange(known.inboxes))
        return where, draw.choice((None, b"key")), self._values.bent(inbox.SerializeToString())

    def _item(self, item: internal_pb2.Item, known: KnownToAttacker) -> None:
        draw = self._random
        kind = draw.choice(fields_of(internal_pb2.Item.DESCRIPTOR.oneofs_by_name["item"]))
        body = getattr(item, kind.name)
        body.SetInParent()
        self._messages.fill(body, 0.6)
        if known.sessions and draw.random() < 0.7:
            number = draw.choice(known.sessions).number
            if isinstance(body, internal_pb2.FanOut):
                body.sessions = number.to_bytes(4, "little") * draw.choice((1, 2, 100)) + b"\1" * draw.choice(
                    (0, 0, 1, 3)
                )
            elif isinstance(body, internal_pb2.Closed):
                body.session = number
                body.code = draw.choice(COMES_BACK)
            elif not isinstance(body, internal_pb2.BeatAnswer):
                body.session = number

    def _rejected(self, known: KnownToAttacker) -> Body:
        topic = self._random.choice((TOPICS.objects, TOPICS.sessions, TOPICS.requests, TOPICS.channels_1d))
        _, key, value = self.of(topic, known)
        return self._random.randrange(2), key, value

    # ---- names and numbers -------------------------------------------------------------------------------------

    def _group(self, known: KnownToAttacker) -> str:
        return self._random.choice(known.groups)

    def _home(self, known: KnownToAttacker, group: str) -> int:
        return partition_of(known.domain, group, known.partitions)

    def _gateway(self, known: KnownToAttacker) -> int:
        draw = self._random
        return draw.choice([*known.gateways, *(0xBAD0000000000000 + draw.randrange(20) for _ in range(4))])

    def _client_key(self, known: KnownToAttacker, group: str) -> str:
        client = self._random.choice([self._values.made_up("client"), self._random.choice(known.clients)])
        return f"{known.domain}/{group}/{client}"

    def _generation(self, known: KnownToAttacker, partition: int) -> int:
        present = known.generations.get(partition, 1)
        most = generation_max(known.now_ms)
        return self._random.choice((0, 1, present - 1, present, present + 1, most, most + 1, most + 10**6, *NUMBERS))

    def _later(self, known: KnownToAttacker, partition: int) -> int:
        """Returns a generation that protobuf can encode."""
        return max(0, self._generation(known, partition)) % (1 << 64)
