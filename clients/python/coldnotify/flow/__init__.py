"""Flow control: adapts how many publishes may be in flight to their acknowledgements. Pure.

    permits     a counting semaphore of M permits, which can be resized
    windows     measurements over so many completions: W, lambda, T, L
    flow_limit  the two with a controller: the interface for services and libraries
    beginnings  what is known beforehand of where a limit is used
    pacing      keeps a producer at the rate at which it is not refused

The controllers, each in its own module, get a window and return the next M; `controllers` names them all.

    limit = FlowLimit.named(DEFAULT, highest=10_000, begin=KAFKA)
    if limit.take(now_s):
        ...
        limit.acknowledged(now_s, taken_s)  # or limit.failed()

Nothing here has a clock or a lock: the caller brings both.
"""
