"""SVG to PNG by a converter that is installed: none is a dependency."""

from __future__ import annotations

import re
import shutil
import subprocess

from toposeat.errors import ToposeatError, UnavailableError

_ZOOM = "2"  # times the drawing's own size: sharp on screens of today
_TIMEOUT_S = 60
_PNG = b"\x89PNG\r\n\x1a\n"
_VARIABLE = re.compile(r"--([\w-]+):\s*([^;}]+)")
_USE = re.compile(r"var\(--([\w-]+)\)")
_STYLE = re.compile(r"(<style>)(.*?)(</style>)", re.DOTALL)
_ROOT = re.compile(r":root[^{]*\{([^}]*)\}")
_DARK = re.compile(
    r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root[^{]*\{[^}]*\}\s*\}"
)

# Each reads SVG from stdin and writes PNG to stdout.
CONVERTERS: dict[str, tuple[str, ...]] = {
    "rsvg-convert": ("--format=png", "--zoom", _ZOOM),
    "cairosvg": ("-", "-f", "png", "-s", _ZOOM),
    "inkscape": ("--pipe", "--export-type=png", "--export-dpi=192", "--export-filename=-"),
}


def png_of_svg(svg: str) -> bytes:
    """The picture as PNG.

    Args:
        svg: a drawing of ours.

    Raises:
        UnavailableError: no converter is installed.
        ToposeatError: the converter failed.
    """
    for name, options in CONVERTERS.items():
        program = shutil.which(name)
        if program is not None:
            return _convert([program, *options], plain_svg(svg))
    raise UnavailableError(
        f"a PNG needs a converter: none of {', '.join(CONVERTERS)} is on PATH",
        hint="install librsvg (Debian: apt install librsvg2-bin), or pip install cairosvg,"
        " or use --format svg",
    )


def _convert(command: list[str], svg: str) -> bytes:
    try:
        done = subprocess.run(
            command,
            input=svg.encode("utf-8", "replace"),
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToposeatError(f"{command[0]}: {error}", hint="use --format svg") from error
    if done.returncode != 0 or not done.stdout.startswith(_PNG):
        cause = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise ToposeatError(
            f"{command[0]} made no PNG: {cause or f'exit code {done.returncode}'}",
            hint="use --format svg",
        )
    return done.stdout


def plain_svg(svg: str) -> str:
    """The drawing in light colours, without CSS variables, which no converter knows."""
    return _STYLE.sub(lambda found: found[1] + _resolved(found[2]) + found[3], svg)


def _resolved(css: str) -> str:
    css = _DARK.sub("", css)
    values: dict[str, str] = {}
    for block in _ROOT.findall(css):
        values.update({name: value.strip() for name, value in _VARIABLE.findall(block)})
    return _USE.sub(lambda use: values.get(use[1], "none"), _ROOT.sub("", css))
