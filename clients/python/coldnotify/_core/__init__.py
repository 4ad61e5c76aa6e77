"""The client without any I/O: bytes, times and calls go in; actions come out.

Theory of operation
===================
What must survive a power cut is one *document*: the wanted set, the pending operations, the floors (the newest version
of each object that the application has been told), the epoch and the cursor. Everything else may be lost at any
instant. One document is written as a whole, so whatever is true inside it is true after a crash. The library's
promise rests on one sentence about it:

    Of every wanted object, the newest version at or below the cursor has been told to the application,
    or the object is a pending registration.

After a reconnect the service sends what is above the cursor, and answers every pending registration with the newest
version whatever the cursor says. So an object is either told already, or will be sent.
For a query the sentence reads: its members at the cursor have been told, or are in the document as being told, and the
newest version of each has been told; or the query is a pending registration. These modules keep the sentences true:

- `interests/`  What can be registered for (`interests`, `since`). `registrations` holds the wanted set and the pending
  operations, each at a stage: UNSENT -> SENT -> CONFIRMED -> ARRIVED -> gone.
- `streams/`  The two logs that a session follows. `frontier` is the cursor: frames may carry `complete`, a number the
  cursor may become once all that was received up to that frame is applied. What is received and not applied yet holds
  it back. O(1) for every step. `stream` is an Ack's part of one log. `channels` handles channels' messages and their
  callbacks; with `feed` (one channel) and `channel_cursor`. They have a cursor of their own: messages are in another
  log.
- `delivery/`  Versions that wait for callbacks (`delivery`): one `slot` per object, in which a newer version replaces
  an older one that has not begun. Its hold on the frontier ends when the callbacks have returned - or when the object
  becomes a pending registration (nobody subscribed; callbacks failed too often), which is the sentence's second half.
  `floors` holds what callbacks know, `subscribers` whom a version is told, `callback_turns` whose callbacks run next.
  `queries` handles queries' members as the service reports them, with `membership` (one query's sets: as told, as
  reported, as an answer lists them) and `telling` (members callbacks).
- `session/`  One connection (`session`): frames in, frames out. Its phases are a table (`phases`): OPENING, SYNCING,
  CATCHING, LIVE. `session_requests` holds what waits for answers, `reg_sync` a set's chunks, `session_channels` handles
  channels as a whole, `names_in_use` the names of CRCs. `reconnect` says when to connect again, and to which address;
  `standstill` when a connection is doubtful.
- `document/`  The document as JSON (`document`), with the fields of queries and of channels in files of their own.
- `publishing/`  Its publishes, across connections, until they are answered (`publications`). `outgoing` is one publish,
  `outbox_queue` holds the waiting ones in their order, `outbox_log` writes them as bytes.
- `journal`    Counts the document's revisions, and knows which one is on disk. Whatever depends on the document waits
               for it: requests, reg-sync chunks and acknowledgements leave only after their revision is durable.
- `application`  What the application asks for and has been told. Shells hand its calls to it.
- `client`     Holds all of these together: what is to be done.
- `driver`     Decides what to do next: connect, save, send, run a callback, report, close. Shells talk to it and to the
               application's calls alone, and it alone defines an order.
- `wishes`     The application's requests while there is no driver.

The browser's client has the same folders, files and names in `clients/browser/src/core/`; a test compares them.

A shell (`coldnotify._threaded_notify`, `coldnotify.aio`, the simulation's client) owns a socket, a clock and a thread
or task that runs callbacks. It executes the driver's actions, and passes the driver their results. Times are seconds
on any clock that does not jump.

Order that matters
------------------
1. Callbacks return. 2. The floor rises, the hold ends, the cursor moves, a settled registration goes: one revision.
3. That revision is durable. 4. The Ack carries the cursor. A crash between any two of these repeats work, and loses
nothing: before 3 the old document asks for the same again.

A members callback has one step before these: the change that it is told is durable before it begins. The service knows
the present members, and not what an application may have heard before a crash; so a change that was begun is repeated.

What is not obvious
-------------------
- A member's version may be older than the cursor: it comes because the object entered. If a crash comes before it is
  told, and the service forgets who entered when, both have the same sets, and nobody would send the version. Therefore
  the document lists those who entered and were not told (`Kept.entering`), and the query is answered again.
- A reg-sync makes the service's set equal to ours. If we crashed right after it with a document from before it,
  digests would agree, and an object that the service had forgotten for a while would be missed for ever.
  Therefore the whole wanted set becomes pending, durably, before the first chunk leaves.
- For the same reason a Hello waits until the operations that it carries are durable: it, too, makes the sets equal.
- An operation is identified by its Python object, not by its name: an answer to an operation that was replaced in the
  meantime finds that the pending operation is another one, and is ignored.
- A pending registration does not hold the cursor, and is not settled while anything of that object waits in its slot.
- The floor goes with the registration: a client that registers again is told the newest version again.
"""
