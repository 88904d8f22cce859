"""Reader of lscpu, whole or a line of it, and of /proc/cpuinfo: the processor, and no GPU."""

from __future__ import annotations

from toposeat.model.processor import processor_metadata
from toposeat.model.topology import Topology
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import clean_lines, without_marks

_SPELT = {"vendor id": "vendor_id"}  # by lscpu; else its keys are those of cpuinfo in upper case


def parse(file: FileText) -> Topology:
    """The processor as metadata of a machine without devices; of several kinds the first."""
    told: dict[str, str] = {}
    for line in clean_lines(file.text):
        key, _, value = without_marks(line.text).partition(":")
        key = key.strip().lower()
        told.setdefault(_SPELT.get(key, key), value.strip())
    found = processor_metadata(told, told.get("architecture", ""))
    if not found:
        raise file.refusal("no line of lscpu names the processor")
    return Topology(origin="lscpu", devices=(), metadata=found)
