"""What `coldnotify up` takes: its own settings, and a port for each listener and each job that does not ship."""

from dataclasses import make_dataclass

from coldnotify_common.settings import setting
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_streams.jobs.registry import JOBS

from coldnotify_cli.settings import UpSettings

_LISTENERS = {
    row.port_setting: (0, f"{row.port_help}; 0: a port near --gateway-port, or any free port if that is taken")
    for row in LISTENERS
    if row.settings is not None
}
_JOBS = {row.port_setting: (row.port, f"HTTP port of the job {row.name}; 0: any free port") for row in JOBS}
EveryUpSetting: type[UpSettings] = make_dataclass(
    "UpSettings",
    [
        (name, int, setting(default, words, minimum=0, maximum=65535))
        for name, (default, words) in {**_LISTENERS, **_JOBS}.items()
    ],  # type: ignore[list-item, misc, arg-type]
    bases=(UpSettings,),
    frozen=True,
    kw_only=True,
)
