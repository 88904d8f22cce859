"""The pattern that a word means which is none: `stencil:2x4`, `llm`, `tp=8`, `allreduce:8`."""

from __future__ import annotations

import math
import re
from types import MappingProxyType

from toposeat.errors import UsageError, nearest
from toposeat.profile.pattern.llm import models
from toposeat.profile.pattern.patterns import PATTERNS, pattern_traffic

_DEFAULT_RANKS = 8
_GRIDS = ("stencil2d", "stencil3d", "halo", "alltoall")

# What people call a pattern, in lower case and without the marks between words.
_ALSO = {
    "stencil": "stencil2d stencil cart cartesian grid jacobi mesh nearest neighbor neighbour 2d",
    "stencil3d": "3d cube",
    "halo": "halo2d halo3d haloexchange exchange",
    "ring": "ring loop chain p2p pingpong sendrecv circle",
    "alltoall": "all2all a2a fft transpose uniform alltoallv",
    "random": "rand sparse irregular",
    "dp": "dp ddp fsdp dataparallel allreduce allgather reducescatter nccl rccl horovod zero",
    "tp": "tp tensorparallel vllm sglang inference serve serving",
    "pp": "pp pipeline pipelineparallel",
    "ep": "ep moe expertparallel experts mixtureofexperts",
    "llm": "llm lm gpt llama transformer train training megatron pretrain mpt ml ai",
}
_NAMES = {other: name for name, words in _ALSO.items() for other in words.split()}

# The sizes of a parallel layout as frameworks call them, without the marks between words.
SIZES: MappingProxyType[str, str] = MappingProxyType(
    {
        word: size
        for size, words in {
            "tp": "tp tpsize tensorparallel tensorparallelsize tensormodelparallelsize",
            "pp": "pp ppsize pipelineparallel pipelineparallelsize pipelinemodelparallelsize",
            "dp": "dp dpsize dataparallel dataparallelsize",
            "cp": "cp cpsize contextparallel contextparallelsize",
            "ep": "ep epsize expertparallel expertparallelsize expertmodelparallelsize",
        }.items()
        for word in words.split()
    }
)


def pattern_meant(text: str, *, ranks: int | None = None) -> str:
    """A pattern that can be read, as near as possible to `text`; "" where it names none.

    It has so many `ranks` where the text does not say it.
    """
    text = re.sub("[\N{MULTIPLICATION SIGN}*]", "x", text.strip().lower())[:200]
    if _is_read(text):
        return text
    found = _meant(text, ranks or _DEFAULT_RANKS)
    return found if found and _is_read(found) else ""


def _is_read(text: str) -> bool:
    try:
        pattern_traffic(text)
    except UsageError:
        return False
    return True


def _meant(text: str, ranks: int) -> str:
    text = re.sub(r"[a-z][a-z_-]+", lambda word: SIZES.get(_squeezed(word[0]), word[0]), text)
    model = _model_in(text)
    if model or re.match(r"(tp|pp|dp|cp|ep)[=:]?\d", text):
        return _layout(text, ranks, model)
    if re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", text):
        return f"stencil{text.count('x') + 1}d:{text}"
    match = re.match(r"([a-z0-9 _-]*?[a-z])(?:[:=(\[, ]|$|(?=\d+$))(.*)|([23]d)[:=](.*)", text)
    if match is None:
        return ""
    name = _named(_squeezed(match[1] or match[3]))
    rest = (match[2] or match[4] or "").strip("()[] ")
    if name in ("llm", "tp", "pp", "dp", "ep"):
        return _layout(rest, ranks, "", first="tp" if name == "llm" else name)
    return _of_grid(name, rest, ranks) if name else ""


def _squeezed(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text)


def _named(word: str) -> str:
    """The pattern, or the size of a layout, that a word names or nearly names."""
    if word in PATTERNS:
        return word
    if word in _NAMES:
        return _NAMES[word]
    near = nearest(word, [*PATTERNS, *_NAMES]) if len(word) > 3 else ""
    return _NAMES.get(near, near if near in PATTERNS else "")


def _of_grid(name: str, rest: str, ranks: int) -> str:
    """A pattern of a grid or of a number of ranks, with the options of `rest` as they are."""
    parts = re.split(r"[,; ]+", rest) if rest else []
    sizes: list[int] = []
    while parts and re.fullmatch(r"\d+(x\d+)*", parts[0]):
        sizes += map(int, parts.pop(0).split("x"))
    sizes = [size for size in sizes if size > 0] or [ranks]
    if name in ("stencil", "stencil2d", "stencil3d"):
        if len(sizes) == 1:
            sizes = _grid(sizes[0], 3 if name == "stencil3d" else 2)
        name = f"stencil{len(sizes)}d"
    elif name == "halo" and len(sizes) == 1:
        sizes = _grid(sizes[0], 3)
    elif name not in _GRIDS:
        sizes = [math.prod(sizes)]
    known = re.findall(r"\[,([a-z-]+)", PATTERNS[name].form)
    options = [part.partition("=") for part in parts]
    named = [(nearest(option, known) or option) + sign + value for option, sign, value in options]
    return ",".join([f"{name}:{'x'.join(map(str, sizes))}", *named])


def _grid(ranks: int, dimensions: int) -> list[int]:
    """A grid of so many dimensions, as near to a cube as its ranks allow."""
    if dimensions == 1:
        return [ranks]
    ideal = ranks ** (1 / dimensions)
    first = max(n for n in range(1, int(ideal + 1e-9) + 1) if ranks % n == 0)
    return [first, *_grid(ranks // first, dimensions - 1)]


def _layout(text: str, ranks: int, model: str, first: str = "tp") -> str:
    """A layout of a language model: its sizes in any form and order, then what else is said."""
    sizes = dict(re.findall(r"(tp|pp|dp|cp|ep)[=: ]?([1-9]\d*)", text))
    if not sizes:
        ranks = int(text) if text.isdigit() else ranks
        inner = next(n for n in (8, 4, 2, 1) if ranks % n == 0)
        several = first == "tp" and ranks > 8
        sizes = {"tp": str(inner), "dp": str(ranks // inner)} if several else {first: str(ranks)}
    named = [f"model={model}"] if model else []
    if "ep" in sizes:
        sizes.setdefault("dp", sizes["ep"])
    if "ep" in sizes and "experts" not in text and not model:
        named.append(f"experts={8 * int(sizes['ep'])}")
    kept = [
        part
        for part in re.split(r"[,; ]+", text)
        if re.fullmatch(r"[a-z-]+=[^=]+", part)
        and part.partition("=")[0] not in (*SIZES, "model", "llm")
    ]
    return "llm:" + ",".join([*named, *(f"{size}={sizes[size]}" for size in sizes), *kept])


def _model_in(text: str) -> str:
    """The published model that a text names: `meta-llama/Llama-3.1-70B-Instruct`, or `70b`."""
    names = {_squeezed(name): name for name in models()}
    whole = [name for squeezed, name in names.items() if squeezed in _squeezed(text)]
    size = re.search(r"(?<![0-9.])\d+b\b", text)
    by_size = [name for name in models() if size and name.endswith(f"-{size[0]}")]
    return (whole or by_size or [""])[0]
