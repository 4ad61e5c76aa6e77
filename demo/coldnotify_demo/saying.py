"""One line for everything that a process of the demo does: words for people, facts for whoever checks."""

import json
import os
import time

JSON_LINES = "DEMO_SAYS_JSON"
"""The environment variable that turns the lines into JSON; the director sets it and shows the words."""


def say(words: str, **facts: object) -> None:
    """Prints `words`; where the director listens, a JSON object of "words", "time_s" (Unix time) and the facts."""
    if os.environ.get(JSON_LINES):
        words = json.dumps({"words": words, "time_s": time.time(), **facts})
    print(words, flush=True)
