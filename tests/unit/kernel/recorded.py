"""Texts as kernels print them: layouts recorded on Linux 6.18, some numbers made up, and for older kernels without
the fields that those do not have.
"""

from __future__ import annotations

MEMINFO = """\
MemTotal:        24684092 kB
MemFree:         24436868 kB
MemAvailable:       24390940 kB
Buffers:             628 kB
Cached:            47224 kB
SwapCached:            0 kB
Active:            17416 kB
Inactive:          39632 kB
Active(anon):       1520 kB
Inactive(anon):    16536 kB
Active(file):      15896 kB
Inactive(file):    23096 kB
Unevictable:       15492 kB
Mlocked:           14548 kB
SwapTotal:             0 kB
SwapFree:              0 kB
Zswap:                 0 kB
Zswapped:              0 kB
Dirty:               128 kB
Writeback:             0 kB
AnonPages:         24708 kB
Mapped:            15768 kB
Shmem:              8856 kB
KReclaimable:      85112 kB
Slab:             108192 kB
SReclaimable:      85112 kB
SUnreclaim:        23080 kB
KernelStack:        1380 kB
PageTables:         1248 kB
SecPageTables:         0 kB
NFS_Unstable:          0 kB
Bounce:                0 kB
WritebackTmp:          0 kB
CommitLimit:    12342044 kB
Committed_AS:      71912 kB
VmallocTotal:   34359738367 kB
VmallocUsed:       14188 kB
VmallocChunk:          0 kB
Percpu:              688 kB
AnonHugePages:         0 kB
ShmemHugePages:        0 kB
ShmemPmdMapped:        0 kB
FileHugePages:         0 kB
FilePmdMapped:         0 kB
Balloon:               0 kB
HugePages_Total:       0
HugePages_Free:        0
HugePages_Rsvd:        0
HugePages_Surp:        0
Hugepagesize:       2048 kB
Hugetlb:               0 kB
DirectMap4k:       28672 kB
DirectMap2M:     2068480 kB
DirectMap1G:    25165824 kB
"""

SWAPS_NONE = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
SWAPS = (
    SWAPS_NONE
    + "/dev/zram0                              partition\t8388604\t\t524288\t\t100\n"
    + "/dev/sda2                               partition\t4194300\t\t1024\t\t-2\n"
    + "/swap\\040file                          file\t\t2097148\t\t512\t\t-3\n"
)

VMSTAT = """\
nr_free_pages 1050049
nr_anon_pages 6177
pgpgin 2619301
pgpgout 904140
pswpin 17
pswpout 4099
pgfault 3216151
pgmajfault 2387
oom_kill 2
thp_fault_alloc 746
thp_fault_fallback 31
thp_collapse_alloc 12
thp_collapse_alloc_failed 4
thp_split_page 5
compact_stall 40
compact_fail 9
balloon_inflate 0
balloon_deflate 0
balloon_migrate 0
ksm_swpin_copy 0
cow_ksm 0
zswpin 0
zswpout 0
zswpwb 0
"""

PRESSURE = """\
some avg10=1.25 avg60=0.50 avg300=0.10 total=123456
full avg10=0.75 avg60=0.25 avg300=0.05 total=65432
"""

KSM_6_1 = {
    "full_scans": "7\n",
    "max_page_sharing": "256\n",
    "merge_across_nodes": "1\n",
    "pages_shared": "120\n",
    "pages_sharing": "4000\n",
    "pages_to_scan": "100\n",
    "pages_unshared": "9\n",
    "pages_volatile": "3\n",
    "run": "1\n",
    "sleep_millisecs": "20\n",
    "use_zero_pages": "0\n",
}
KSM_6_18 = KSM_6_1 | {
    "advisor_max_cpu": "70\n",
    "advisor_max_pages_to_scan": "30000\n",
    "advisor_min_pages_to_scan": "500\n",
    "advisor_mode": "[none] scan-time\n",
    "advisor_target_scan_time": "200\n",
    "general_profit": "-4096\n",
    "ksm_zero_pages": "250\n",
    "smart_scan": "1\n",
    "use_zero_pages": "1\n",
}

THP = {"enabled": "always [madvise] never\n", "defrag": "always defer defer+madvise [madvise] never\n"}

BUDDYINFO = """\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      2
Node 0, zone    DMA32      5      4      3      3      4      4      4      4      3      2    733
Node 0, zone   Normal   1124    890    345    120     50     22     12      9      4      3      1
Node 1, zone   Normal     10     20      0      0      0      0      0      0      7      0      0
"""

NODE_MEMINFO = """\
Node 0 MemTotal:       16284748 kB
Node 0 MemFree:         4173348 kB
Node 0 MemUsed:        12111400 kB
Node 0 HugePages_Total:     0
Node 0 HugePages_Free:      0
Node 0 HugePages_Surp:      0
"""

STATUS = """\
Name:\tqemu-system-x86
Umask:\t0022
State:\tS (sleeping)
Tgid:\t4711
Pid:\t4711
FDSize:\t256
Kthread:\t0
VmPeak:\t 3060000 kB
VmSize:\t 3059000 kB
VmHWM:\t 1400000 kB
VmRSS:\t 1300004 kB
RssAnon:\t 1280000 kB
RssFile:\t   20004 kB
VmSwap:\t    2048 kB
HugetlbPages:\t       0 kB
Threads:\t6
voluntary_ctxt_switches:\t120
nonvoluntary_ctxt_switches:\t4
"""
STATUS_WITHOUT_MEMORY = """\
Name:\tqemu-system-x86
State:\tZ (zombie)
Pid:\t4711
Threads:\t1
"""
_STAT_FIELDS = (
    "S 1 4711 4711 0 -1 4194304 101 0 0 0 30 40 0 0 20 0 6 0 91971 3132416000 325001 18446744073709551615 0 0 0"
)


def stat_of(comm: str) -> str:
    return f"4711 ({comm}) {_STAT_FIELDS}\n"


STAT = stat_of("qemu-system-x86")

KSM_STAT_6_1 = "ksm_rmap_items 900\n"
KSM_STAT_6_12 = "ksm_rmap_items 900\nksm_zero_pages 300\nksm_merging_pages 500\nksm_process_profit 3200000\n"
KSM_STAT_6_18 = KSM_STAT_6_12 + "ksm_merge_any: no\nksm_mergeable: no\n"

UUID = "5f1c1a4e-2f0c-4c1e-9d0e-0a1b2c3d4e5f"
CMDLINE = f"/usr/bin/qemu-system-x86_64\0-name\0guest=a,debug-threads=on\0-uuid\0{UUID}\0-no-user-config\0"

SMAPS_ROLLUP = """\
55a78214e000-7ffee3a5e000 ---p 00000000 00:00 0                          [rollup]
Rss:             1300004 kB
Pss:             1200000 kB
Pss_Dirty:       1190000 kB
Anonymous:       1280000 kB
KSM:                2000 kB
AnonHugePages:    614400 kB
Swap:               2048 kB
Locked:                0 kB
"""
SMAPS = """\
55fdb6af5000-55fdb6af7000 r--p 00000000 fe:00 247278                     /usr/bin/qemu-system-x86_64
Size:                  8 kB
KernelPageSize:        4 kB
Rss:                   8 kB
THPeligible:           0
VmFlags: rd mr mw me
7f0000000000-7f0040000000 rw-p 00000000 00:00 0
Size:            1048576 kB
KernelPageSize:        4 kB
Rss:             1000000 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac sd hg mg
7f0040000000-7f0040400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                  16 kB
VmFlags: rd wr mr mw me ac dd
"""
MAPS = """\
55fdb6af5000-55fdb6af7000 r--p 00000000 fe:00 247278                     /usr/bin/qemu-system-x86_64
7f0000000000-7f0000064000 rw-p 00000000 00:00 0
7ffe90d54000-7ffe90d75000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""
NUMA_MAPS = """\
55fdb6af5000 default file=/usr/bin/qemu-system-x86_64 mapped=2 N0=2 kernelpagesize_kB=4
55fdc94b7000 default heap anon=4 dirty=4 active=0 N0=1 N1=3 kernelpagesize_kB=4
7f0000000000 bind:1 anon=100 dirty=100 N1=100
7f0080000000 default file=/dev/hugepages/x\\0401 huge dirty=3 N0=3 kernelpagesize_kB=2048
7f08f9d78000 default
"""
