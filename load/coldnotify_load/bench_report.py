"""Reports of bench-sub and bench-pub as lines of text, and what of them is a failure. Pure."""

from collections.abc import Mapping
from typing import Any


def sub_failures(report: Mapping[str, Any]) -> list[str]:
    """Returns why bench-sub's run has failed; nothing: it has not."""
    found = []
    if report["processes_gone"]:
        found.append(f"{report['processes_gone']} processes of clients have ended")
    if report["lost"]:
        found.append(f"{report['lost']:,} of {report['expected']:,} did not come")
    return found


def pub_failures(report: Mapping[str, Any]) -> list[str]:
    """Returns why bench-pub's run has failed; nothing: it has not."""
    missing = report["sent"] - report["acknowledged"]
    why = f": {report['why']}" if report["why"] else ""
    return [f"{missing:,} of {report['sent']:,} were not acknowledged{why}"] if missing else []


def sub_lines(report: Mapping[str, Any]) -> list[str]:
    """Returns the report of bench-sub."""
    lines = [
        f"connections   {report['complete']:,} of {report['connections']:,} complete at the end; "
        f"{report['connections_lost']:,} were lost meanwhile"
    ]
    at = report["connections_at"]
    lines += [f"  at {address}  {count:,}" for address, count in at["addresses"].items()]
    lines += [f"  gateway with pid {pid}  {count:,}" for pid, count in at["gateways"].items()]
    if report["sent"] is not None:
        lines.append(f"publishes     {report['sent']:,} sent, {report['acknowledged']:,} acknowledged")
    lines.append(
        f"deliveries    {report['expected']:,} expected, {report['received']:,} received, "
        f"{report['outdone']:,} outdone, {report['lost']:,} lost"
    )
    lines.append(f"latency       {_latency(report['latency'])}")
    if report["without_clock"]:
        lines.append(f"  {report['without_clock']:,} came from another machine: no latency without a common clock")
    lines.append(
        f"throughput    {report['received'] / report['seconds']:,.1f} deliveries/s, {report['gbit_per_s']:g} Gbit/s"
    )
    lines += _cpu(report["cpu_s"], report["seconds"])
    return lines


def pub_lines(report: Mapping[str, Any]) -> list[str]:
    """Returns the report of bench-pub."""
    return [
        f"publishes     {report['sent']:,} sent in {report['seconds']:g} s ({report['sent_per_s']:,}/s), "
        f"{report['acknowledged']:,} acknowledged, {report['failed']:,} failed or unknown",
        f"acknowledged  after {_latency(report['acknowledged_after'])}",
        f"late          p99 {report['late_p99_ms']:g} ms behind the schedule",
    ]


def _latency(summary: Mapping[str, Any]) -> str:
    if not summary["count"]:
        return "none measured"
    names = ("mean", "p50", "std", "p90", "p95", "p99", "max")
    words = {"p50": "median", "std": "sd"}
    return ", ".join(f"{words.get(name, name)} {summary[f'{name}_ms']:g}" for name in names) + " ms"


def _cpu(cpu_s: Mapping[str, float], seconds: float) -> list[str]:
    return [f"CPU           {role} {used / seconds:.2f} cores" for role, used in cpu_s.items()]
