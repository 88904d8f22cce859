"""Defaults that a user sets: in the environment and in `$XDG_CONFIG_HOME/toposeat/config.toml`.

An option beats the environment, which beats the file. It is read where it is an own file in an own
place (`model/trust.py`).
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import InputError, did_you_mean
from toposeat.model.trust import NotMineError, check_place, own_file, user_folder

_MOST_BYTES = 1 << 15
_AT_LINE = re.compile(r"\(at line (\d+)")

# What can be set, and what it stands for.
KEYS = {
    "machine": "-t of map and emulate; --node with a network",
    "network": "-t of map and tune",
    "hosts": "--hosts of map, with a network",
    "launcher": "--launcher of export",
    "objective": "--objective",
    "metric": "--metric",
    "solver": "--solver",
    "budget": "--budget",
    "min-gain": "--min-gain",
    "wrappers": "commands that start the command behind them: NAME, or NAME=N with N words between",
    "cache": "the folder of what tune found",
}
_OPTIONS = ("objective", "metric", "solver", "budget", "min-gain", "launcher")
_FILES = frozenset({"machine", "network", "hosts"})
_HANDED_ON = frozenset({"cache", "wrappers"})  # read from the environment, where they are used
_VARIABLES = {"cache": "TOPOSEAT_CACHE_DIR"}
_MACHINE_VERBS = ("map", "emulate")

Settings = Mapping[str, "Setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it is from: a variable or `FILE:LINE`."""

    value: str
    source: str
    is_of_file: bool = False


@dataclass(frozen=True, slots=True)
class _Preset:
    """Stands for an option until the words of the command line are read."""

    key: str
    value: object


def variable_of(key: str) -> str:
    """The environment variable that sets a key."""
    return _VARIABLES.get(key, f"TOPOSEAT_{key.upper().replace('-', '_')}")


def read_settings(
    environment: Mapping[str, str], *, forgiving: bool = False
) -> tuple[dict[str, Setting], list[str]]:
    """What is set, by key, and a line about a file that is left alone.

    A wrong file is left alone if `forgiving`, as one is that others may write.
    """
    folder = user_folder(environment, "XDG_CONFIG_HOME", ".config")
    path = None if folder is None else Path(folder, "config.toml")
    found: dict[str, Setting] = {}
    said = []
    if path is not None and os.path.lexists(path):
        try:
            found = _of_text(path, _read(path))
        except NotMineError as error:
            why = f"{error.filename}: {error.strerror}"
            said.append(f"note: settings in {path} are left alone ({why})")
        except InputError as error:
            if not forgiving:
                raise
            said.append(f"warning: settings are left alone: {error.message}")
    for key in KEYS:
        value = environment.get(variable_of(key))
        if value:
            found[key] = Setting(value, variable_of(key))
    return found, said


def _read(path: Path) -> str:
    """The text of an own file in an own place.

    Raises:
        NotMineError: it may be somebody else's.
    """
    from toposeat.model.files import unreadable  # noqa: PLC0415

    try:
        check_place(path.parent, own=True)
        real = os.path.realpath(path)  # a link of this user's leads to an own file, too
        check_place(os.path.dirname(real), own=True)  # noqa: PTH120
        with os.fdopen(own_file(real), "rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except NotMineError:
        raise
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            "not a text file (invalid UTF-8)", path=path, line=line, hint="it is TOML"
        ) from error
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if len(data) > _MOST_BYTES:
        raise InputError("too long for settings", path=path, hint=f"it has {', '.join(KEYS)}")
    return text


def _of_text(path: Path, text: str) -> dict[str, Setting]:
    import tomllib  # noqa: PLC0415

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
    return dict(_checked(path, text, table))


def _checked(path: Path, text: str, table: Mapping[str, object]) -> Iterator[tuple[str, Setting]]:
    for key, value in table.items():
        match = re.search(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*[=.]", text, re.MULTILINE)
        line = text[: match.start()].count("\n") + 1 if match else None
        if key not in KEYS:
            near = did_you_mean(key, KEYS) or f"known are {', '.join(KEYS)}"
            raise InputError(f"there is no setting {key!r}", path=path, line=line, hint=near)
        is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not is_plain or not str(value).isprintable() or value == "":
            raise InputError(
                f"{key} is no word and no number", path=path, line=line, hint=f'{key} = "..."'
            )
        own = _from_folder(str(value), path.parent) if key in _FILES else str(value)
        yield key, Setting(own, f"{path}:{line}" if line else str(path), is_of_file=True)


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
    """Make defaults of a verb's options what is set."""
    actions = {action.dest: action for action in parser._actions}  # there is no public way
    for key in _OPTIONS:
        action, setting = actions.get(key.replace("-", "_")), settings.get(key)
        if action is None or setting is None:
            continue
        if action.choices is not None and setting.value not in action.choices:
            near = did_you_mean(setting.value, action.choices)
            raise _refused(key, setting, near or f"one of {', '.join(action.choices)}")
        try:
            value = action.type(setting.value) if callable(action.type) else setting.value
            action.default = _Preset(key, value)
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise _refused(key, setting, f"{KEYS[key]}: {error}") from error
        action.required = False
    if "topology" in actions and _machine(verb, settings)[0] is not None:
        actions["topology"].required = False


def complete(args: argparse.Namespace, verb: str, settings: Settings) -> None:
    """Give a verb without `-t` the machine that is set; `args.decided` is what files decided."""
    used = []
    for name, value in list(vars(args).items()):
        if isinstance(value, _Preset):
            setattr(args, name, value.value)
            used.append(value.key)
    for key in _HANDED_ON & settings.keys():
        value = settings[key].value
        value = str(Path(value).expanduser()) if key == "cache" else value
        os.environ.setdefault(variable_of(key), value)
    if getattr(args, "topology", "") is None:
        used += _complete_machine(args, verb, settings)
    args.decided = {key: settings[key] for key in KEYS if key in used and settings[key].is_of_file}


def _complete_machine(args: argparse.Namespace, verb: str, settings: Settings) -> list[str]:
    """The keys of what is taken for `-t`, and with it for `--node` and `--hosts`."""
    machine, node = _machine(verb, settings)
    if machine is None:
        return []
    args.topology, used = settings[machine].value, [machine]
    if node is not None and args.node is None:
        args.node = settings[node].value
        used.append(node)
        if args.hosts is None and "hosts" in settings:
            args.hosts = settings["hosts"].value
            used.append("hosts")
    return used


def decided_words(args: argparse.Namespace) -> str:
    """What settings files decided of an answer, in one line; "" if nothing."""
    words = ", ".join(f"{key} {each.value} ({each.source})" for key, each in args.decided.items())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def _machine(verb: str, settings: Settings) -> tuple[str | None, str | None]:
    """The keys of what stands for `-t`, and for `--node`."""
    if "network" in settings and verb == "tune":  # its nodes say themselves what they are
        return "network", None
    if "network" in settings and "machine" in settings and verb == "map":
        return "network", "machine"
    return ("machine" if "machine" in settings and verb in _MACHINE_VERBS else None), None


def _refused(key: str, setting: Setting, hint: str) -> InputError:
    return InputError(f"{setting.source}: {key} cannot be {setting.value!r}", hint=hint)
