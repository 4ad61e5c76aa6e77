"""Permissions in Kafka: reads and checks acls.yaml, compares it with a Kafka, and applies the difference.

Only allow rules of the roles' own principals are managed; those of others stay as they are.
"""

from collections.abc import Container, Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from coldnotify_kafka.errors import AclsFileError, AclsNotAppliedError
from coldnotify_kafka.yaml_text import read_yaml

APPLY_SECONDS_MAX = 30.0
_CLUSTER = "kafka-cluster"
"""Kafka's own name of the one resource of this kind."""
_IN_FILE = TopicNames()
"""The names that the file has."""
_RESOURCES = {"topics": ResourceType.TOPIC, "groups": ResourceType.GROUP}
_OPERATIONS = {
    operation.name.lower(): operation
    for operation in AclOperation
    if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
}


@dataclass(frozen=True, order=True)
class Acl:
    """One allow rule: this principal may do `operation` on the resource with this name, or with this prefix."""

    principal: str
    resource: str
    """TOPIC, GROUP or BROKER (which is Kafka's cluster)."""
    name: str
    prefixed: bool
    operation: str

    def __str__(self) -> str:
        name = f"{self.name}*" if self.prefixed else self.name
        kind = "cluster" if self.resource == "BROKER" else f"{self.resource.lower()} {name}"
        return f"{self.principal}: {self.operation.lower()} {kind}"


@dataclass(frozen=True)
class AclPlan:
    """The differences."""

    missing: tuple[Acl, ...]
    surplus: tuple[Acl, ...]
    """Allowances of the roles' principals that acls.yaml does not know."""

    def __str__(self) -> str:
        lines = [f"+ {acl}" for acl in self.missing] + [f"- {acl}" for acl in self.surplus]
        return "\n".join(lines) if lines else "nothing to change"


def load(
    principal: str = "",
    text: str | None = None,
    *,
    more: Mapping[str, str] | None = None,
    topics: Iterable[str] = _IN_FILE.all,
    names: TopicNames = _IN_FILE,
) -> list[Acl]:
    """Returns the rules of acls.yaml (or of `text`) for the installation with these `names`. Raises AclsFileError.

    `principal` has the place {role}; "": User:coldnotify-{role}, or what `names` makes of that. The principals of two
    installations differ, because each one's plan removes what its own may do beyond the file. `more`: roles of parts,
    each as the file words one; one that is in the file, too, must be the same there. `topics`: the names that they may
    have there.
    """
    principal = principal or f"User:{names.group('{role}')}"
    if "{role}" not in principal or not principal.startswith("User:"):
        raise AclsFileError(f"principal: {principal!r} is not User:... with the place {{role}} in it")
    if text is None:
        text = files("coldnotify_kafka").joinpath("acls.yaml").read_text(encoding="utf-8")
    try:
        roles = read_yaml(text)["roles"]
        for role, said in (more or {}).items():
            if roles.setdefault(role, allowed := read_yaml(said)) != allowed:
                raise AclsFileError(f"acls.yaml: {role}: is not the same as in the row of its part (make docs)")
        known = frozenset(topics)
        found = [acl for role, allowed in roles.items() for acl in _of_role(role, allowed, principal, known, names)]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise AclsFileError(f"acls.yaml is not as it should be: {error!r}") from None
    return sorted(found)


def plan(admin: AdminClient, wanted: Iterable[Acl], timeout_s: float = APPLY_SECONDS_MAX) -> AclPlan:
    """Returns how the Kafka behind `admin` differs from `wanted`; changes nothing. Raises AclsNotAppliedError."""
    wanted = set(wanted)
    principals = {acl.principal for acl in wanted}
    none: Any = None  # the client takes it for "any"; its types do not say so
    anything = AclBindingFilter(
        ResourceType.ANY, none, ResourcePatternType.ANY, none, none, AclOperation.ANY, AclPermissionType.ANY
    )
    bindings = _result(admin.describe_acls(anything, request_timeout=timeout_s), timeout_s)
    there = {_acl_of(one) for one in bindings if one.principal in principals and _is_plain(one)}
    return AclPlan(tuple(sorted(wanted - there)), tuple(sorted(there - wanted)))


def apply(admin: AdminClient, wanted: Iterable[Acl], timeout_s: float = APPLY_SECONDS_MAX) -> AclPlan:
    """Adds missing rules, then removes surplus ones; returns what was done. Raises AclsNotAppliedError."""
    todo = plan(admin, wanted, timeout_s)
    if todo.missing:
        for answer in admin.create_acls([_binding(acl) for acl in todo.missing], request_timeout=timeout_s).values():
            _result(answer, timeout_s)
    if todo.surplus:
        filters = [_filter(acl) for acl in todo.surplus]
        for answer in admin.delete_acls(filters, request_timeout=timeout_s).values():
            _result(answer, timeout_s)
    return todo


def _of_role(
    role: str, allowed: Mapping[str, Any], template: str, known: Container[str], names: TopicNames
) -> Iterable[Acl]:
    principal = template.replace("{role}", role)
    for kind, entries in allowed.items():
        if kind == "cluster":
            for operation in entries:
                yield Acl(principal, "BROKER", _CLUSTER, False, _operation(role, operation))
        elif kind in _RESOURCES:
            for pattern, operations in entries.items():
                name, prefixed = pattern.removesuffix("*"), pattern.endswith("*")
                if kind == "topics" and not prefixed and name not in known:
                    raise AclsFileError(f"acls.yaml: {role}: {name} is no topic of ColdNotify's")
                for operation in operations:
                    yield Acl(
                        principal, _RESOURCES[kind].name, names.renamed(name), prefixed, _operation(role, operation)
                    )
        else:
            raise AclsFileError(f"acls.yaml: {role}: {kind} is none of topics, groups, cluster")


def _operation(role: str, word: object) -> str:
    if str(word) not in _OPERATIONS:
        raise AclsFileError(f"acls.yaml: {role}: {word} is no operation of Kafka's ({', '.join(_OPERATIONS)})")
    return str(word).upper()


def _is_plain(binding: AclBinding) -> bool:
    """Returns true for a rule of the kind that ColdNotify creates: it allows access from every host."""
    return bool(binding.permission_type == AclPermissionType.ALLOW and binding.host == "*")


def _acl_of(binding: AclBinding) -> Acl:
    prefixed = binding.resource_pattern_type == ResourcePatternType.PREFIXED
    resource, operation = ResourceType(binding.restype), AclOperation(binding.operation)
    return Acl(str(binding.principal), resource.name, str(binding.name), prefixed, operation.name)


def _parts(acl: Acl) -> tuple[Any, ...]:
    pattern = ResourcePatternType.PREFIXED if acl.prefixed else ResourcePatternType.LITERAL
    operation, allow = AclOperation[acl.operation], AclPermissionType.ALLOW
    return ResourceType[acl.resource], acl.name, pattern, acl.principal, "*", operation, allow


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(*_parts(acl))


def _filter(acl: Acl) -> AclBindingFilter:
    return AclBindingFilter(*_parts(acl))


def _result(answer: Any, timeout_s: float) -> Any:
    try:
        return answer.result(timeout_s + 5)
    except KafkaException as error:
        raise AclsNotAppliedError(f"Kafka does not do it: {error.args[0].str()}") from None
    except FutureTimeoutError:
        raise AclsNotAppliedError(f"Kafka does not answer within {timeout_s:g} s") from None
