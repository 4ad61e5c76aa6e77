"""What makes a gateway begin anew."""


class Reload(Exception):
    """What the gateway knows no longer holds (topics made anew, a producer that failed for good): it begins anew."""
