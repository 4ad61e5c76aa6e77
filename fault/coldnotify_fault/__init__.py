"""The fault campaign: real processes, a seeded schedule of publishes, clients and faults, then the checker's judgement.

`__main__` is the command, `campaign` runs one seed, `schedule` draws what happens. `services`, `brokers` (one, or with
`--brokers 3` three, of which one at a time is taken away) and `device_host` are the processes, `proxy` the network
between them, `publishers` the back-ends, `told` follows what clients were told, `report` makes the table.
"""
