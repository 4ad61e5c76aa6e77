"""Webhooks, as far as the HTTP service and the part that calls them share it: records, URLs, signatures."""
