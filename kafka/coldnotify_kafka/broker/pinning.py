"""Writes the pins of Kafka's jars: `make pins`, after KAFKA_VERSION was changed.

It also writes `bootstrap.checkpoint` (see `formatting`). Look at the difference before you trust it.
"""

import os
import sys
import tempfile
from pathlib import Path

from coldnotify_kafka.broker.formatting import CHECKPOINT, checkpoint_by_tool
from coldnotify_kafka.broker.jars import fetch_anew
from coldnotify_kafka.broker.java import find_java
from coldnotify_kafka.broker.pins import FILE, read, text_of


def main() -> int:
    """Fetches all jars again, and writes the files."""
    with tempfile.TemporaryDirectory(prefix="coldnotify-pins-") as directory:
        jars = fetch_anew(Path(directory))
        text = text_of(jars)
        java = [str(find_java().path), "-cp", os.pathsep.join(map(str, jars))]
        CHECKPOINT.write_bytes(checkpoint_by_tool(java, Path(directory)))
    before = read(FILE) if FILE.exists() else {}
    FILE.write_text(text)
    after = read(FILE)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    sys.stdout.write(f"{FILE}: {len(after)} jars, {len(changed)} changed {' '.join(changed)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
