"""A client written from docs/protocol.md alone: protobuf, a TCP socket, a state on disk, and nothing of the library.

Where this package does what the document does not say, the document is wrong. `device` is its core, without I/O;
`objects` and `channels` are what it does with what it is told; `link` connects one to a gateway.
"""
