"""Generators of documents, dashboards and what deploys: they run from a checkout, by `make docs`."""
