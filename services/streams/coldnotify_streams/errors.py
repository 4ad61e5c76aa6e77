"""Exceptions that end a run, or drop one of its partitions."""


class RunFailure(Exception):
    """The run cannot continue; a new run begins with what is durable."""


class TakenOver(Exception):
    """Another member has claimed the partition: the state that this one holds is stale."""


class NewerFormat(Exception):
    """A state topic contains a record of a later release: only a process of that release may serve the partition."""
