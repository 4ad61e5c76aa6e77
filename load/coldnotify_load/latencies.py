"""Latencies as HDR histograms: microseconds with three digits, from 1 us to 10 minutes."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

_LOWEST_US, _HIGHEST_US, _DIGITS = 1, 600_000_000, 3


class Latencies:
    """A histogram that can be sent between processes and merged."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(_LOWEST_US, _HIGHEST_US, _DIGITS)

    def add_ns(self, values_ns: Iterable[int]) -> None:
        """Adds nanoseconds, limited to the range from 1 us to 10 minutes."""
        for value_us, count in Counter(value // 1000 for value in values_ns).items():
            self._histogram.record_value(min(max(value_us, _LOWEST_US), _HIGHEST_US), count)

    def encoded(self) -> bytes:
        """Returns the form that HDR histograms have in all languages (base64 of compressed)."""
        data: bytes = self._histogram.encode()
        return data

    def write(self, path: Path, at_s: float, seconds: float) -> None:
        """Writes a histogram log of one interval, which tools of HDR histograms read and merge: values in us.

        `at_s`: its beginning in Unix time. Raises OSError.
        """
        most = self._histogram.get_max_value() / 1e6
        encoded = self.encoded().decode()
        path.write_text(
            "#[Histogram log format version 1.3]\n"
            '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
            f"{at_s:.3f},{seconds:.3f},{most:.6f},{encoded}\n"
        )

    def merge(self, encoded: bytes) -> None:
        """Add what another one encoded."""
        self._histogram.decode_and_add(encoded)

    @property
    def count(self) -> int:
        """The number of values."""
        return int(self._histogram.get_total_count())

    def percentile_ms(self, percent: float) -> float:
        """The value that this share is at or below."""
        return float(self._histogram.get_value_at_percentile(percent)) / 1000

    def summary(self) -> dict[str, Any]:
        """Mean, median, percentiles, maximum and standard deviation in ms, and how many; without values only that."""
        if not self.count:
            return {"count": 0}
        histogram = self._histogram
        return {
            "count": self.count,
            "mean_ms": round(histogram.get_mean_value() / 1000, 3),
            "p50_ms": round(self.percentile_ms(50), 3),
            "p90_ms": round(self.percentile_ms(90), 3),
            "p95_ms": round(self.percentile_ms(95), 3),
            "p99_ms": round(self.percentile_ms(99), 3),
            "max_ms": round(histogram.get_max_value() / 1000, 3),
            "std_ms": round(histogram.get_stddev() / 1000, 3),
        }
