"""Writes relation matrices as the many tools and web pages that show `nvidia-smi topo -m` do.

Cells are a square of words, "X" on the diagonal, GPUs first.
"""

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def labels(count, gpus, nic):
    return [f"GPU{i}" if i < gpus else f"{nic}{i - gpus}" for i in range(count)]


def tabs_new(cells, gpus, cpus):
    """Drivers from 2023 on: tabs, NICn with a legend, an empty cell before the GPU NUMA id."""
    names = labels(len(cells), gpus, "NIC")
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for i, row in enumerate(cells):
        shown = [" X " if c == "X" else c for c in row]
        tail = [cpus[i], str(i % 2), "", "N/A"] if i < gpus else []
        lines.append("\t".join([names[i], *shown, *tail]))
    text = "\n".join(lines) + "\n" + LEGEND
    if len(cells) > gpus:
        text += "\nNIC Legend:\n\n"
        text += "".join(f"  {n}: mlx5_{n[3:]}\n" for n in names[gpus:])
    return text


def spaces_old(cells, gpus, cpus):
    """Drivers up to 2020 as web pages show them: eight-column cells, mlx5_N columns, no NUMA."""
    names = labels(len(cells), gpus, "mlx5_")
    lines = [" " * 8 + "".join(f"{n:8}" for n in names) + "CPU Affinity"]
    for i, row in enumerate(cells):
        shown = "".join(f"{' X' if c == 'X' else c:8}" for c in row)
        lines.append((f"{names[i]:8}" + shown + (cpus[i] if i < gpus else "")).rstrip())
    return "\n".join(lines) + "\n"


def run_together(cells, gpus, cpus):
    """Header cells without a blank between them."""
    names = labels(len(cells), gpus, "mlx5_")
    lines = ["".join(names) + " CPU Affinity"]
    for i, row in enumerate(cells):
        lines.append(" ".join([names[i], *row, *([cpus[i]] if i < gpus else [])]))
    return "\n".join(lines) + "\n"


def markdown(cells, gpus, cpus):
    """A table with the affinities in front, as in some sites' guides."""
    names = labels(len(cells), gpus, "mlx5\\_")
    lines = ["| CPU Affinity | NUMA Affinity | | " + " | ".join(names) + " |"]
    lines.append("|" + "---|" * (len(names) + 3))
    for i, row in enumerate(cells):
        front = f"| {cpus[i]} | {i % 2} " if i < gpus else "| | "
        lines.append(f"{front}| **{names[i]}** | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def windows(cells, gpus, cpus):
    """BOM, CRLF, non-breaking blanks."""
    text = spaces_old(cells, gpus, cpus).replace("  ", "\u00a0 ")
    return "\ufeff" + text.replace("\n", "\r\n")


def terminal(cells, gpus, cpus):
    """Escapes around the header, a prompt before and after."""
    header, _, rest = tabs_new(cells, gpus, cpus).partition("\n")
    return f"user@node:~$ nvidia-smi topo -m\n\x1b[4m{header}\x1b[0m\n{rest}\nuser@node:~$ \n"


def wrapped(cells, gpus, cpus):
    """Every line hard-wrapped at 80 columns."""
    lines = []
    for line in spaces_old(cells, gpus, cpus).split("\n"):
        lines.extend(line[i : i + 80] for i in range(0, max(len(line), 1), 80))
    return "\n".join(lines)


RENDERERS = {
    f.__name__: f
    for f in (tabs_new, spaces_old, run_together, markdown, windows, terminal, wrapped)
}
