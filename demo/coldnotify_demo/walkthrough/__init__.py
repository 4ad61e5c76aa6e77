"""A new user's way through ColdNotify with mutual TLS, command by command, from certificates to a channel."""
