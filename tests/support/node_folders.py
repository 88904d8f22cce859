"""The folders in which ranks of a run leave their records on a node of their own."""

import hmac

from toposeat.launch.home_wire import KEY_VARIABLE
from toposeat.model.job_folder import MEMORY_FOLDER


def name_of_run(run, key):
    """How `launcher/src/carry.c` calls the folder of a run, behind the boot."""
    inner = hmac.digest(key[KEY_VARIABLE].encode(), b"records", "sha256")
    return hmac.digest(inner, run.encode(), "sha256")[:16].hex()


def node_folders(run, key):
    """Those of this node."""
    return list(MEMORY_FOLDER.glob(f"toposeat-records-*-{name_of_run(run, key)}"))
