"""`coldnotify certs`: makes a private certificate authority, and certificates for services, clients and publishers."""

import json
from pathlib import Path

import click
from coldnotify_parts.registry import PARTS

from coldnotify_cli.printing import echo

_HOSTS = ("localhost", "127.0.0.1", "::1")


@click.command("certs")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--client", "clients", metavar="DOMAIN/GROUP/CLIENT", multiple=True, help="Make a certificate for this client."
)
@click.option(
    "--publisher", "publishers", metavar="DOMAIN[,DOMAIN]", multiple=True, help="Make a certificate for this publisher."
)
@click.option(
    "--operator",
    "operators",
    metavar="NAME",
    multiple=True,
    help="Make a certificate for this operator, for all domains.",
)
@click.option(
    "--host", "hosts", metavar="HOST", multiple=True, help="Name or address under which the services are reached."
)
@click.option(
    "--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="Validity of the certificates in days."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command_certs(
    directory: Path,
    clients: tuple[str, ...],
    publishers: tuple[str, ...],
    operators: tuple[str, ...],
    hosts: tuple[str, ...],
    days: int,
    as_json: bool,
) -> int:
    """Make a certificate authority in DIR, certificates for the services, and a key that signs tokens.

    Existing files stay as they are. DIR is for development: `coldnotify up --tls DIR` and `coldnotify token` use it.
    Whoever has DIR/ca.key or DIR/token.key can act as any client.
    """
    from coldnotify_common.security.certificates import Authority
    from coldnotify_common.security.tokens import make_key

    names = [_client(client) for client in clients]
    authority = Authority(directory, days)
    for row in PARTS:
        if row.certificate:
            authority.server(row.name, [*_HOSTS, *hosts])
    authority.inside([*_HOSTS, *hosts])
    for name in names:
        authority.client(*name)
    for publisher in publishers:
        authority.publisher(publisher.split(","))
    for operator in operators:
        authority.operator(operator)
    keys = make_key(directory)
    if as_json:
        made = {"certificates": authority.made, "keys": keys, "authority": [directory / "ca.pem"]}
        echo(json.dumps({name: [str(path) for path in paths] for name, paths in made.items()}))
        return 0
    for path in authority.made:
        echo(f"made {path} and its key")
    for path in keys:
        echo(f"made {path}")
    echo(f"authority {directory / 'ca.pem'}, keep its key to yourself: {directory / 'ca.key'}")
    return 0


def _client(text: str) -> tuple[str, str, str]:
    parts = text.split("/")
    if len(parts) != 3:
        raise click.UsageError(f"--client: {text!r} is not DOMAIN/GROUP/CLIENT")
    return parts[0], parts[1], parts[2]
