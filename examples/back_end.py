"""Publishes the configuration of a camera, and waits until nine of ten registered devices have applied it."""

from coldnotify.publisher import NotApplied, Publisher

with Publisher("127.0.0.1:9092", http="127.0.0.1:55002") as publisher:
    published = publisher.publish("animal.observer", "region-1", "camera-config", payload={"fps": 5})
    print(published.outcome())
    try:
        print(published.applied_by(0.9, timeout_s=60))
    except NotApplied as error:
        print("not yet:", error)
