"""Texts as a Linux 6.12 guest has them in /proc."""

from __future__ import annotations

MEMINFO = """\
MemTotal:        2015984 kB
MemFree:          512000 kB
MemAvailable:    1500000 kB
Buffers:            1000 kB
Cached:           900000 kB
SwapCached:            0 kB
Active(anon):      10000 kB
Shmem:              5000 kB
HugePages_Total:       0
Hugetlb:               0 kB
"""

BUDDYINFO = """\
Node 0, zone      DMA      1      0      0      1      2      1      1      0      1      1      3
Node 0, zone    DMA32     10      4      2      0      0      0      0      0      0      0    100
"""
