"""The fault campaign: real processes, a seeded schedule of publishes, clients and faults, judged from outside."""
