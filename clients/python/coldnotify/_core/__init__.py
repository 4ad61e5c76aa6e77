"""The client without any I/O: bytes, times and calls go in; actions come out.

Theory of operation
===================
What must survive a power cut is one *document*: the wanted set, the pending operations, the floors (the newest version
of each object that the application has been told), the epoch and the cursor. Everything else may be lost at any
instant. One document is written as a whole, so whatever is true inside it is true after a crash. The library's
promise rests on one sentence about it:

    Of every wanted object, the newest version at or below the cursor has been told to the application,
    or the object is a pending registration.

The service sends, after a reconnect, what lies above the cursor, and answers every pending registration with the newest
version whatever the cursor says. So an object is either told already, or will be sent.
For a query it reads: what its members are at the cursor has been told, or is in the document as being told, and the
newest version of each has been told; or the query is a pending registration. Who keeps these sentences true:

- `frontier`   The cursor. Frames may carry `complete`: a number the cursor may become once all that was received up
               to that frame is applied. What is received and not applied yet holds it back. O(1) for every step.
- `delivery`   What waits for its callbacks: one `slot` per object, in which a newer version replaces an older one that
               has not begun. Its hold on the frontier ends when the callbacks have returned - or when the object
               becomes a pending registration (nobody subscribed; callbacks failed too often), which is the sentence's
               second half.
- `registrations`  The wanted set and the pending operations, each at a stage: UNSENT -> SENT -> CONFIRMED -> ARRIVED
  -> gone.
- `queries`    What the service says of queries' members. What differs between a name and a query is here, in
               `interests` (what can be registered for), `membership` (one query's sets: as told, as the service said,
               as an answer says) and `telling` (members callbacks).
- `channels`   What the service says of channels, and what their callbacks are told; with `feed` (one channel), `since`
  (where it begins) and `channel_cursor`. They have a cursor of their own: messages are in another log.
- `journal`    Counts the document's revisions, and knows which one is on disk. What rests on the document waits for it:
               requests, reg-sync chunks and acknowledgements leave only after the revision that they belong to is
               durable.
- `session`    One connection: frames in, frames out. Its phases are a table (`phases`): OPENING, SYNCING, CATCHING,
               LIVE. What concerns channels as a whole is in `session_channels`, what a CRC means in `names_in_use`.
- `publications`  What it publishes, across connections, until it is answered. `outgoing` is what is published,
               `outbox_queue` what waits of it, in which order, `outbox_log` that as bytes.
- `reconnect`  When to connect again, and where.
- `document`   The document as JSON.
- `client`     Holds all of these together: what there is to do.
- `driver`     Says what to do next: connect, save, send, run a callback, report, close. It is the only thing that a
               shell talks to, and the only place that knows an order.
- `wishes`     What the application asks for while there is no driver.

A shell (`coldnotify._threaded_notify`, `coldnotify.aio`, the simulation's client) owns a socket, a clock and a thread
or task that runs callbacks. It executes the driver's actions, and tells the driver what came of each. Times are seconds
on any clock that does not jump.

Order that matters
------------------
1. Callbacks return. 2. The floor rises, the hold ends, the cursor moves, a settled registration goes: one revision.
3. That revision is durable. 4. The Ack says the cursor. A crash between any two of these repeats work, and loses
nothing: before 3 the old document asks for the same again.

A members callback has one step more in front: what it is told is durable before it begins. The service tells where a
name stands, and not what an application may have heard of it before a crash; so a change that was begun is told again.

What is not obvious
-------------------
- A member's version may be older than the cursor: it comes because the object entered. If a crash comes before it is
  told, and the service forgets who entered when, both have the same sets, and nobody would send the version. Therefore
  the document says who entered and was not told (`Kept.entering`), and the query is answered again.
- A reg-sync makes the service's set equal to ours. If we crashed right after it with a document that knows nothing of
  it, digests would agree, and an object that the service had forgotten for a while would be missed for ever.
  Therefore the whole wanted set becomes pending, durably, before the first chunk leaves.
- For the same reason a Hello waits until the operations that it carries are durable: it, too, makes the sets equal.
- An operation is identified by its Python object, not by its name: an answer to an operation that was replaced in the
  meantime finds that the pending operation is another one, and is ignored.
- A pending registration does not hold the cursor, and is not settled while anything of that object waits in its slot.
- The floor goes with the registration: who registers again is told the newest version again.
"""
