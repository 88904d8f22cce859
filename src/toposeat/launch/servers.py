"""Servers of language models, vLLM and SGLang: the devices that their lines say they take."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from toposeat.errors import UsageError
from toposeat.launch.launchers.launcher import LaunchLine, python_module
from toposeat.launch.launchers.wrappers import unwrapped
from toposeat.model.plural import plural

_SIZES = {
    "tp": ("-tp", "--tp", "--tp-size", "--tensor-parallel-size"),
    "pp": ("-pp", "--pp", "--pp-size", "--pipeline-parallel-size"),
    "dp": ("-dp", "--dp", "--dp-size", "--data-parallel-size"),
}
_BASE, _STEP = ("--base-gpu-id",), ("--gpu-id-step",)
# With these the sizes stand elsewhere, or mean something else.
_UNTOLD = (
    *("--config", "--nnodes", "--enable-dp-attention", "--data-parallel-size-local", "-dpl"),
    *("-pcp", "--prefill-context-parallel-size", "--headless"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """What a line says: ranks along each axis, and the devices of its list that they take."""

    sizes: dict[str, int]
    base: int
    step: int

    @property
    def ranks(self) -> int:
        """How many processes have a device each."""
        return self.sizes["tp"] * self.sizes["pp"] * self.sizes["dp"]

    @property
    def pattern(self) -> str:
        """The traffic of its ranks: those of an engine follow each other, the fastest by tp."""
        told = [f"{axis}={size}" for axis, size in self.sizes.items() if size > 1 or axis == "tp"]
        order = ["order=tp-pp-dp"] if min(self.sizes["pp"], self.sizes["dp"]) > 1 else []
        return f"llm:{','.join([*told, *order, 'mode=prefill'])}"

    def check(self, ranks: int) -> None:
        """Refuse a placement of so many ranks whose list is not what the server takes.

        Raises:
            UsageError: another number of devices, or others than the first ones.
        """
        said = " ".join(f"-{axis} {size}" for axis, size in self.sizes.items() if size > 1)
        if self.ranks != ranks:
            raise UsageError(
                f"the placement is for {plural(ranks, 'rank')}, and the line takes"
                f" {plural(self.ranks, 'device')} ({said or '-tp 1'})",
                hint=f"make one for this line: toposeat map {self.pattern} -t this -o PLACE",
            )
        if self.base or self.step != 1:
            word = f"--base-gpu-id {self.base}" if self.base else f"--gpu-id-step {self.step}"
            raise UsageError(
                f"{word} and the placement do not go together: it is counted within the list of the"
                f" plan, which has {plural(ranks, 'device')} in the order of ranks",
                hint=f"leave {word} out",
            )


def server_of(line: LaunchLine) -> Server | None:
    """The server that a line starts; None for other programs, or where its line does not say."""
    words = unwrapped(line.program).program
    module, name = python_module(words), words[0].rpartition("/")[2]
    is_server = (
        module in ("sglang.launch_server", "vllm.entrypoints.openai.api_server")
        or (name in ("vllm", "sglang") and words[1:2] == ("serve",))
    )  # fmt: skip
    if line.launcher or not is_server or any(w.partition("=")[0] in _UNTOLD for w in words):
        return None
    names = {**_SIZES, "base": _BASE, "step": _STEP}
    told = {key: list(_values(words, of)) for key, of in names.items()}
    numbers = {
        key: int(values[-1]) for key, values in told.items() if values and values[-1].isdecimal()
    }
    if any(values and key not in numbers for key, values in told.items()):
        return None
    return Server(
        sizes={axis: numbers.get(axis, 1) for axis in _SIZES},
        base=numbers.get("base", 0),
        step=numbers.get("step", 1),
    )


def _values(words: Collection[str], names: Collection[str]) -> Iterator[str]:
    """What stands behind an option, or after its `=`."""
    given = [*words, ""]
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            yield value if equals else given[at + 1]
