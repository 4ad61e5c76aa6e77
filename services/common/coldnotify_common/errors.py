"""Errors for the person who runs a service: one clear line each, never a traceback."""


class ServiceError(Exception):
    """A service cannot do its work. The message is one line for its operator, and the command exits with 1."""


class SettingError(ValueError):
    """A setting cannot be used. The message begins with its variable and flag, and the command exits with 2."""
