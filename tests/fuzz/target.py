"""What is fuzzed: one kind of input, seeds of it, how they are damaged, how they are read."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.mutations import damage

SEEDS = Path(__file__).resolve().parent / "seeds"  # ours, written from what the tools document
SEEDS_OF_A_FORMAT = 24
SHARE_OF_MIXED = 0.1  # inputs into which parts of other files of the kind go

Seed = tuple[Path, bytes]  # with its file: a few formats go by suffixes and files beside it
Draw = Callable[[random.Random], Seed]


@dataclass(frozen=True)
class Target:
    """One kind of input.

    Args:
        name: of the format, as in the documentation.
        seeds: well-formed inputs.
        read: takes one input all the way as a command of toposeat would. Raises what the reader
            raises; whatever is no `ToposeatError` is a fault.
        draw: makes one damaged input; by default `damage` of a seed's bytes.
    """

    name: str
    seeds: tuple[Seed, ...]
    read: Callable[[Path, bytes], object]
    draw: Draw | None = None

    def one(self, source):
        """One damaged input."""
        if self.draw is not None:
            return self.draw(source)
        name, data = source.choice(self.seeds)
        others = [each for _, each in self.seeds] if source.random() < SHARE_OF_MIXED else ()
        return name, damage(source, data, others=others)


def chosen(files, max_bytes):
    """The smaller files: what a reader does wrong it does wrong with few lines as well."""
    by_size = sorted(files, key=lambda seed: len(seed[1]))
    small = [each for each in by_size if len(each[1]) <= max_bytes]
    return tuple((small or by_size[:1])[:SEEDS_OF_A_FORMAT])


def text_seeds(texts):
    """Texts by file name."""
    return [(Path(name), text.encode()) for name, text in texts.items()]
