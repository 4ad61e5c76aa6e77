"""A new user's way through ColdNotify with mutual TLS, command by command: certificates, clients, refusals, ledger."""
