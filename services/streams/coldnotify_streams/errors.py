"""Why a run ends, or why one of its partitions is dropped."""


class Failure(Exception):
    """The run cannot go on; what is durable is enough to begin anew."""


class TakenOver(Exception):
    """Another member has claimed the partition: whatever this one still knows of it is stale."""


class NewerFormat(Exception):
    """A record of a later release stands in a state topic: only a process of that release may serve the partition."""
