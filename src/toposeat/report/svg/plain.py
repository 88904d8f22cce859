"""SVG without what simple converters do not know: CSS variables and dark colours."""

from __future__ import annotations

import re

_VARIABLE = re.compile(r"--([\w-]+):\s*([^;}]+)")
_USE = re.compile(r"var\(--([\w-]+)\)")
_STYLE = re.compile(r"(<style>)(.*?)(</style>)", re.DOTALL)
_ROOT = re.compile(r":root[^{]*\{([^}]*)\}")
_DARK = re.compile(r"@media \(prefers-color-scheme: dark\) \{\s*:root[^{]*\{[^}]*\}\s*\}")


def plain_svg(svg: str) -> str:
    """The drawing in light colours, every variable of its style sheet replaced by its value."""
    return _STYLE.sub(lambda found: found[1] + _resolved(found[2]) + found[3], svg)


def _resolved(css: str) -> str:
    css = _DARK.sub("", css)
    values: dict[str, str] = {}
    for block in _ROOT.findall(css):
        values.update({name: value.strip() for name, value in _VARIABLE.findall(block)})
    return _USE.sub(lambda use: values.get(use[1], "none"), _ROOT.sub("", css))
