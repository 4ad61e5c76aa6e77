"""For tests: records that no honest writer writes, for any of the topics. Pure: drawn by a seeded random generator.

Each begins as a valid record, with keys, gateways and sessions that exist or are made up. Then it is bent: in its
fields, in its bytes, in where and as what it is written. Nobody can detect a record that is plausible in itself and
misleads honest clients, so none is drawn: see `honest`.
"""
