"""The part that calls webhooks. Each is a client of the service, whose callbacks are POST requests."""
