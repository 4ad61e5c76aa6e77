"""`coldnotify bench-sub` and `bench-pub`: two tools that load a running system and measure it."""

import ipaddress
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.settings import settings_options
from coldnotify_common.stop import stop_flag
from coldnotify_schemas.host_port import parse_host_port
from coldnotify_schemas.names import InvalidName, check_name

from coldnotify_cli.credentials import CredentialSettings, http_base, read_token
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import BenchPubSettings, BenchSubSettings

if TYPE_CHECKING:
    from coldnotify_load.tls_device import TlsFiles

_FILE = click.Path(dir_okay=False, path_type=Path)
_PUBLISH_TO = ("kafka", "http", "gateway")
_SOURCES_MAX = 4096
_PAYLOAD_BYTES_MAX = 65_536


def _topics_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that both tools need to mean the same topics."""
    for option in (
        click.option("--channels", is_flag=True, help="Topics are channels, of which every message is owed."),
        click.option("--domain", default="bench", show_default=True, help="Domain of all topics and clients."),
        click.option(
            "--groups",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Groups that topics, and clients, are in by turns.",
        ),
        click.option(
            "--topics",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Topics of all groups together.",
        ),
    ):
        command = option(command)
    return command


@click.command("bench-sub")
@click.option(
    "--transport",
    type=click.Choice(("tcp", "ws", "wss", "mqtt")),
    default="tcp",
    show_default=True,
    help="Protocol of the clients; with --ca-cert or --cert in TLS.",
)
@click.option("--connections", type=click.IntRange(min=1), default=1, show_default=True, help="Number of clients.")
@click.option(
    "--connect-per-s",
    type=click.FloatRange(min=0),
    default=0,
    show_default=True,
    help="Connections that are begun in a second; 0: as many as the machine makes.",
)
@_topics_options
@click.option(
    "--per-client",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Topics of a client, of its group.",
)
@click.option(
    "--assign",
    type=click.Choice(("random", "round-robin", "own")),
    default="round-robin",
    show_default=True,
    help="Choice of a client's topics; own: no other client has them.",
)
@click.option(
    "--warm-up-s", type=click.FloatRange(min=0), default=0, show_default=True, help="Seconds before it measures."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60,
    show_default=True,
    help="Seconds that it measures; Ctrl-C or SIGTERM end it sooner, with the report so far.",
)
@click.option(
    "--settle-s",
    type=click.FloatRange(min=0),
    default=10,
    show_default=True,
    help="Most seconds behind it that what is owed may still come in.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1, max=250),
    help="Processes that the clients are in; default: one for each core, and enough for their open files.",
)
@click.option(
    "--sources",
    metavar="ADDRESS/BITS",
    help="Addresses that clients connect from, in turn: from this one on, to the end of its network.",
)
@click.option("--histogram", type=_FILE, help="FILE for latencies in us: a histogram log (HDR), which tools merge.")
@click.option("--series", type=_FILE, help="FILE for a JSON object per second.")
@click.option(
    "--published", type=_FILE, help="The FILE of bench-pub's --history: says what was sent, and so is owed to clients."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@settings_options(BenchSubSettings)
def command_bench_sub(
    transport: str,
    connections: int,
    connect_per_s: float,
    topics: int,
    groups: int,
    domain: str,
    channels: bool,
    per_client: int,
    assign: str,
    warm_up_s: float,
    seconds: float,
    settle_s: float,
    processes: int | None,
    sources: str | None,
    histogram: Path | None,
    series: Path | None,
    published: Path | None,
    as_json: bool,
    settings: BenchSubSettings,
) -> int:
    """Connect many light clients to gateways, registered for topics that `coldnotify bench-pub` publishes to.

    Prints what they were told of the publishes of --seconds, and how late: latency from the publisher's call to the
    client's, where both are of one machine. Ends with exit code 1 if something owed did not come: an object's newest
    version, or a channel's message. Without --published it is owed as far as any client knows of it. Clients stay
    registered: use a --domain of their own.

    Beforehand it compares the machine's limits with what so many connections need, and says what is missing.
    """
    _need_histograms()
    from coldnotify_load.bench_report import sub_failures, sub_lines
    from coldnotify_load.bench_sub import BenchError, SubPlan, SubRun
    from coldnotify_load.bench_topics import BenchTopics
    from coldnotify_load.machine_limits import FILES_KEPT, SwarmNeeds, missing, read_limits
    from coldnotify_load.swarm import SwarmError
    from coldnotify_load.transports import PORTS, device_of

    _check_domain(domain)
    of_mqtt = transport == "mqtt"
    population = BenchTopics(
        fan_out=1,
        registrations=per_client,
        groups=groups,
        domain=domain,
        # A client that the device protocol has registered cannot come by MQTT.
        prefix="bench-mqtt" if of_mqtt else "bench",
        token=read_token(settings),
        topics=topics,
        per_client=per_client,
        assign=assign,
        channels=channels,
    )
    if problem := population.problem(connections):
        raise click.UsageError(problem)
    addresses = _addresses(settings.gateway or f"127.0.0.1:{PORTS[transport]}")
    tls = _tls(settings, addresses[0][0])
    if transport == "ws" and tls is not None:
        raise click.UsageError("--transport: ws is in the clear; wss takes --ca-cert and --cert")
    if transport == "wss" and tls is None:
        raise click.UsageError("--transport: wss needs --ca-cert, the authorities that have signed the gateways' names")
    from_addresses = _sources(sources)
    limits = read_limits()
    enough = -(-connections // max(1, limits.files - FILES_KEPT))
    wanted = processes or max(min(os.cpu_count() or 1, connections), enough)
    if processes is not None and processes > connections:
        raise click.UsageError(f"--processes: {processes} for {connections} connections leave some without any")
    needs = SwarmNeeds(connections, wanted, len(from_addresses) or 1, len(addresses), tls=tls is not None)
    if lacking := missing(needs, limits):
        raise click.ClickException("\n".join([f"this machine cannot hold {connections:,} connections:", *lacking]))
    plan = SubPlan(
        device_of(transport, tls, channels=channels),
        population,
        _resolved(addresses),
        connections,
        connect_per_s,
        wanted,
        from_addresses,
        warm_up_s,
        seconds,
        settle_s,
        histogram,
        series,
        published,
    )
    with stop_flag() as stop:
        try:
            report = SubRun(plan, stop, lambda line: echo(line, err=True)).run()
        except (BenchError, SwarmError, OSError) as error:
            raise click.ClickException(str(error)) from None
    return _end(report, sub_lines, sub_failures, as_json=as_json)


@click.command("bench-pub")
@_topics_options
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=1,
    show_default=True,
    help="Publishes in a second, to a topic after the other; no publish waits for the answer to the one before.",
)
@click.option(
    "--payload-bytes",
    type=click.IntRange(min=100, max=_PAYLOAD_BYTES_MAX),
    default=140,
    show_default=True,
    help="Bytes of each payload, of which a mark takes up to 100.",
)
@click.option(
    "--poisson/--even",
    default=True,
    show_default=True,
    help="Arrivals as of many independent publishers, or evenly spaced.",
)
@click.option(
    "--publishers", type=click.IntRange(min=1, max=64), default=1, show_default=True, help="Processes that publish."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60,
    show_default=True,
    help="Seconds that it publishes; Ctrl-C or SIGTERM end it sooner, with the report so far.",
)
@click.option(
    "--history",
    type=_FILE,
    help="Append the publishes to the history FILE, for bench-sub --published and coldnotify check.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@settings_options(BenchPubSettings)
@click.pass_context
def command_bench_pub(
    context: click.Context,
    topics: int,
    groups: int,
    domain: str,
    channels: bool,
    rate: float,
    payload_bytes: int,
    poisson: bool,
    publishers: int,
    seconds: float,
    history: Path | None,
    as_json: bool,
    settings: BenchPubSettings,
) -> int:
    """Publish to the topics of `coldnotify bench-sub`, at a rate: to --kafka (default), to --http or to a --gateway.

    Prints what was sent and acknowledged, and how late. Ends with exit code 1 if something was not acknowledged. One
    bench-pub at a time publishes to a topic. Over a gateway's port for devices, at most 64 publishes of each group are
    unanswered.
    """
    _need_histograms()
    from coldnotify_load.bench_pub import PubPlan, PubRun
    from coldnotify_load.bench_report import pub_failures, pub_lines
    from coldnotify_load.bench_topics import BenchTopics
    from coldnotify_load.mark_senders import GatewayMarks, HttpMarks, KafkaMarks, MarkTarget
    from coldnotify_load.open_loop import PublisherError
    from coldnotify_schemas.topics import TopicNames

    _check_domain(domain)
    if groups > topics:
        raise click.UsageError(f"--topics: {topics} are fewer than the groups ({groups}), and some would have none")
    if publishers > topics:
        raise click.UsageError(f"--publishers: {publishers} for {topics} topics leave some without any")
    given = [to for to in _PUBLISH_TO if context.get_parameter_source(to) == ParameterSource.COMMANDLINE]
    if len(given) > 1:
        raise click.UsageError(f"--{given[1]}: publishes go to one of --kafka, --http, --gateway, not to two")
    to = given[0] if given else "kafka"
    settings.retentions()
    population = BenchTopics(fan_out=1, groups=groups, domain=domain, prefix="bench", topics=topics, channels=channels)
    host, port, url, tls = settings.kafka, 0, "", None
    if to == "gateway":
        ((host, port),) = _addresses(settings.gateway)[:1]
        tls = _tls(settings, host)
    elif to == "http":
        url = http_base(settings, settings.http)
        host, tls = url, _tls(settings, "")
    target = MarkTarget(
        {"kafka": "Kafka", "http": "HTTP service", "gateway": "gateway"}[to],
        host,
        port,
        population,
        {"kafka": KafkaMarks, "http": HttpMarks, "gateway": GatewayMarks}[to],
        topics=TopicNames(settings.topics_prefix),
        payload_bytes=payload_bytes,
        publishers=publishers,
        history=history,
        options=read_options(settings.kafka_config),
        retentions=settings.channel_retentions,
        url=url,
        tls=tls,
        token=read_token(settings),
    )
    with stop_flag() as stop:
        try:
            plan = PubPlan(target, population, rate, seconds, poisson)
            report = PubRun(plan, stop, lambda line: echo(line, err=True)).run()
        except (PublisherError, OSError) as error:
            raise click.ClickException(str(error)) from None
    return _end(report, pub_lines, pub_failures, as_json=as_json)


def _end(
    report: dict[str, Any],
    lines: Callable[[dict[str, Any]], list[str]],
    failures: Callable[[dict[str, Any]], list[str]],
    *,
    as_json: bool,
) -> int:
    """Prints the report; returns the exit code."""
    echo(*([json.dumps(report)] if as_json else lines(report)))
    found = failures(report)
    for failure in found:
        echo(f"Error: {failure}", err=True)
    return 1 if found else 0


def _need_histograms() -> None:
    try:
        import hdrh.histogram  # noqa: F401
    except ImportError as error:
        raise click.ClickException(
            f"a bench needs the package {error.name}: pip install 'coldnotify-server[bench]'"
        ) from None


def _check_domain(domain: str) -> None:
    try:
        check_name("domain", domain)
    except InvalidName as error:
        raise click.UsageError(f"--{error}") from None


def _addresses(text: str) -> list[tuple[str, int]]:
    """Returns the gateways' names and ports."""
    found = []
    for one in text.split(","):
        try:
            found.append(parse_host_port(one.strip()))
        except ValueError as error:
            raise click.UsageError(f"--gateway: {one.strip()!r} {error}") from None
    return found


def _resolved(addresses: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Returns an IPv4 address for each name, looked up once and not by each client."""
    found = []
    for host, port in addresses:
        try:
            rows = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
        except OSError as error:
            raise click.UsageError(f"--gateway: {host}: has no IPv4 address: {error.strerror}") from None
        found.append((str(rows[0][4][0]), port))
    return found


def _tls(settings: CredentialSettings, host: str) -> "TlsFiles | None":
    """Returns the identity, checked; None without --ca-cert and --cert."""
    if not settings.ca_cert and not settings.cert:
        return None
    import ssl

    from coldnotify_load.tls_device import TlsFiles, context_of

    files = TlsFiles(settings.ca_cert, settings.cert, settings.key, host)
    try:
        context_of(files)
    except (OSError, ssl.SSLError) as error:
        raise click.UsageError(f"--ca-cert, --cert, --key: cannot be used: {error}") from None
    return files


def _sources(text: str | None) -> tuple[str, ...]:
    """Returns the addresses of --sources."""
    if text is None:
        return ()
    try:
        first = ipaddress.ip_interface(text)
    except ValueError as error:
        raise click.UsageError(f"--sources: {error}") from None
    network = first.network
    last = int(network.broadcast_address) - (1 if network.num_addresses > 2 else 0)
    count = last - int(first.ip) + 1
    if not 0 < count <= _SOURCES_MAX:
        raise click.UsageError(f"--sources: {text} has {max(count, 0)} addresses, expected 1 to {_SOURCES_MAX}")
    return tuple(str(first.ip + number) for number in range(count))
