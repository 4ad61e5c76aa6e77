"""`coldnotify token`: a signed token for a client or publisher, for development."""

import datetime as dt
import json
import time
from pathlib import Path

import click

from coldnotify_cli.printing import echo


@click.command("token")
@click.argument("key", metavar="KEYFILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--client", metavar="DOMAIN/GROUP/CLIENT", help="Client that the token proves; each part may end in * (any)."
)
@click.option("--publisher", metavar="DOMAIN[,DOMAIN]", help="Domains that the token may publish to and look into.")
@click.option(
    "--hours",
    type=click.FloatRange(0, 24 * 365, min_open=True),
    default=24,
    show_default=True,
    help="Validity of the token in hours.",
)
@click.option("--json", "as_json", is_flag=True, help="Print token, id and expiry as one JSON object.")
@click.option("--audience", default="", help="The token's `aud`, if the services require one (--auth-token-audience).")
def command_token(
    key: Path, client: str | None, publisher: str | None, hours: float, audience: str, as_json: bool
) -> int:
    """Print a token that is signed with KEYFILE: token.key of `coldnotify certs`, or another private key or secret.

    Services accept it with --auth token or any, and --auth-token-key token.pem. Prints its id and expiry on stderr.
    """
    from coldnotify_common.security.tokens import Grant, sign

    names = None if client is None else tuple(client.split("/"))
    if names is not None and len(names) != 3:
        raise click.UsageError(f"--client: {client!r} is not DOMAIN/GROUP/CLIENT")
    if names is None and publisher is None:
        raise click.UsageError("--client, --publisher: at least one of them is needed")
    grant = Grant(names, publisher.split(",") if publisher is not None else (), audience)
    token = sign(key, grant, time.time(), hours * 3600)
    if as_json:
        echo(json.dumps({"token": token.text, "id": token.id, "expires_at": int(token.expires_at_s)}))
        return 0
    end = dt.datetime.fromtimestamp(token.expires_at_s, dt.UTC)
    echo(f"token {token.id}, valid until {end:%Y-%m-%d %H:%M:%S} UTC", err=True)
    echo(token.text)
    return 0
