"""The error that makes a gateway begin a new run."""


class Reload(Exception):
    """The gateway must begin a new run, because its state is invalid (topics were recreated, or a producer has
    failed)."""
