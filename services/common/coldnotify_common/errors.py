"""Errors that are for the person who runs a service: one clear line each, never a traceback."""


class ServiceError(Exception):
    """A service cannot do its work; the message is one line for its operator. The command exits with 1."""


class SettingError(ValueError):
    """A setting that cannot be used; the message begins with its variable and flag. The command exits with 2."""
