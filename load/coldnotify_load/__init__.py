"""The load of a running system: light devices, publishers by a schedule, latencies as histograms."""
