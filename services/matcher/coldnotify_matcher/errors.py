"""Why a run of the matcher ends."""


class Failure(Exception):
    """The run cannot go on; what is durable is enough to begin anew."""
