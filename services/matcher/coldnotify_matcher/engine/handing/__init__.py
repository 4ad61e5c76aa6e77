"""Hands messages of shares to their members, and hears from them of what is in hand."""
