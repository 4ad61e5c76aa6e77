"""Identities by certificate or token, TLS, and shares of what strangers may take."""
