"""The stand-in's CUDA runtime library: what linkers, programs of nvcc and its refusals see."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.emulation.runtime import MAJORS, runtime_library, toolkit
from tests.emulation.stand_in import output_of, run_on_node

# Interfaces of other libraries, textures, and a table that no documentation describes.
_LEFT_OUT = re.compile("E?GL|Egl|VDPAU|cudaCreateChannelDesc|cudaGetExportTable|GetProcAddress")


def names(library: Path) -> set[str]:
    """Every name with its version that a library defines for others."""
    line = ["nm", "-D", "--defined-only", str(library)]
    lines = subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[2] for words in map(str.split, lines) if words[1] != "A"}


@pytest.mark.parametrize("major", MAJORS)
def test_names_carry_the_version_that_linkers_expect(major: int) -> None:
    found = names(runtime_library(major))
    assert len(found) > 300
    assert {name.partition("@@")[2] for name in found} == {f"libcudart.so.{major}"}


def test_names_are_those_of_a_toolkit() -> None:
    (real,) = (toolkit() / "lib64").resolve().glob("libcudart.so.[0-9][0-9]")
    missing = names(real) - names(runtime_library(int(real.suffix[1:])))
    assert {name for name in missing if not _LEFT_OUT.search(name)} == set()


@pytest.mark.parametrize("major", MAJORS)
def test_it_does_not_load_beside_another_driver(major: int, tmp_path: Path) -> None:
    other = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-o", str(other), "-x", "c", "/dev/null"], check=True)
    program = f"""
    try:
        ctypes.CDLL({str(runtime_library(major))!r})
    except OSError as error:
        print(error)
    """
    said = output_of(program, environment={"LD_LIBRARY_PATH": str(tmp_path)})
    assert "undefined symbol" in said


_PROGRAM = """
#include <cstdio>
#include <cstddef>
#include <cuda_runtime.h>
__global__ void add(float *x, float y) { x[threadIdx.x] += y; }
__global__ void add_again(float *x, float y) { x[threadIdx.x] += y; }
int main() {
  cudaDeviceProp p;
  cudaPointerAttributes a;
  float *x;
  char back[8];
  cudaError_t first = cudaGetDeviceProperties(&p, 3);
  printf("%s\\n", cudaGetErrorName(first));
  if (first != cudaSuccess) return 1;
  printf("%s %d.%d %d %d\\n", p.name, p.major, p.minor, p.pciBusID, p.memoryPoolsSupported);
  printf("%zu %d\\n", p.totalGlobalMem >> 30, p.deferredMappingCudaArraySupported);
  cudaSetDevice(3);
  cudaMalloc(&x, 4096);
  cudaMemset(x, 65, 4096);
  cudaMemcpy(back, x + 1, 8, cudaMemcpyDeviceToHost);
  printf("%.8s\\n", back);
  cudaPointerGetAttributes(&a, x + 1);
  printf("%d %d %d\\n", a.type == cudaMemoryTypeDevice, a.device, a.devicePointer == x + 1);
  add<<<1, 32>>>(x, 1);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
  add_again<<<1, 32>>>(x, 1);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
}
"""
_ANSWERS = """cudaSuccess
Tesla K80 (emulated) 3.7 9 1
12 0
AAAAAAAA
1 3 1
cudaErrorNoKernelImageForDevice
cudaErrorNoKernelImageForDevice
"""


def built(folder: Path, *options: str) -> Path:
    source, program = folder / "program.cu", folder / "program"
    source.write_text(_PROGRAM)
    subprocess.run(["nvcc", *options, "-o", str(program), str(source)], check=True)
    return program


@pytest.mark.parametrize("options", [(), ("--default-stream", "per-thread", "-Xlinker=-z,now")])
def test_a_program_of_nvcc_runs_up_to_its_kernels(tmp_path: Path, options: tuple[str, ...]) -> None:
    toolkit()
    done = run_on_node([str(built(tmp_path, "-cudart", "shared", *options))])
    assert done.returncode == 0
    assert done.stdout == _ANSWERS
    assert done.stderr.count("does not run") == 1
    assert "kernel _Z3addPff does not run" in done.stderr


def test_nvidias_own_runtime_is_refused(tmp_path: Path) -> None:
    toolkit()
    done = run_on_node([str(built(tmp_path, "-cudart", "static"))])
    assert (done.returncode, done.stdout) == (1, "cudaErrorCallRequiresNewerDriver\n")
