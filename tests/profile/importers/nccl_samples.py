"""NCCL debug logs as NCCL 2.19 and later, and 2.8, print them."""

from dataclasses import dataclass

CODES = {1: 0, 2: 6, 4: 7, 8: 8}  # ncclDataType_t by element size: int8, half, float, double


@dataclass(frozen=True)
class LoggedProcess:
    """One process with one GPU."""

    host: str
    device: int

    @property
    def pid(self):
        return 1000 + self.device

    @property
    def bus(self):
        """As logged: bus 0x10, 0x20, ... device 00, function 0."""
        return f"{16 * (self.device + 1):x}000"

    def line(self, text):
        return f"{self.host}:{self.pid}:{self.pid + 50} [{self.device}] NCCL INFO {text}"


def address(process, number):
    """Of communicator `number` in that process: different in each, as real ones are."""
    return f"0x{0x55D0_0000_0000 + 4096 * process.device + 65536 * number:x}"


def init_lines(members, number, *, named=True):
    """START and COMPLETE of each member, with a ring between, which nobody reads."""
    lines = []
    n = len(members)
    for rank, process in enumerate(members):
        name = f" commId 0x{0xABC000 + number:x}" if named else ""
        about = (
            f"comm {address(process, number)} rank {rank} nranks {n} cudaDev {process.device}"
            + (f" nvmlDev {process.device}" if named else "")
            + f" busId {process.bus}{name}"
        )
        if named:
            lines.append(process.line(f"ncclCommInitRank {about} - Init START"))
            lines.append(
                process.line(
                    f"comm {address(process, number)} rank {rank} nRanks {n} nNodes 1 localRanks"
                    f" {n} localRank {rank} MNNVL 0"
                )
            )
        if rank == 0:
            lines.append(process.line(f"Channel 00/01 :    {'   '.join(map(str, range(n)))}"))
        lines.append(process.line(f"Channel 00/0 : {rank}[{rank}] -> 0[0] via P2P/IPC"))
        start = "ncclCommInitRank " if named else ""
        lines.append(process.line(f"{start}{about} - Init COMPLETE"))
    return lines


def call_line(process, number, ranks, name, count, *, size=4, root=0, op=0):
    """One call on communicator `number` of a process."""
    return process.line(
        f"{name}: opCount {op:x} sendbuff 0x7f32c0000000 recvbuff 0x7f32c4000000 count {count}"
        f" datatype {CODES[size]} op 0 root {root} comm {address(process, number)}"
        f" [nranks={ranks}] stream 0x55d01234"
    )
