"""Examples in the help of commands, by the command's words."""

import click

_CAMERA = "animal.observer region-1 camera-config"
_OBSERVER = "animal.observer region-1 observer-1"
_GROUP = "animal.observer region-1"

EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": ("", "--gateways 2 --matchers 2", "--kafka kafka-1:9092 --replication 3"),
    "broker": ("--nodes 3 --data kafka-data",),
    "topics plan": ("--replication 3",),
    "topics apply": ("--replication 3",),
    "topics dump": ("topics.jsonl",),
    "topics copy": ("--to-prefix b. --partitions 64", "--to-prefix b. --partitions 64 --switch"),
    "topics acls": ("", "--apply"),
    "auto": ("auto.yaml", "auto.yaml --plan"),
    "certs": ("certs --client animal.observer/region-1/observer-1 --operator ada",),
    "token": ("certs/token.key --client animal.observer/region-1/page-1",),
    "publish": (f"{_CAMERA} --version 42 --payload '{{\"fps\": 5}}'",),
    "send": (f"{_GROUP} tasks --payload '\"look north\"'",),
    "describe": (f"{_CAMERA} Kind=configuration fps=8", _CAMERA),
    "watch": (
        f"{_OBSERVER} camera-config",
        f"{_OBSERVER} --channel tasks --since oldest --once",
        f"{_OBSERVER} --channel tasks --share workers --ack",
    ),
    "link": ("/run/coldnotify/link --gateway gateway.example:55000",),
    "check": ("publisher.jsonl device.jsonl topics.jsonl",),
    "state client": (_OBSERVER,),
    "state clients": (_GROUP,),
    "state object": (_CAMERA,),
    "state objects": (f"{_GROUP} --json",),
    "state channel": (f"{_GROUP} tasks",),
    "state channels": (_GROUP, f"{_GROUP} --behind"),
    "state groups": ("--state behind --sort lacking --desc", "--id region --json"),
    "state partitions": ("", "--matcher matcher-1:51001,matcher-2:51001"),
    "state removals": ("", "--confirm"),
    "search": ("observer-1", "camera --limit 10 --json"),
    "who-lacks": (_CAMERA, f"{_CAMERA} --version 41"),
    "explain": (f"{_OBSERVER} camera-config", f"{_OBSERVER} --channel tasks"),
    "top": ("", "--once"),
    "rebalance": ("--plan", "--plan --seconds 60"),
    "doctor": ("", "--kafka kafka-1:9092 --http http-1:55002"),
    "tenant set": ("acme --domain animal.observer --in-per-s 100",),
    "tenant list": ("--json",),
    "tenant show": ("acme",),
    "tenant remove": ("acme",),
    "tenant usage": ("acme --by day",),
    "hook set": (
        f"{_GROUP} billing https://example.org/told --object camera-config",
        f"{_GROUP} audit https://example.org/audit --channel tasks",
    ),
    "hook list": (_GROUP,),
    "hook remove": (f"{_GROUP} billing",),
    "hook test": (f"{_GROUP} billing",),
    "hook rotate": (f"{_GROUP} billing",),
    "object reset": (f"{_CAMERA} --version 1",),
    "client disconnect": (f"{_OBSERVER} --reason maintenance",),
    "client forget": (f"{_OBSERVER} --yes",),
    "bench-sub": (
        "--connections 1000 --topics 100 --groups 4 --seconds 30",
        "--transport ws --connections 1000 --topics 100 --groups 4 --published bench.jsonl",
    ),
    "bench-pub": ("--topics 100 --groups 4 --rate 200 --seconds 20 --history bench.jsonl",),
    "context add": ("prod --http https://notify.example.com --cert ada.pem --key ada.key",),
    "context list": ("",),
    "context remove": ("prod",),
    "kafka-tool": ("topics --bootstrap-server 127.0.0.1:9092 --list",),
}
"""Arguments behind the words."""


def show_examples(command: click.Command, words: str) -> None:
    """Adds examples to the help of this command and of its subcommands."""
    if words in EXAMPLES:
        lines = [f"  coldnotify {words} {arguments}".rstrip() for arguments in EXAMPLES[words]]
        command.epilog = "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *lines])
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            show_examples(one, f"{words} {name}")
