"""The matcher: joins published versions with registrations and addresses the sessions concerned."""
