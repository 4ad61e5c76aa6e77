"""A client written from docs/protocol.md alone: protobuf, a TCP socket, a state on disk, and nothing of the library.

If this package has to do what the document does not describe, the document is wrong. `device` is its core, without I/O;
`objects` and `channels` handle what it receives; `link` connects one to a gateway.
"""
