"""Tenants at one matcher: what each may have and be told, and what it used."""
