"""Flow control: how many publishes may be in flight, moved by what their acknowledgements take. Pure.

    permits     a counting semaphore of M permits, which can be resized
    windows     what so many completions took: W, lambda, T, L
    flow_limit  the two with a controller: what a service or a library asks
    beginnings  what is known beforehand of where a limit is used
    pacing      how a producer keeps to the rate at which it is not refused

The controllers, each in a module of its own, are told of a window and say the next M; `controllers` names them all.

    limit = FlowLimit.named(DEFAULT, highest=10_000, begin=KAFKA)
    if limit.take(now_s):
        ...
        limit.acknowledged(now_s, taken_s)  # or limit.failed()

Nothing here has a clock or a lock: the caller brings both.
"""
