"""A tree of kernel files in a directory, for the readers to stand on."""

from __future__ import annotations

from pathlib import Path

from memhint.kernel.root import KernelRoot

from . import recorded


class FakeRoot:
    """Writes files below a directory; ``kernel`` is what the code under test gets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernel = KernelRoot(path)

    def write(self, relative: str, text: str) -> FakeRoot:
        target = self.path / relative.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        return self

    def write_all(self, directory: str, files: dict[str, str]) -> FakeRoot:
        for name, text in files.items():
            self.write(f"{directory}/{name}", text)
        return self

    def remove(self, relative: str) -> FakeRoot:
        (self.path / relative.lstrip("/")).unlink()
        return self

    def text(self, relative: str) -> str:
        return (self.path / relative.lstrip("/")).read_text(encoding="utf-8")

    def process(self, pid: int = 4711, **files: str) -> FakeRoot:
        """A process as Linux 6.12 shows it, with some files replaced."""
        shown = {
            "status": recorded.STATUS,
            "stat": recorded.STAT,
            "ksm_stat": recorded.KSM_STAT_6_12,
            "cmdline": recorded.CMDLINE,
            "comm": "qemu-system-x86\n",
            "maps": recorded.MAPS,
            "smaps": recorded.SMAPS,
            "smaps_rollup": recorded.SMAPS_ROLLUP,
            "numa_maps": recorded.NUMA_MAPS,
        }
        return self.write_all(f"proc/{pid}", shown | files)

    def host(self) -> FakeRoot:
        """A whole host as Linux 6.18 shows it."""
        self.write("proc/meminfo", recorded.MEMINFO).write("proc/swaps", recorded.SWAPS)
        self.write("proc/vmstat", recorded.VMSTAT).write("proc/pressure/memory", recorded.PRESSURE)
        self.write_all("sys/kernel/mm/ksm", recorded.KSM_6_18)
        self.write_all("sys/kernel/mm/transparent_hugepage", recorded.THP)
        pool = "sys/kernel/mm/hugepages/hugepages-2048kB"
        self.write(f"{pool}/nr_hugepages", "8\n").write(f"{pool}/free_hugepages", "3\n")
        self.write("proc/buddyinfo", recorded.BUDDYINFO)
        self.write("sys/devices/system/node/node0/meminfo", recorded.NODE_MEMINFO)
        return self.write("sys/devices/system/node/online", "0\n")
