"""Tenants: their names, domains and agreements; records of the tenants topic as JSON, checked strictly. Pure."""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.records import name_the_field

DEFAULT_TENANT = "default"
"""The tenant of all domains that no tenant names. It has no domains of its own, and no limits unless they are set."""
DOMAINS_MAX = 1_000
"""Limit on one tenant's domains. A record of the longest names has 70 KB, far below Kafka's limit."""
PRINCIPAL_CHARS_MAX = 249
TENANT_BYTES_MAX = 256 * 1024
"""Limit on a tenant's record."""
RATE_MAX = 1e12
"""Far above what a machine does; below it sums and products stay exact enough."""

_NUMBER_MAX = 1_000_000_000_000
_Rate = Annotated[float, msgspec.Meta(gt=0, le=RATE_MAX)]
_Most = Annotated[int, msgspec.Meta(ge=1, le=_NUMBER_MAX)]
SHOWN_CHARS_MAX = 80
"""Characters of a bad value that an error shows."""


class InvalidTenant(ValueError):
    """A record of tenants or usage that cannot be understood; the message begins with the field at fault."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The agreement with a tenant. Absent: no limit."""

    in_per_s: _Rate | None = None
    """Publishes, however they come: versions of objects, descriptions, messages."""
    in_bytes_per_s: _Rate | None = None
    """Bytes of keys and values of these publishes, as in Kafka."""
    out_per_s: _Rate | None = None
    """Deliveries: a publish counts once for each session that is told it."""
    out_bytes_per_s: _Rate | None = None
    burst_s: Annotated[float, msgspec.Meta(ge=0.1, le=600)] = 2.0
    """So many seconds of each rate may come at once, after a quiet time."""
    objects_max: _Most | None = None
    clients_max: _Most | None = None
    """Sessions at a time."""
    registrations_max: _Most | None = None
    high_priority_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    """The share of its publishes that may be of high priority."""
    over: Literal["refuse", "conflate"] = "conflate"
    """How deliveries above the agreement are treated. `conflate`: newest versions wait and merge meanwhile, messages of
    channels wait. `refuse`: publishes are refused, too, as many as cause the excess.
    """


UNLIMITED = Agreement()
HELD = ("objects_max", "clients_max", "registrations_max")
"""The limits on what exists, in the order of GAUGES."""
LIMITS = (
    "in_per_s",
    "in_bytes_per_s",
    "out_per_s",
    "out_bytes_per_s",
    "objects_max",
    "clients_max",
    "registrations_max",
)
"""The fields of an agreement that can be exceeded; refusals and verdicts use these names."""


class Tenant(NamedTuple):
    """A tenant: its name is the key of its record, the rest is the value."""

    name: str
    domains: tuple[str, ...] = ()
    agreement: Agreement = UNLIMITED
    principal: str | None = None
    """Kafka's name of its direct publisher (the user of SASL or of a certificate), whose writes Kafka itself limits to
    in_bytes_per_s.
    """


class _TenantRecord(Agreement, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    domains: tuple[str, ...] = ()
    principal: str | None = None


_AGREED = Agreement.__struct_fields__
_tenant_decoder = msgspec.json.Decoder(_TenantRecord)
_encoder = msgspec.json.Encoder()


def check_tenant_name(name: str) -> str:
    """`name`, if it can be a tenant's. Raises InvalidTenant."""
    try:
        return check_name("tenant", name)
    except InvalidName as error:
        raise InvalidTenant(str(error)) from None


def tenant_of(name: str, fields: Mapping[str, object]) -> Tenant:
    """The tenant of these fields, named as in its record; None: left out. Raises InvalidTenant."""
    said = {field: value for field, value in fields.items() if value is not None}
    for field, value in said.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidTenant(f"{field}: {value} is not a finite number")
    try:
        record = msgspec.convert(said, _TenantRecord)
    except msgspec.ValidationError as error:
        raise InvalidTenant(name_the_field(str(error))) from None
    return _checked(name, record)


def parse_tenant(key: bytes | None, value: bytes) -> Tenant:
    """Returns the tenant in a record of the tenants topic. Raises InvalidTenant."""
    name = parse_tenant_key(key)
    if len(value) > TENANT_BYTES_MAX:
        raise InvalidTenant(f"record: has {len(value)} bytes (at most {TENANT_BYTES_MAX} are allowed)")
    return _checked(name, decoded(_tenant_decoder, value))


def parse_tenant_key(key: bytes | None) -> str:
    """The name of the tenant of a record of the tenants or of the verdicts topic. Raises InvalidTenant."""
    if key is None:
        raise InvalidTenant("key: is missing (the tenant's name)")
    try:
        return check_tenant_name(key.decode())
    except UnicodeDecodeError:
        raise InvalidTenant("key: is not valid UTF-8") from None


def encode_tenant(tenant: Tenant) -> bytes:
    """The value of its record."""
    return _encoder.encode(fields_of(tenant))


def fields_of(tenant: Tenant) -> dict[str, Any]:
    """Returns its record's fields that have values, as in JSON."""
    agreed: dict[str, Any] = msgspec.to_builtins(tenant.agreement)
    said: dict[str, Any] = {"domains": list(tenant.domains), **agreed}
    return said if tenant.principal is None else {**said, "principal": tenant.principal}


def decoded(decoder: msgspec.json.Decoder[Any], value: bytes) -> Any:
    """Returns the record in JSON. Raises InvalidTenant."""
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        raise InvalidTenant(name_the_field(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidTenant(f"record: is not JSON: {error}") from None


def check_names(field: str, names: Iterable[str]) -> None:
    """Raises InvalidTenant, with the field, if one of these can be no name."""
    for name in names:
        try:
            check_name(field, name)
        except InvalidName as error:
            raise InvalidTenant(str(error)) from None


def _checked(name: str, record: _TenantRecord) -> Tenant:
    """Checks what JSON's types do not express."""
    check_tenant_name(name)
    if len(record.domains) > DOMAINS_MAX:
        raise InvalidTenant(f"domains: has {len(record.domains)} (at most {DOMAINS_MAX} are allowed)")
    check_names("domains", record.domains)
    seen: set[str] = set()
    for domain in record.domains:
        if domain in seen:
            raise InvalidTenant(f"domains: {domain} is named twice")
        seen.add(domain)
    if name == DEFAULT_TENANT and record.domains:
        raise InvalidTenant(f"domains: {DEFAULT_TENANT} has all that no other tenant names, and may name none")
    if name != DEFAULT_TENANT and not record.domains:
        raise InvalidTenant("domains: a tenant has at least one")
    agreement = Agreement(**{field: getattr(record, field) for field in _AGREED})
    _check_agreement(agreement)
    return Tenant(name, record.domains, agreement, _check_principal(record.principal))


def _check_agreement(agreement: Agreement) -> None:
    """No limit may make another one pointless: whoever set both meant something else."""
    for rate, bytes_rate in (("in_per_s", "in_bytes_per_s"), ("out_per_s", "out_bytes_per_s")):
        per_s, bytes_per_s = getattr(agreement, rate), getattr(agreement, bytes_rate)
        if per_s is not None and bytes_per_s is not None and bytes_per_s < per_s:
            raise InvalidTenant(
                f"{bytes_rate}: contradicts {rate}: {bytes_per_s:g} bytes/s are less than one for each of {per_s:g}/s"
            )


def _check_principal(principal: str | None) -> str | None:
    if principal is None:
        return None
    if not 1 <= len(principal) <= PRINCIPAL_CHARS_MAX or not principal.isprintable():
        raise InvalidTenant(
            f"principal: {principal[:SHOWN_CHARS_MAX]!r} is no user of Kafka's "
            f"(1 to {PRINCIPAL_CHARS_MAX} characters that can be printed)"
        )
    return principal
