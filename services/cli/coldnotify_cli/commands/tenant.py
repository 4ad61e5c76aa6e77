"""`coldnotify tenant set|list|show|remove|usage`: who may publish how much; agreements as Kafka has them."""

import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click
from coldnotify_common.settings import ServiceSettings, settings_options
from coldnotify_schemas.tenant_usage import GAUGES
from coldnotify_schemas.tenants import Agreement, InvalidTenant, Tenant, check_tenant_name, fields_of, tenant_of

from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings, TenantSettings
from coldnotify_cli.suggesting_group import SuggestingGroup
from coldnotify_cli.tables import print_list, print_one, print_table
from coldnotify_cli.waiting_notice import waiting_notice

if TYPE_CHECKING:
    from coldnotify_common.tenancy.tenant_store import StoredTenants

_NONE = "none"
"""The value that removes a limit or a principal."""
_DOMAINS_SHOWN = 3
_AGREED = {
    "in_per_s": "Publishes per second.",
    "in_bytes_per_s": "Bytes of publishes per second, keys and values.",
    "out_per_s": "Deliveries per second: a publish counts for each session that is told of it.",
    "out_bytes_per_s": "Bytes of deliveries per second.",
    "burst_s": "Seconds of each rate that may come at once.",
    "objects_max": "Objects.",
    "clients_max": "Clients that are connected at the same time.",
    "registrations_max": "Registrations.",
    "high_priority_share": "Part of its publishes that may be of high priority, 0 to 1.",
    "over": "Treatment of deliveries above the agreement: conflate (merge and delay them) or refuse (also publishes).",
}
_WHOLE = ("objects_max", "clients_max", "registrations_max")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class _Number(click.ParamType):
    """A number, or none."""

    def __init__(self, *, whole: bool) -> None:
        self.name = "whole number" if whole else "number"
        self._whole = whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if value == _NONE:
            return _NONE
        try:
            return int(value) if self._whole else float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a {self.name} nor {_NONE}", param, ctx)


def _agreement_options(command: Callable[..., int]) -> Callable[..., int]:
    """An option for each field of an agreement."""
    for field, words in reversed(_AGREED.items()):
        kind: click.ParamType = click.STRING if field == "over" else _Number(whole=field in _WHOLE)
        metavar = "refuse|conflate" if field == "over" else "N"
        command = click.option(f"--{field.replace('_', '-')}", field, type=kind, metavar=metavar, help=words)(command)
    return command


@click.group("tenant", cls=SuggestingGroup)
def command_tenant() -> None:
    """Say who is a tenant and what was agreed with it; show what it uses."""


@command_tenant.command("set")
@click.argument("name")
@click.option(
    "--domain",
    "domains",
    metavar="D",
    multiple=True,
    help="Domain of the tenant; give all of them, each with --domain.",
)
@_agreement_options
@click.option(
    "--principal", metavar="USER", help="Kafka user that publishes for the tenant; its quota in Kafka is set, too."
)
@_json_option
@settings_options(TenantSettings)
def set_tenant(
    name: str,
    domains: tuple[str, ...],
    principal: str | None,
    as_json: bool,
    settings: TenantSettings,
    **agreed: object,
) -> int:
    """Set the agreement of the tenant NAME; what is not given stays as it is, and at first has no limit.

    The value none removes a limit. The tenant `default` has all domains that no other tenant names. A domain that
    belongs to another tenant is refused. With --principal, each Kafka node slows that user's writes down to
    --in-bytes-per-s, which must be set, too.
    """
    stored = _read(settings)
    before = stored.table.get(name)
    fields: dict[str, object] = fields_of(before) if before is not None else {}
    given = {**agreed, "principal": principal, "domains": list(domains) or None}
    fields.update({field: value for field, value in given.items() if value is not None})
    try:
        tenant = tenant_of(name, {field: value for field, value in fields.items() if value != _NONE})
    except InvalidTenant as error:
        raise _usage_error(error) from None
    if (clash := stored.table.clashes(tenant)) is not None:
        raise click.ClickException(clash)
    if tenant.principal is not None and tenant.agreement.in_bytes_per_s is None:
        raise click.UsageError("--principal: Kafka's quotas are in bytes, so --in-bytes-per-s must be set, too")
    from coldnotify_common.tenancy.tenant_store import write_tenant

    with _asking(settings):
        write_tenant(_service_settings(settings), tenant, settings.topics_timeout_s)
    _bring_quotas(before, tenant, settings)
    if as_json:
        echo(json.dumps(_shown(tenant), ensure_ascii=False))
    else:
        print_one(_row(tenant))
    return 0


@command_tenant.command("list")
@_json_option
@settings_options(TenantSettings)
def list_tenants(as_json: bool, settings: TenantSettings) -> int:
    """List all tenants, and records that cannot be read. Exit code 1 if there are any of these."""
    stored = _read(settings)
    tenants = stored.table.all()
    code = print_list((_shown(one) if as_json else _row(one) for one in tenants), as_json)
    for key, reason in stored.damaged.items():
        echo(f"{key!r}: cannot be read: {reason}", err=True)
    for domain, names in stored.table.conflicts().items():
        echo(f"domain {domain}: several tenants name it ({', '.join(names)}); it belongs to {names[0]}", err=True)
    return 1 if stored.damaged or stored.table.conflicts() else code


@command_tenant.command("show")
@click.argument("name")
@_json_option
@settings_options(TenantSettings)
def show_tenant(name: str, as_json: bool, settings: TenantSettings) -> int:
    """Show the agreement of the tenant NAME."""
    stored = _read(settings)
    tenant = stored.table.get(name)
    if tenant is None:
        raise click.ClickException(_missing(name, stored))
    if as_json:
        echo(json.dumps(_shown(tenant), ensure_ascii=False))
    else:
        print_one({**_row(tenant), "domains": " ".join(tenant.domains) or "(all others)"})
    return 0


@command_tenant.command("remove")
@click.argument("name")
@_json_option
@settings_options(TenantSettings)
def remove(name: str, as_json: bool, settings: TenantSettings) -> int:
    """Remove the tenant NAME: its domains belong to `default` from now on, and Kafka's quota is removed."""
    try:
        check_tenant_name(name)
    except InvalidTenant as error:
        raise click.UsageError(str(error)) from None
    stored = _read(settings)
    before = stored.table.get(name)
    if before is None and name not in stored.damaged:
        raise click.ClickException(_missing(name, stored))
    from coldnotify_common.tenancy.tenant_store import remove_tenant

    with _asking(settings):
        remove_tenant(_service_settings(settings), name, settings.topics_timeout_s)
    _bring_quotas(before, None, settings)
    echo(json.dumps({"tenant": name, "removed": True}) if as_json else f"{name}: removed")
    return 0


@command_tenant.command("usage")
@click.argument("name")
@click.option("--by", type=click.Choice(["hour", "day"]), default="hour", show_default=True, help="Hours or days.")
@click.option("--last", type=click.IntRange(min=1), help="Number of hours or days; default: 24 hours, or 7 days.")
@_json_option
@settings_options(HttpNodeSettings)
def usage(name: str, by: str, last: int | None, as_json: bool, settings: HttpNodeSettings) -> int:
    """Show what the tenant NAME uses now, and what it used by hour or by day (UTC).

    Asks the HTTP service, for which the job `coldnotify usage` counts. For operators, and whoever may publish to a
    domain of the tenant.
    """
    shown = HttpNode(settings).get("tenants", name, "usage", by=by, last=last)
    if as_json:
        echo(json.dumps(shown))
        return 0
    now = shown["now"]
    if now is None:
        echo(f"{name}: nothing is measured at the moment (is `coldnotify usage` running?)")
    else:
        rates = {field: value for field, value in now["per_s"].items() if value}
        words = ", ".join(f"{field} {value:g}/s" for field, value in rates.items()) or "nothing"
        echo(f"{name} now: {words}")
        held = {field: now.get("gauges", {}).get(field, 0) for field in GAUGES}
        echo(f"{name} has: " + ", ".join(f"{field} {count}" for field, count in held.items()))
        if now.get("exceeded"):
            echo(f"above the agreement: {', '.join(now['exceeded'])}")
    print_table(shown["items"])
    return 0


def _read(settings: TenantSettings) -> "StoredTenants":
    from coldnotify_common.tenancy.tenant_store import read_tenants

    with _asking(settings):
        return read_tenants(_service_settings(settings), settings.topics_timeout_s)


def _bring_quotas(before: Tenant | None, after: Tenant | None, settings: TenantSettings) -> None:
    """Sets Kafka's quotas as the agreement requires. The record in Kafka's topic counts, even if this fails."""
    from coldnotify_kafka.client_quotas import remove_producer_quota, set_producer_quota
    from coldnotify_kafka.errors import ColdNotifyKafkaError

    options: dict[str, Any] = {
        "command_config": settings.tenant_command_config,
        "timeout_s": settings.topics_timeout_s,
    }
    principal = after.principal if after is not None else None
    try:
        if before is not None and before.principal not in (None, principal):
            remove_producer_quota(settings.kafka, before.principal or "", **options)
        if after is not None and principal is not None:
            bytes_per_s = max(1, int(after.agreement.in_bytes_per_s or 0))
            set_producer_quota(settings.kafka, principal, bytes_per_s, **options)
    except ColdNotifyKafkaError as error:
        raise click.ClickException(f"the agreement is written, but not Kafka's quota: {error}") from None


def _asking(settings: TenantSettings) -> AbstractContextManager[None]:
    # librdkafka's own lines say the same as the one error that is shown.
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    return waiting_notice(f"Kafka ({settings.kafka})", settings.topics_timeout_s)


def _service_settings(settings: TenantSettings) -> ServiceSettings:
    return ServiceSettings(
        kafka=settings.kafka, kafka_config=settings.kafka_config, topics_prefix=settings.topics_prefix
    )


def _shown(tenant: Tenant) -> dict[str, Any]:
    return {"tenant": tenant.name, **fields_of(tenant)}


def _row(tenant: Tenant) -> dict[str, Any]:
    """All fields, so that each is a column."""
    domains = " ".join(tenant.domains[:_DOMAINS_SHOWN]) or "(all others)"
    if (more := len(tenant.domains) - _DOMAINS_SHOWN) > 0:
        domains += f" and {more} more"
    agreed = {field: getattr(tenant.agreement, field) for field in Agreement.__struct_fields__}
    return {"tenant": tenant.name, "domains": domains, **agreed, "principal": tenant.principal}


def _missing(name: str, stored: "StoredTenants") -> str:
    reason = stored.damaged.get(name)
    return f"tenant {name}: cannot be read: {reason}" if reason else f"tenant {name}: is not known"


def _usage_error(error: InvalidTenant) -> click.UsageError:
    field, colon, words = str(error).partition(": ")
    known = field in _AGREED or field == "principal"
    name = f"--{field.replace('_', '-')}" if known else "--domain" if field == "domains" else field
    return click.UsageError(f"{name}{colon}{words}")
