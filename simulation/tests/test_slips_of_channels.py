"""A slip in what tells channels breaks P8 in a random schedule.

Each is a bug that somebody could well write: in the matcher's log, its pages and its subscriptions, in what the gateway
lets overtake, or in the client.
"""

import sys

import pytest
from coldnotify._core.streams.channels import Channels
from coldnotify_gateway.core import WaitingFrames, encoding
from coldnotify_matcher.engine.channel_logs import channel_names, repeats, subscriptions
from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage
from coldnotify_matcher.engine.channel_logs.repeats import Repeats
from coldnotify_matcher.engine.channels import registered_reads
from coldnotify_matcher.engine.channels.channel_paging import CatchingUp
from coldnotify_matcher.engine.channels.registering import Registering
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "a page skips one record": Slip(
        registered_reads,
        "in_block",
        "if one.offset > position and",
        "if one.offset % 3 and one.offset > position and",
        11,
    ),
    "a hand-over is one offset late": Slip(
        CatchingUp,
        "_fill_up",
        "low = min(map(positions.__getitem__, lacking)) + 1",
        "low = min(map(positions.__getitem__, lacking)) + 2",
        11,
    ),
    "what lies between is said of another channel": Slip(
        CatchingUp,
        "_fill",
        "message.fill_in(entry.message, hash_, positions.told[hash_], named=named)",
        "message.fill_in(entry.message, hash_, min(offset, max(positions.told.values())), named=named)",
        11,
    ),
    "a repeat is told after a takeover": Slip(
        Repeats,
        "note",
        "if original < log_start:",
        "if offset >= self.known_from:\n        return original >= log_start\n    if original < log_start:",
        72,
    ),
    "a stray that was moved twice is told twice": Slip(
        repeats,
        "marks_of",
        "if headers.moved is not None:",
        "if headers.moved is not None and not headers.moved:",
        216,
    ),
    "what repeats a message stays a repeat once that is removed": Slip(
        ChannelLog,
        "on_log_start",
        "self._free_repeats()",
        "pass",
        209,
    ),
    "the cursor passes a parked channel": Slip(
        Channels,
        "_leave",
        "if feed.position is None:",
        "if feed.position is None and not feed.items:",
        16,
    ),
    "where it begins is resolved twice": Slip(
        Registering,
        "register",
        "begin = channel.position",
        "self._move(log, client, channel, begin, replayed=replayed)",
        95,
    ),
    "what overtakes moves the cursor": Slip(
        encoding,
        "as_part_of_a_page",
        "message.paged = True",
        'message.paged = said.HasField("missed")',
        205,
    ),
    "a message of high priority overtakes those of its channel": Slip(
        WaitingFrames,
        "overtake",
        "found.append(frame)",
        "found = [frame]; entry = frame.told.entry; "
        "entry and entry.HasField('message') and setattr(entry.message, 'back', frame.told.offset)",
        352,
    ),
    "all channels of a session are taken to be where one is that came first": Slip(
        CatchingUp,
        "_fill",
        "positions.move_on(lacking, next_ - 1)",
        "positions.move_on(positions.at, next_ - 1)",
        11,
    ),
    "a pattern does not hear a channel that was not there": Slip(
        channel_names._Group,
        "put",
        "if key not in self.everything and self.finders:",
        "if not key:",
        1,
    ),
    "a message that a channel and a pattern are told moves the cursor twice": Slip(
        subscriptions,
        "_heard_again",
        "if counts.total() > len(counts)}",
        "if not counts}",
        1,
    ),
    "what lies between is said of the message's channel": Slip(
        ChannelMessage,
        "fill_in",
        "message.back = self.offset - after",
        "message.back = 1 if named else self.offset - after",
        1,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
