"""The gateway: holds the devices' connections and their sessions, but no registrations, and stores nothing."""
