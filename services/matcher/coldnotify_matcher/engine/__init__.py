"""The matcher's pure core: one engine per partition, events in, outputs out. No I/O, no Kafka, no clock."""

from coldnotify_matcher.engine.channel_logs.message_records import Block, MessageRecord
from coldnotify_matcher.engine.engine import Engine
from coldnotify_matcher.engine.outputs import ProducedRecord, Step
from coldnotify_matcher.engine.rules.retention_rules import RetentionRules, parse_retention
from coldnotify_matcher.engine.rules.rules import CONFLATION_MS_MAX, Intervals, Rules, parse_intervals
from coldnotify_matcher.engine.rules.tuning import Bounds

__all__ = [
    "CONFLATION_MS_MAX",
    "Block",
    "Bounds",
    "Engine",
    "Intervals",
    "MessageRecord",
    "ProducedRecord",
    "RetentionRules",
    "Rules",
    "Step",
    "parse_intervals",
    "parse_retention",
]
