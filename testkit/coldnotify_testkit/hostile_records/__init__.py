"""For tests: records that nobody honest writes, for any of the topics. Pure: drawn by a seeded random generator.

Each begins as a valid record, with keys, gateways and sessions that there are or made-up ones, and is bent: in its
fields, in its bytes, in where and as what it is written. What is believable by itself and would tell honest clients
something wrong cannot be found out by anybody, and is not drawn: see `honest`.
"""
