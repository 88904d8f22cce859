# SPDX-License-Identifier: MIT OR Apache-2.0
from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyToposeat(PythonPackage):
    """Topology-aware GPU selection and rank placement: profile, map, launch and prove the gain."""

    pypi = "toposeat/toposeat-0.1.0.tar.gz"

    license("MIT OR Apache-2.0")

    # `make release` writes the digest of its sdist into its copy of this file.
    version("0.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@0.11:", type="build")
    depends_on("py-nanobind@2.4:", type="build")
    depends_on("py-msgspec@0.19:", type="build")
    depends_on("py-shtab@1.7:", type="build")

    depends_on("python@3.11.2:", type=("build", "link", "run"))
    depends_on("py-jinja2@3.1:", type="run")
    depends_on("py-msgspec@0.19:", type="run")
    depends_on("py-numpy@1.24:", type="run")
    depends_on("py-nvidia-ml-py@12.535:", type="run")
    depends_on("py-pyyaml@6.0:", type="run")
    depends_on("py-rich@13:", type="run")
    depends_on("py-shtab@1.7:", type="run")
