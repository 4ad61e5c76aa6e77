"""The gateway: holds the devices' connections, knows sessions and not registrations, stores nothing."""
