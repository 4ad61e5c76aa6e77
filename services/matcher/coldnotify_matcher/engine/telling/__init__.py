"""Telling sessions: fan-out, conflation, pages, answers."""
