"""Settings: frozen dataclasses, filled from flags, else from the environment, else from defaults.

One name everywhere: the field `gateway_port` is the flag `--gateway-port` and the variable `COLDNOTIFY_GATEWAY_PORT`.
"""

import dataclasses
import difflib
import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import click
from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames, check_prefix

from coldnotify_common.addresses import Network, networks
from coldnotify_common.errors import SettingError

__all__ = [
    "KafkaSettings",
    "ServiceSettings",
    "SettingError",
    "SettingInfo",
    "Settings",
    "TopicsPrefixSettings",
    "describe",
    "environment",
    "flags_of",
    "invalid",
    "load",
    "markdown_table",
    "networks_of",
    "put_environment",
    "setting",
    "settings_options",
    "unknown_variables",
]

PREFIX = "COLDNOTIFY_"
T = TypeVar("T")
_KEY = "coldnotify_setting"
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_TYPES = (bool, int, float, str, Path)


@dataclasses.dataclass(frozen=True)
class _Limits:
    help: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    check: Callable[[Any], None] | None


@dataclasses.dataclass(frozen=True)
class SettingInfo:
    """One setting of a settings class: its names, type, allowed values and help."""

    name: str
    type: type
    default: object
    help: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    check: Callable[[Any], None] | None = None

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The name of its command-line flag."""
        return "--" + self.name.replace("_", "-")

    def parse(self, value: object) -> object:
        """Parses `value` (text, or already of the setting's type). Raises SettingError."""
        parsed = self._convert(value)
        if self.choices and parsed not in self.choices:
            raise self.error(f"{value!r} is none of {', '.join(self.choices)}")
        if isinstance(parsed, int | float) and not isinstance(parsed, bool):
            if self.minimum is not None and parsed < self.minimum:
                raise self.error(f"{parsed} is less than {_number(self.minimum)}, the least allowed")
            if self.maximum is not None and parsed > self.maximum:
                raise self.error(f"{parsed} is more than {_number(self.maximum)}, the most allowed")
        if self.check is not None:
            try:
                self.check(parsed)
            except ValueError as error:
                raise self.error(str(error)) from None
        return parsed

    def error(self, words: str) -> SettingError:
        """Returns a SettingError about this setting."""
        return invalid(self.name, words)

    def _convert(self, value: object) -> object:
        if self.type is bool:
            if isinstance(value, bool):
                return value
            word = str(value).strip().lower()
            if word in _TRUE | _FALSE:
                return word in _TRUE
            raise self.error(f"{value!r} is neither yes nor no (1, true, yes, on; 0, false, no, off)")
        if self.type in (int, float):
            try:
                number = self.type(str(value).strip())
            except ValueError:
                raise self.error(f"{value!r} is not {'a whole' if self.type is int else 'a'} number") from None
            if isinstance(number, float) and not math.isfinite(number):
                raise self.error(f"{value!r} is not a finite number")
            return number
        if self.type is Path:
            if not str(value):
                raise self.error("is empty, a path is wanted")
            try:
                return Path(str(value)).expanduser()
            except RuntimeError:
                raise self.error(f"{value!s} begins with ~, but HOME names no home directory") from None
        return str(value)


def invalid(name: str, words: str) -> SettingError:
    """Returns a SettingError about the setting of this name."""
    return SettingError(f"{PREFIX}{name.upper()} / --{name.replace('_', '-')}: {words}")


def setting(
    default: T,
    help: str,  # noqa: A002  (click and argparse call it so)
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
    check: Callable[[T], None] | None = None,
) -> T:
    """Declares a field of a settings class. Its type is its annotation: int, float, str, bool or Path.

    `check` raises ValueError with the reason if a value is invalid.
    """
    limits = _Limits(help, minimum, maximum, tuple(choices), check)
    return dataclasses.field(default=default, metadata={_KEY: limits})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The base of every settings class."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicsPrefixSettings(Settings):
    """The installation's prefix: a cluster may hold several installations."""

    topics_prefix: str = setting(
        DEFAULT_PREFIX,
        "prefix of all names in Kafka; each installation in a cluster has its own",
        check=check_prefix,
    )

    @functools.cached_property
    def topics(self) -> TopicNames:
        """The names in Kafka with this prefix."""
        return TopicNames(self.topics_prefix)


@dataclasses.dataclass(frozen=True, kw_only=True)
class KafkaSettings(TopicsPrefixSettings):
    """Kafka's address."""

    kafka: str = setting("127.0.0.1:9092", "Kafka's bootstrap servers, host:port[,host:port]")
    kafka_config: str = setting(
        "",
        "file with further librdkafka options, one name=value per line: security.protocol, sasl.*, ssl.* ...; "
        "empty: none",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServiceSettings(KafkaSettings):
    """The settings of every service."""

    log_format: str = setting(
        "console", "format of log lines on stderr: for people, or one JSON object per line", choices=("console", "json")
    )
    log_level: str = setting(
        "info", "lowest level of log lines that are written", choices=("debug", "info", "warning", "error")
    )
    trace_endpoint: str = setting(
        "",
        "OpenTelemetry collector that receives spans (OTLP over HTTP), such as http://collector:4318; needs "
        "coldnotify-server[otel]; empty: the value of OTEL_EXPORTER_OTLP_ENDPOINT, or no traces if that is not "
        "set",
    )
    node_addresses: str = setting(
        "",
        "addresses by which others reach this process, for the nodes topic: a host for all of its ports, and "
        "name=host:port for single ones (device, web, inside, http), separated by commas; empty: the address "
        "that each port listens on, or that from which Kafka is reached",
    )
    node_weight: float = setting(
        1, "its share of new clients, relative to other gateways; 0: it is given none", minimum=0, maximum=1000
    )
    node_labels: str = setting("", "labels for operators and Prometheus, name=value[,name=value]: zone=a")


S = TypeVar("S", bound=Settings)


def describe(cls: type[Settings]) -> tuple[SettingInfo, ...]:
    """Returns the settings of a class, those of its bases first."""
    hints = get_type_hints(cls)
    infos = []
    for field in dataclasses.fields(cls):
        limits = field.metadata.get(_KEY)
        if limits is None:
            raise TypeError(f"{cls.__name__}.{field.name} is not made with setting()")
        if hints[field.name] not in _TYPES:
            raise TypeError(f"{cls.__name__}.{field.name} is neither int, float, str, bool nor Path")
        infos.append(
            SettingInfo(
                field.name,
                hints[field.name],
                field.default,
                limits.help,
                limits.minimum,
                limits.maximum,
                limits.choices,
                limits.check,
            )
        )
    return tuple(infos)


def load(cls: type[S], environ: Mapping[str, str], **overrides: object) -> S:
    """Returns settings from `overrides` (None: not given), else from `environ`, else the defaults. Raises
    SettingError."""
    infos = {info.name: info for info in describe(cls)}
    if unknown := overrides.keys() - infos.keys():
        raise TypeError(f"{cls.__name__} has no settings {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {}
    for name, info in infos.items():
        given = overrides.get(name)
        if given is None:
            given = environ.get(info.variable)
        if given is not None:
            values[name] = info.parse(given)
    return cls(**values)


def environment() -> Mapping[str, str]:
    """Returns the variables by which the command goes: `os.environ`, unless a click group has replaced it for its
    commands by an entry of this name in their contexts' `meta`.
    """
    context = click.get_current_context(silent=True)
    found: Mapping[str, str] = os.environ if context is None else context.meta.get(__name__, os.environ)
    return found


def put_environment(context: click.Context, variables: Mapping[str, str]) -> None:
    """Has `environment` return these variables for the commands of this group."""
    context.meta[__name__] = variables


def flags_of(cls: type[Settings], *, hidden: bool = False) -> list[click.Option]:
    """Returns an option for each setting, for a group or command that takes them as texts, None where not given."""
    options = map(_option, describe(cls))
    return [click.Option(names, hidden=hidden, **attributes) for names, attributes in options]


def settings_options(cls: type[S], *others: type[Settings]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A click decorator: adds one option per setting; the function gets them as one argument `settings`.

    `others`: further settings classes with other names; the function gets one object of each as the argument `others`.
    An invalid value, in a flag or in the environment, raises click.UsageError: the command exits with 2.
    """

    classes: list[type[Settings]] = [cls, *others]

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(function)
        def with_settings(*args: Any, **kwargs: Any) -> T:
            given = [(one, {info.name: kwargs.pop(info.name) for info in describe(one)}) for one in classes]
            try:
                settings, *more = [load(one, environment(), **overrides) for one, overrides in given]
            except SettingError as error:
                raise click.UsageError(str(error)) from None
            if others:
                kwargs["others"] = tuple(more)
            return function(*args, settings=settings, **kwargs)

        command: Callable[..., T] = with_settings
        for info in reversed([info for one in classes for info in describe(one)]):
            names, attributes = _option(info)
            command = click.option(*names, **attributes)(command)
        return command

    return decorate


def networks_of(name: str, text: str) -> tuple[Network, ...]:
    """Returns the addresses and networks in the setting of this name. Raises SettingError."""
    try:
        return networks(text)
    except ValueError as error:
        raise invalid(name, str(error)) from None


def _option(info: SettingInfo) -> tuple[list[str], dict[str, Any]]:
    """Returns the names and attributes of a setting's option."""
    # Values stay text here, so that the same code, with the same errors, parses flags and environment.
    words = f"{info.help}  [{info.variable}; default: {_default(info)}]"
    if info.type is bool:
        return [f"{info.flag}/--no-{info.flag[2:]}", info.name], {"default": None, "help": words}
    metavar = "|".join(info.choices) if info.choices else info.type.__name__.upper()
    return [info.flag, info.name], {"type": str, "default": None, "metavar": metavar, "help": words}


def unknown_variables(
    environ: Mapping[str, str], classes: Iterable[type[Settings]], others: Iterable[str] = ()
) -> list[str]:
    """Returns one warning for each COLDNOTIFY_ variable that is neither a setting of `classes` nor in `others`."""
    known = {info.variable for cls in classes for info in describe(cls)} | set(others)
    warnings = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            warnings.append(f"{name}: no setting has this name" + (f"; did you mean {near[0]}?" if near else ""))
    return warnings


def markdown_table(infos: Iterable[SettingInfo]) -> str:
    """Returns the settings as a table for docs/settings.md."""
    lines = ["| flag | environment | default | allowed | meaning |", "|---|---|---|---|---|"]
    lines += [
        f"| `{info.flag}` | `{info.variable}` | {_code(_default(info))} | {_allowed(info)} | {info.help} |"
        for info in infos
    ]
    return "\n".join(lines) + "\n"


def _default(info: SettingInfo) -> str:
    if isinstance(info.default, bool):
        return "yes" if info.default else "no"
    return str(info.default) if str(info.default) else "none"


def _code(text: str) -> str:
    return f"`{text}`" if text != "none" else text


def _allowed(info: SettingInfo) -> str:
    if info.choices:
        return ", ".join(info.choices)
    kinds: dict[type, str] = {bool: "yes or no", int: "whole number", float: "number", str: "text", Path: "path"}
    kind = kinds[info.type]
    if info.minimum is not None and info.maximum is not None:
        return f"{kind}, {_number(info.minimum)} to {_number(info.maximum)}"
    if info.minimum is not None:
        return f"{kind}, at least {_number(info.minimum)}"
    if info.maximum is not None:
        return f"{kind}, at most {_number(info.maximum)}"
    return kind


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)
