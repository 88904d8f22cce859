import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from toposeat.errors import InputError
from toposeat.model.traffic import MemorySpace
from toposeat.profile import read_traffic

MATRIX = np.array([[0, 5, 7], [11, 0, 0], [1, 2, 0]])


def header(shape, descr="<i8"):
    """A `.npy` file's beginning that declares any shape."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (118 - len(text) - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("dtype", ["i8", "u4", ">i4", "f8", "u1", "f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_whole_numbers_of_any_type(tmp_path, dtype, order):
    np.save(tmp_path / "m.npy", np.asarray(MATRIX, dtype=dtype, order=order))
    traffic = read_traffic(tmp_path / "m.npy")
    assert traffic.table(space=MemorySpace.DEVICE).dense_bytes(3).tolist() == MATRIX.tolist()
    assert traffic.table().messages.tolist() == [1] * 5
    assert any("no message counts" in line for line in traffic.report)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.zeros((2, 3)), "expected a square matrix"),
        (np.zeros(4), "expected a square matrix"),
        (np.array([[0, -1], [0, 0]]), "negative"),
        (np.array([[0, 0.5], [0, 0]]), "fractions"),
        (np.array([[0, np.nan], [0, 0]]), "not finite"),
        (np.array([[0, 2.0**63], [0, 0]]), "more than can be counted"),
        (np.array([["a", "b"], ["c", "d"]]), "expected numbers"),
        (np.array([[1j, 0], [0, 0]]), "expected numbers"),
    ],
)
def test_what_is_no_traffic_is_refused(tmp_path, matrix, words):
    np.save(tmp_path / "m.npy", matrix)
    with pytest.raises(InputError, match=words):
        read_traffic(tmp_path / "m.npy")


def test_pickles_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "exploded",))  # type: ignore[return-value]

    np.save(tmp_path / "m.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        read_traffic(tmp_path / "m.npy")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("shape", ["(16384, 16384)", "(100000000, 100000000)", "(1, 1" + "0" * 99])
def test_declared_shapes_cost_nothing(tmp_path, shape):
    path = tmp_path / "m.npy"
    path.write_bytes(header(shape))
    tracemalloc.start()
    with pytest.raises(InputError):
        read_traffic(path)
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_zeros_are_read_in_blocks(tmp_path):
    """32 MiB of zeros: one block of memory, and an empty matrix."""
    path = tmp_path / "m.npy"
    path.write_bytes(header("(2048, 2048)") + bytes(2048 * 2048 * 8))
    tracemalloc.start()
    traffic = read_traffic(path)
    assert tracemalloc.get_traced_memory()[1] < 3 * 2**24
    tracemalloc.stop()
    assert traffic.ranks == 2048
    assert len(traffic.table()) == 0
