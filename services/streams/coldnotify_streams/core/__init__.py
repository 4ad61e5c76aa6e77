"""The pure core of a stream job: the order of a step, commits, faults, the standby. No I/O, no Kafka, no clock."""
