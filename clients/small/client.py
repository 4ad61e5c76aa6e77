#!/usr/bin/env python3
"""A small client of ColdNotify, in one file, without dependencies: what a device needs of it by HTTP.

client.py [OPTIONS] COMMAND ...
  register NAME...       wants the newest versions of objects
  query TEXT...          wants those of objects that fit
  channel NAME [SINCE]   wants all messages of a channel: since now, oldest, newest, an offset, or a time
  sync                   prints what is new, a line of JSON each; then the cursor moves
  publish NAME JSON      publishes a version of an object
  describe NAME JSON     changes an object's description by a merge patch
Options: --addresses HOST:PORT,...  --domain D  --group G  --client C  --state FILE
  --wait S   how long a sync waits for something new, 0 to 60 (0)
  --for S    how long it tries, at all addresses, before it gives up (60)
  --bytes N  how long an answer may be, as bytes (8192)
COLDNOTIFY_TOKEN in the environment is sent as a bearer token. https://HOST:PORT is an address, too.

The first three change the state file alone; the next sync tells the service. Exit codes: 0 done, 1 failed for now, 2
wrong use or refused for good. docs/small-clients.md says more. MicroPython runs it over http.
"""

import json
import os
import random
import socket
import sys
import time

# --- base: the state file, one exchange, the command line

OPTIONS = {"addresses": "", "domain": "", "group": "", "client": "", "state": ""}
OPTIONS.update({"wait": "0", "for": "60", "bytes": "8192"})
ANSWER_BYTES_MAX = 64 * 1024 * 1024
SILENCE_S = 30
"""A service may say nothing for so long, beyond what it was asked to wait."""
clock = getattr(time, "monotonic", time.time)


class Failed(Exception):
    """It may be done later."""


class Refused(Exception):
    """Somebody must change something first."""


def load(path):
    """Returns the state's lines: `cursor TEXT`, `object NAME`, `query TEXT`, `channel SINCE NAME`, `refused LINE`."""
    try:
        with open(path) as file:
            return file.read().split("\n")[:-1]
    except OSError as error:
        if error.errno != 2:  # ENOENT: it is new
            raise
        return []


def save(path, lines):
    """Writes the state whole and puts it in the place of the one before: after a crash one of the two is there."""
    with open(path + ".new", "w") as file:
        file.write("".join(line + "\n" for line in lines))
        file.flush()
        keep(file)
    os.rename(path + ".new", path)


def texts(lines, kind):
    """Returns the texts of the lines of a kind."""
    return [line[len(kind) + 1 :] for line in lines if line.startswith(kind + " ")]


def name_in(line):
    """Returns the name or text that a line of the wanted set is about; None for another line."""
    kind, _, rest = line.partition(" ")
    return rest.partition(" ")[2] if kind == "channel" else rest if kind in ("object", "query") else None


def keep(file):
    """Has what was written outlast a power cut, where it is a file."""
    try:
        os.fsync(file.fileno())
    except (AttributeError, OSError):
        pass  # it is a pipe or a terminal, or MicroPython, which has none


def path_of(options, name):
    """Returns an object's path."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~"
    quoted = "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in name.encode())
    return "/v1/domains/" + options["domain"] + "/groups/" + options["group"] + "/objects/" + quoted


def exchange(address, method, path, body, silence_s):
    """Returns status, Retry-After in s, and the JSON object of one answer. Raises OSError, ValueError, IndexError.

    The request is one of HTTP/1.0: its answer ends with the connection, and has no chunks.
    """
    authority = address.split("://")[-1]
    host, _, port = authority.rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), int(port), 0, socket.SOCK_STREAM)[0]
    data = json.dumps(body).encode()
    head = [method + " " + path + " HTTP/1.0", "Host: " + authority, "Content-Type: application/json"]
    head.append(f"Content-Length: {len(data)}")
    if os.getenv("COLDNOTIFY_TOKEN"):
        head.append("Authorization: Bearer " + os.getenv("COLDNOTIFY_TOKEN"))
    request, answer = "\r\n".join(head).encode() + b"\r\n\r\n" + data, b""
    connection = socket.socket(found[0], found[1])
    try:
        connection.settimeout(silence_s)
        connection.connect(found[-1])
        if address.startswith("https://"):
            import ssl

            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=host)
        while request:
            request = request[connection.send(request) :]
        part = connection.recv(65536)
        while part and len(answer) < ANSWER_BYTES_MAX:
            answer += part
            part = connection.recv(65536)
    finally:
        connection.close()
    lines, _, text = answer.partition(b"\r\n\r\n")
    lines = lines.decode().lower().split("\r\n")
    after_s = [int(line.split(":")[1]) for line in lines if line.startswith("retry-after:")]
    said = json.loads(text.decode())
    return int(lines[0].split()[1]), after_s[0] if after_s else 0, said if isinstance(said, dict) else {}


def main(words):
    """Does what the command line says. Returns the exit code."""
    options = dict(OPTIONS)
    try:
        while words and words[0].startswith("--") and words[0][2:] in options and len(words) > 1:
            options[words[0][2:]] = words[1]
            words = words[2:]
        lacking = ["--" + name for name in options if not options[name]]
        least, most, do = COMMANDS.get(words[0] if words else "", (1, 0, None))
        if lacking or not least <= len(words) - 1 <= most:
            raise Refused("wrong use: no such command, other words, or not said: " + " ".join(lacking) + "\n" + __doc__)
        do(options, *words[1:])
    except (Failed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except (Refused, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


# --- failover: another address, or another time


def ask(options, method, path, body, key, wait_s=0):
    """Returns the first answer that has `key`. Raises Refused, and Failed when the time is over.

    An address that cannot be reached, cannot answer now or answers nonsense leaves the next one to be asked at once.
    After all of them, and where the service itself says that it is too early (409, 429), there is a pause: Retry-After,
    or a random one below a bound that doubles from 1 s to 300 s.
    """
    addresses = [one for one in options["addresses"].split(",") if one]
    end_s, bound_s, least_s, asked = clock() + wait_s + float(options["for"]), 1, 0, 0
    while True:
        address, asked = addresses[asked % len(addresses)], asked + 1
        status, after_s, problem = 0, 0, ""
        try:
            status, after_s, said = exchange(address, method, path, body, SILENCE_S + wait_s)
            if status == 200 and key in said:
                return said
            problem = f"{status} " + str(said.get("error", "without " + key))
        except (OSError, ValueError, IndexError) as error:
            problem = f"no whole answer: {error}"
        early = status in (409, 429)
        if 400 <= status < 500 and not early and status != 408:
            raise Refused(problem)
        least_s = max(least_s, after_s)
        if asked % len(addresses) and not early:
            continue
        pause_s = max(least_s, random.random() * bound_s)
        if clock() + pause_s > end_s:
            raise Failed(f"{address}: {problem}; come back in {int(pause_s) + 1} s")
        time.sleep(pause_s)
        bound_s, least_s = min(300, bound_s * 2), 0


# --- subscriber


def want(options, *lines):
    """Adds lines to the wanted set. Raises Refused for a name that does not fit into a line."""
    state = load(options["state"])
    for line in lines:
        if not line.split(" ", 1)[1] or min(line) < " ":
            raise Refused("a name is empty, or has a control character: " + repr(line))
        if line not in state:
            state.append(line)
    save(options["state"], state)


def sync(options):
    """Prints what is new. The cursor moves when that is written; so until there is no more."""
    wait_s, more = float(options["wait"]), True
    while more:
        lines = load(options["state"])
        cursor, objects, queries, channels = [texts(lines, kind) for kind in ("cursor", "object", "query", "channel")]
        body = {name: options[name] for name in ("domain", "group", "client")}
        body.update(registrations=objects, queries=queries, cursor=cursor[0] if cursor else None)
        body["channels"] = {one.split(" ", 1)[1]: one.split(" ", 1)[0] for one in channels}
        body.update(wait_s=wait_s, bytes_max=int(options["bytes"]))
        answer = ask(options, "POST", "/v1/sync", body, "cursor", wait_s)
        refused = answer.get("refused", {})
        for told in answer["notifications"] + ([{"refused": refused}] if refused else []):
            print(json.dumps(told))
        sys.stdout.flush()
        keep(sys.stdout)
        kept = ["refused " + one if name_in(one) in refused else one for one in lines if one.split(" ")[0] != "cursor"]
        save(options["state"], ["cursor " + (answer["cursor"] or "")] + kept)
        wait_s, more = 0, answer.get("more")


# --- publisher


def publish(options, name, payload):
    """Publishes a version. Without one said, Kafka's time is its number, so the device's clock does not matter."""
    record = {"payload": json.loads(payload)}
    print(json.dumps(ask(options, "POST", path_of(options, name), record, "offset")))


def describe(options, name, patch):
    """Changes an object's description by a JSON merge patch."""
    print(json.dumps(ask(options, "PATCH", path_of(options, name) + "/description", json.loads(patch), "revision")))


# --- base: commands, with how many words each has

COMMANDS = {
    "register": (1, 10000, lambda options, *names: want(options, *["object " + name for name in names])),
    "query": (1, 1, lambda options, text: want(options, "query " + text)),
    "channel": (1, 2, lambda options, name, since="now": want(options, "channel " + since + " " + name)),
    "sync": (0, 0, sync),
    "publish": (2, 2, publish),
    "describe": (2, 2, describe),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
