"""The protocols' numbers: each stands in one place, and what is made of it, or says it in prose, says the same."""

import re
from math import prod
from pathlib import Path

import pytest
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_load import tcp_device as loadtest_device
from coldnotify_matcher.engine.clients import half_sets
from coldnotify_matcher.engine.telling import paging
from coldnotify_matcher.engine.upkeep import upkeep
from coldnotify_schemas import internal_protocol, protocol
from coldnotify_schemas.protocol import ANSWER_S, OBJECTS_PER_FRAME_MAX, REQUESTS_UNANSWERED_MAX, WELCOME_S
from coldnotify_testkit.protocol_numbers import DOCUMENT, TYPESCRIPT, document, numbers, shown, typescript

ROOT = Path(__file__).parents[2]
_KIB = 1024

COPIES = {
    "services/matcher/coldnotify_matcher/engine/telling/paging.py: PAGE_BYTES_MAX",
    "schemas/coldnotify_schemas/matcher_state.py: FORMAT",
}
"""Checked below; matcher_state's FORMAT is another one, of the records that a matcher keeps its state in."""

PROSE = {
    "docs/protocol.md": [
        "varint (at most {FRAME_LENGTH_BYTES_MAX} bytes)",
        "A gateway takes frames of at most {CLIENT_FRAME_BYTES_MAX:KiB}, a client of at most",
        "a client of at most {GATEWAY_FRAME_BYTES_MAX:KiB}.",
        "within the handshake time ({HELLO_S} s by default)",
        "if they have at most {OBJECTS_PER_FRAME_MAX} objects in all",
        "neither Welcome nor Wait for {WELCOME_S} s gives up",
        "**SyncChunk**s of at most {OBJECTS_PER_FRAME_MAX} objects each",
        "may drop chunks above {SYNC_CHUNKS_MAX:,} within {ANSWER_S} s",
        "**Unregister** (at most {OBJECTS_PER_FRAME_MAX} objects each;",
        "the client keeps at most {REQUESTS_UNANSWERED_MAX} requests unanswered)",
        "has not come within {ANSWER_S} s of the Registered",
        "A request that is not answered within {ANSWER_S} s is sent again",
        "delayed and merged ({ACK_DELAY_S} s by default)",
        "in the Hello; 0 means {KEEPALIVE_S} s, and more than a day counts as a day.",
        "Over WebSocket clients choose {WEBSOCKET_KEEPALIVE_S} s",
        "nothing for {SILENCE_FACTOR} times `keepalive_s` plus {SILENCE_EXTRA_S} s closes the session",
        "Unknown codes below {STAY_AWAY_FROM_CODE}: the client comes back. Unknown codes from {STAY_AWAY_FROM_CODE} on",
        "full jitter ({BACKOFF_MIN_S} s doubling to 5 min;",
        "web port ({WEB_PORT}), or on the HTTP service ({HTTP_PORT})",
        "messages of at most {WEBSOCKET_SENT_BYTES_MAX:KiB} and takes up to 128 KiB",
        "`wait_s` (up to {SYNC_WAIT_S_MAX}) holds",
        "(up to {OBJECTS_PER_FRAME_MAX} objects, queries and channels), at the same ports",
        "`look.` and {LOOKING_DIGITS} hex digits",
        "publishes up to {PUBLISHES_PER_REQUEST_MAX:,} records at once",
        "for up to {OUTCOMES_PER_REQUEST_MAX} records of a group",
    ],
    "docs/state-file.md": [
        '{"format":{STATE_FORMAT},',
        "| `format` | {STATE_FORMAT} |",
        "Names are 1 to {OBJECT_BYTES_MAX} bytes",
    ],
    "docs/internal-protocol.md": [
        "between 4 and {PAGE_BYTES_MAX:KiB}",
        "more than {PAGE_BYTES_MAX:KiB}: {PAGE_BYTES_MAX:KiB}",
        "**Beat** is sent every {BEAT_S} s",
        "Without a BeatAnswer within {GATEWAY_SILENCE_S} s the partition's matcher is away",
        "nothing is heard of a gateway for {GATEWAY_SILENCE_S} s",
        "unanswered for {UNHEARD_S} s",
    ],
    "docs/limits.md": [
        "1 to {NAME_LENGTH_MAX} of `A-Za-z0-9._-`",
        "1 to {OBJECT_BYTES_MAX} bytes of UTF-8",
        "| objects per client | {REGISTRATIONS_MAX:,};",
        "| objects per frame | {OBJECTS_PER_FRAME_MAX} |",
        "| {CLIENT_FRAME_BYTES_MAX:KiB} to a gateway, {GATEWAY_FRAME_BYTES_MAX:KiB} to a client |",
        "| {SYNC_CHUNKS_MAX:,} | `--gateway-sync-chunks-max` |",
        "SyncChunks per set; per client within {ANSWER_S} s",
    ],
}
"""What the documents say in prose, with the numbers left out."""


def filled(phrase: str) -> str:
    """The phrase with its numbers, as they are now."""
    values = {**vars(protocol), **vars(internal_protocol)}

    def shown_as(match: re.Match[str]) -> str:
        name, form = match.groups()
        value = values[name]
        if form == "KiB":
            assert value % _KIB == 0
            return f"{value // _KIB} KiB"
        return f"{value:,}" if form == "," else f"{value}"

    return re.sub(r"\{([A-Z_]+)(?::(KiB|,))?\}", shown_as, phrase)


@pytest.mark.parametrize("doc", PROSE)
def test_the_documents_say_the_numbers_as_they_are(doc: str) -> None:
    text = " ".join((ROOT / doc).read_text(encoding="utf-8").split())
    assert [phrase for phrase in map(filled, PROSE[doc]) if phrase not in text] == []


def test_numbers_that_the_prose_gives_in_other_units_are_as_it_says() -> None:
    assert protocol.KEEPALIVE_S_MAX == 24 * 3600, "a day"
    assert protocol.BACKOFF_MAX_S == 5 * 60, "5 min"
    assert (protocol.DISPLACED_MIN_S, protocol.DISPLACED_MAX_S) == (60, 3600), "a minute, doubling up to an hour"
    assert protocol.UNKNOWN_SESSION_DELAY_S == protocol.BACKOFF_MIN_S == 1, "a random delay of up to a second"
    assert protocol.WEBSOCKET_TAKEN_FRAMES_MAX * protocol.CLIENT_FRAME_BYTES_MAX == 128 * _KIB


def test_the_table_of_the_protocol_is_the_generated_one() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == document(text), "make docs"


def test_the_numbers_of_the_browser_client_are_the_generated_ones() -> None:
    assert TYPESCRIPT.read_text(encoding="utf-8") == typescript(), "make docs"


def test_values_are_shown_with_their_units() -> None:
    values = {number.name: shown(number) for number in numbers()}
    assert values["CLIENT_FRAME_BYTES_MAX"] == "32 KiB"
    assert values["OBJECT_BYTES_MAX"] == "255 bytes"
    assert values["KEEPALIVE_S_MAX"] == "86,400 s"
    assert values["SILENCE_FACTOR"] == "1.5"
    assert values["DEVICE_PORT"] == "55000"


def constants(path: Path) -> dict[str, float]:
    """The numbers that a module of Python or TypeScript has as constants."""
    form = r"^(?:export const |const )?_?([A-Z][A-Z0-9_]*)(?:: \w+)? = ([0-9][0-9_.]*(?: \* [0-9][0-9_.]*)*);?$"
    found = re.findall(form, path.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: prod(float(factor) for factor in value.split("*")) for name, value in found}


def test_no_other_module_has_a_number_of_the_protocol_under_its_name() -> None:
    ours = {number.name: number.value for number in numbers()}
    ours |= {name: value for name, value in vars(internal_protocol).items() if name.isupper()}
    places = {TYPESCRIPT, *(Path(module.__file__ or "") for module in (protocol, internal_protocol))}
    modules = [path for path in ROOT.rglob("coldnotify*/**/*.py") if ".venv" not in path.parts]
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for path in {*modules, *(ROOT / "clients" / "browser" / "src").rglob("*.ts")} - places
        for name, value in constants(path).items()
        if ours.get(name) == value
    }
    assert found == COPIES


def test_copies_are_true() -> None:
    assert paging.PAGE_BYTES_MAX == internal_protocol.PAGE_BYTES_MAX
    assert half_sets.STALLED_MS == ANSWER_S * 1000
    assert upkeep.GATEWAY_SILENCE_MS_MAX == internal_protocol.GATEWAY_SILENCE_S * 1000
    assert loadtest_device.OBJECTS_A_FRAME == OBJECTS_PER_FRAME_MAX
    assert loadtest_device.KEEPALIVE_S == protocol.KEEPALIVE_S_MAX


def test_a_gateway_grants_what_clients_may_ask_of_it() -> None:
    limits, settings = Limits(), GatewaySettings()
    assert limits.requests_unanswered_max >= REQUESTS_UNANSWERED_MAX
    assert settings.gateway_wait_after_s < WELCOME_S
    assert settings.limits(10) == Limits(connections_max=10, connections_share_max=5, unidentified_share_max=1_000)
