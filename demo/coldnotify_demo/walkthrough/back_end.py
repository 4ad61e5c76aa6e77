"""A back-end: publishes, and waits until all registered clients have applied it."""

import ssl

from coldnotify.publisher import NotApplied, Publisher

CERT = "certs/publisher.animal.observer"
tls = ssl.create_default_context(cafile="certs/ca.pem")
tls.load_cert_chain(f"{CERT}.pem", f"{CERT}.key")
with Publisher("127.0.0.1:9092", http="https://127.0.0.1:55002", http_ssl=tls) as publisher:
    published = publisher.publish("animal.observer", "region-1", "camera-config", version=42, payload={"fps": 5})
    print("published version", published.version, flush=True)
    try:
        published.applied_by(1.0, timeout_s=15)
    except NotApplied as error:
        print("not yet:", error, flush=True)
    print("at last:", published.applied_by(1.0, timeout_s=600), flush=True)
