"""Whatever a gateway says: nothing is raised, what waits is bounded, and the state that is saved can be read again."""

from random import Random

from coldnotify._core.client import Client
from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import OUT_BYTES_MAX, REPORTS_MAX, ClientSettings
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import FrameBuffer, encode, encode_length, parse_client_frame
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, GATEWAY_FRAME_BYTES_MAX
from coldnotify_testkit.examples import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

ME = ClientIdentity("animal.observer", "region-1", "observer-1")
# The last two share a CRC-32.
NAMES = ["a", "b", "c", "plumless", "buckeroo"]
SET_BYTES_MAX = 1024
"""All of the messages about a set as small as that of these tests."""
U64, U32, SMALL = st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1), st.integers(0, 6)
NUMBERS = st.one_of(SMALL, U64)
ANY_NAME = st.one_of(st.sampled_from(NAMES), st.text(max_size=5), st.just("x" * 300))
MAYBE = st.one_of(st.none(), NUMBERS)
REFUSED = st.lists(
    st.builds(wire.Refusal, object=ANY_NAME, reason=st.text(max_size=5), interest=MAYBE),
    max_size=2,
)
STREAMS = st.lists(
    st.builds(
        wire.Stream,
        epoch=st.one_of(st.none(), U32),
        complete=MAYBE,
        page=U32,
        positions=st.lists(st.builds(wire.Position, interest=NUMBERS, position=MAYBE), max_size=2),
    ),
    max_size=2,
)
FRAMES = st.one_of(
    st.builds(
        wire.Welcome, in_sync=st.booleans(), epoch=st.one_of(st.none(), U32), refused=REFUSED, streams=STREAMS
    ).map(lambda one: wire.GatewayFrame(welcome=one)),
    st.builds(
        wire.Notification,
        crc=st.one_of(st.sampled_from(NAMES).map(object_crc), U32),
        name=st.one_of(st.just(""), ANY_NAME),
        version=MAYBE,
        incarnation=NUMBERS,
        offset=NUMBERS,
        behind=NUMBERS,
        payload=st.one_of(st.binary(max_size=20), st.just(b'{"a": 1}'), st.just(b"[" * 5000)),
        deleted=st.booleans(),
        answer=st.booleans(),
    ).map(lambda one: wire.GatewayFrame(notification=one)),
    st.builds(wire.CaughtUp, complete=MAYBE, streams=STREAMS).map(lambda one: wire.GatewayFrame(caught_up=one)),
    st.builds(wire.Registered, request=st.one_of(SMALL, U32), refused=REFUSED, streams=STREAMS).map(
        lambda one: wire.GatewayFrame(registered=one)
    ),
    st.builds(wire.Unregistered, request=st.one_of(SMALL, U32)).map(lambda one: wire.GatewayFrame(unregistered=one)),
    st.builds(wire.PageEnd, page=U32, stream=SMALL, last=st.booleans(), complete=MAYBE).map(
        lambda one: wire.GatewayFrame(page_end=one)
    ),
    st.builds(wire.Pong, complete=MAYBE, streams=STREAMS).map(lambda one: wire.GatewayFrame(pong=one)),
    st.builds(wire.Wait, seconds=U32).map(lambda one: wire.GatewayFrame(wait=one)),
    st.builds(wire.Close, code=st.one_of(st.sampled_from(list(CloseCode)).map(int), U32), reason=st.text()).map(
        lambda one: wire.GatewayFrame(close=one)
    ),
    st.just(wire.GatewayFrame()),
).map(encode)
GATEWAY_BYTES = st.one_of(
    st.lists(FRAMES, min_size=1, max_size=5).map(b"".join),
    st.binary(max_size=40),
    st.integers(0, 1 << 36).map(encode_length),
)
WELCOME = encode(wire.GatewayFrame(welcome=wire.Welcome(in_sync=True)))
PAGE_ENDS = encode(wire.GatewayFrame(page_end=wire.PageEnd(page=1 << 31))) * 20_000


class AnyGateway(RuleBasedStateMachine):
    """A client with an application, a disk and a gateway that says what it likes."""

    @initialize(wanted=st.sets(st.sampled_from(NAMES)), seed=st.integers(0, 9))
    def begin(self, wanted: set[str], seed: int) -> None:
        self.now = 1000.0
        self.random = Random(seed)
        self.disk: bytes | None = None
        self.boot()
        self.client.application.register_only(wanted)
        self.greet()

    def boot(self) -> None:
        document = Document(identity=ME) if self.disk is None else decode(self.disk, ME)
        self.client = Client(document, [Address("gateway", 1)], ClientSettings(tries_max=2), self.random, self.now)
        self.linked = False
        self.sent = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        for number, name in enumerate(NAMES):
            self.client.application.subscribe(name, number)

    def save(self) -> None:
        """What is written can be read: a client that cannot read its own state does not start again."""
        while (save := self.client.save_due(self.now)) is not None:
            decode(save.data, ME)
            self.disk = save.data
            self.client.saved(save, self.now)

    @rule()
    def greet(self) -> None:
        """Connects, and the gateway says what gets a session going."""
        self.connect()
        if self.linked:
            self.client.receive(WELCOME, self.now)

    @rule()
    def connect(self) -> None:
        if not self.linked:
            self.now += 400.0
            if self.client.connect_due(self.now) is not None:
                self.client.link_up(self.now)
                self.linked = True
                self.sent = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
            self.save()

    @rule(data=GATEWAY_BYTES, cut=st.integers(1, 50), send=st.booleans())
    def gateway_says(self, data: bytes, cut: int, send: bool) -> None:
        for start in range(0, len(data), cut):
            if self.linked:
                self.client.receive(data[start : start + cut], self.now)
                self.close_if_unwanted()
        if send:
            self.client_sends()

    @rule()
    def gateway_ends_pages(self) -> None:
        """Each of them is to be acknowledged, and nothing can be sent."""
        if self.linked:
            self.client.receive(PAGE_ENDS, self.now)
            self.close_if_unwanted()

    @rule()
    def client_sends(self) -> None:
        """What it says are frames."""
        while self.linked and (data := self.client.data_to_send(self.now)):
            for body in self.sent.feed(data):
                assert parse_client_frame(body).WhichOneof("frame")

    def close_if_unwanted(self) -> None:
        if not self.client.link_wanted:
            self.drop()

    @rule()
    def drop(self) -> None:
        if self.linked:
            self.client.link_down("cut", self.now)
            self.linked = False

    @rule()
    def disk_writes(self) -> None:
        self.save()

    @rule(crash=st.booleans())
    def start_again(self, crash: bool) -> None:
        if not crash:
            self.save()
        self.boot()

    @rule(name=st.sampled_from(NAMES), want=st.booleans())
    def application(self, name: str, want: bool) -> None:
        if want:
            self.client.application.register(name)
        else:
            self.client.application.unregister(name)

    @rule(fails=st.booleans())
    def callbacks(self, fails: bool) -> None:
        while (job := self.client.next_job(self.now)) is not None:
            failed = {number: RuntimeError("no") for number in job.subscribers} if fails else {}
            self.client.job_done(job, failed, self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 31.0, 1000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.client.tick(self.now)
        if self.linked:
            self.close_if_unwanted()

    @invariant()
    def bounds(self) -> None:
        if not hasattr(self, "client"):
            return
        client = self.client
        assert client.status(self.now).waiting <= len(NAMES)
        assert len(client._reports) <= REPORTS_MAX
        assert client.deadline() <= float("inf")
        session = client._session
        if session is not None:
            assert len(session._out) <= OUT_BYTES_MAX + SET_BYTES_MAX
            assert len(session._frames) <= GATEWAY_FRAME_BYTES_MAX + 5
            assert len(session._requests._sent) + len(session._requests._answered) <= 100


TestAnyGateway = AnyGateway.TestCase
TestAnyGateway.settings = settings(
    max_examples=examples(0.8), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
