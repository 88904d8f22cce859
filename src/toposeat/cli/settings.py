"""Defaults that a user or a project sets: from the environment and from two files.

`$XDG_CONFIG_HOME/toposeat/config.toml` is the user's. `toposeat.toml` of the current folder or of
the nearest one above belongs to a project, perhaps somebody else's: it may name machines and
options, but nothing that is run or written. An option beats the environment, which beats the
project's file, which beats the user's.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import InputError, did_you_mean

PROJECT_FILE = "toposeat.toml"
_MOST_CHARACTERS = 1 << 15
_AT_LINE = re.compile(r"\(at line (\d+)")

# What can be set, and what it stands for.
KEYS = {
    "machine": "-t of map, advise and emulate; --node with a network",
    "network": "-t of map and tune",
    "hosts": "--hosts of map, with a network",
    "launcher": "--launcher of export",
    "objective": "--objective",
    "metric": "--metric",
    "solver": "--solver",
    "budget": "--budget",
    "seed": "--seed",
    "min-gain": "--min-gain",
    "cache": "the folder of what tune found (not in a project's file)",
}
_OPTIONS = ("objective", "metric", "solver", "budget", "seed", "min-gain", "launcher")
_FILES = frozenset({"machine", "network", "hosts"})
_OF_USER_ALONE = frozenset({"cache"})
_VARIABLES = {"cache": "TOPOSEAT_CACHE_DIR"}
_MACHINE_VERBS = ("map", "advise", "emulate")

Settings = Mapping[str, "Setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it is from: a variable or `FILE:LINE`."""

    value: str
    source: str


def variable_of(key: str) -> str:
    """The environment variable that sets a key."""
    return _VARIABLES.get(key, f"TOPOSEAT_{key.upper().replace('-', '_')}")


def config_files(environment: Mapping[str, str], folder: Path) -> tuple[Path, Path | None]:
    """The user's file, there or not, and the project's, if there is one."""
    base = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = Path(environment.get("HOME", "/nonexistent"))
    if not base.is_absolute():  # the specification says to ignore relative ones
        base = home / ".config"
    for each in (folder, *folder.parents):
        if (each / PROJECT_FILE).exists():
            return base / "toposeat" / "config.toml", each / PROJECT_FILE
        if each == home or (each / ".git").exists():
            break
    return base / "toposeat" / "config.toml", None


def read_settings(environment: Mapping[str, str], folder: Path) -> dict[str, Setting]:
    """What is set, by key.

    Args:
        environment: of this process.
        folder: where the project's file is looked for, and above.

    Raises:
        InputError: a file that is wrong, with its line.
    """
    user, project = config_files(environment, folder)
    found: dict[str, Setting] = {}
    if user.exists():
        found |= _of_file(user, is_project=False)
    if project is not None:
        found |= _of_file(project, is_project=True)
    for key in KEYS:
        value = environment.get(variable_of(key))
        if value:
            found[key] = Setting(value, variable_of(key))
    return found


def _of_file(path: Path, *, is_project: bool) -> dict[str, Setting]:
    import tomllib  # noqa: PLC0415

    from toposeat.model.files import read_text  # noqa: PLC0415

    text = read_text(path)
    if len(text) > _MOST_CHARACTERS:
        raise InputError("too long for settings", path=path, hint=f"it has {', '.join(KEYS)}")
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        at = _AT_LINE.search(str(error))
        raise InputError(
            f"no TOML: {_AT_LINE.split(str(error))[0].strip() or 'nested too deeply'}",
            path=path,
            line=int(at[1]) if at else None,
            hint='a line is: machine = "hgx-h100"',
        ) from error
    return dict(_checked(path, text, table, is_project=is_project))


def _checked(
    path: Path, text: str, table: Mapping[str, object], *, is_project: bool
) -> Iterator[tuple[str, Setting]]:
    for key, value in table.items():
        match = re.search(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*[=.]", text, re.MULTILINE)
        line = text[: match.start()].count("\n") + 1 if match else None
        if key not in KEYS:
            near = did_you_mean(key, KEYS) or f"known are {', '.join(KEYS)}"
            raise InputError(f"there is no setting {key!r}", path=path, line=line, hint=near)
        if is_project and key in _OF_USER_ALONE:
            raise InputError(
                f"a project's file may not set {key!r}",
                path=path,
                line=line,
                hint="set it in the user's file (toposeat doctor --config names it)",
            )
        is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not is_plain or not str(value).isprintable() or value == "":
            raise InputError(
                f"{key} is no word and no number", path=path, line=line, hint=f'{key} = "..."'
            )
        own = _from_folder(str(value), path.parent) if key in _FILES else str(value)
        yield key, Setting(own, f"{path}:{line}" if line else str(path))


def _from_folder(value: str, folder: Path) -> str:
    """The value, in which the name of a file is seen from the folder of the settings."""
    prefix, colon, name = (
        value.rpartition(":") if not (folder / value).exists() else ("", "", value)
    )
    name, comma, options = name.partition(",")
    if not (folder / name).is_file():
        return value
    return f"{prefix}{colon}{folder / name}{comma}{options}"


def prepare(parser: argparse.ArgumentParser, verb: str, settings: Settings) -> None:
    """Make defaults of a verb's options what is set.

    Raises:
        InputError: a value that the option does not take.
    """
    actions = {action.dest: action for action in parser._actions}  # there is no public way
    for key in _OPTIONS:
        action, setting = actions.get(key.replace("-", "_")), settings.get(key)
        if action is None or setting is None:
            continue
        if action.choices is not None and setting.value not in action.choices:
            near = did_you_mean(setting.value, action.choices)
            raise _refused(key, setting, near or f"one of {', '.join(action.choices)}")
        try:
            action.default = action.type(setting.value) if callable(action.type) else setting.value
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise _refused(key, setting, f"{KEYS[key]}: {error}") from error
        action.required = False
    if "topology" in actions and _machine(verb, settings)[0] is not None:
        actions["topology"].required = False


def complete(args: argparse.Namespace, verb: str, settings: Settings) -> None:
    """Give a verb without `-t` the machine that is set."""
    args.settings = settings
    cache = settings.get("cache")
    if cache is not None:
        os.environ.setdefault(variable_of("cache"), str(Path(cache.value).expanduser()))
    if getattr(args, "topology", "") is not None:
        return
    args.topology, node = _machine(verb, settings)
    if node is not None and hasattr(args, "node") and args.node is None:
        args.node = node
        hosts = settings.get("hosts")
        args.hosts = hosts.value if args.hosts is None and hosts is not None else args.hosts


def _machine(verb: str, settings: Settings) -> tuple[str | None, str | None]:
    """What stands for `-t`, and for `--node`."""
    machine, network = (
        settings[key].value if key in settings else None for key in ("machine", "network")
    )
    if network is not None and verb == "tune":  # its nodes say themselves what they are
        return network, None
    if network is not None and verb == "map" and machine is not None:
        return network, machine
    return (machine if verb in _MACHINE_VERBS else None), None


def _refused(key: str, setting: Setting, hint: str) -> InputError:
    return InputError(f"{setting.source}: {key} cannot be {setting.value!r}", hint=hint)
