"""What the generators stand on: published figures with their source, and what had to be chosen where none was found.

All of it was fixed before any result was looked at. A result that does not please changes a planner's setting, said
openly, and nothing here.

Sources:

- [RC] Cortez et al., "Resource Central", SOSP 2017, and the trace that goes with it: AzurePublicDatasetV1
  (2,013,767 VMs, 104,371,713 VM hours in 30 days; memory sizes in GB: 0.75, 1.75, 2, 3.5, 4, 7, 8, 14, 16, 28, 32,
  56, 64, 112)
- [Pond] Li et al., "Pond: CXL-based memory pooling systems for cloud platforms", ASPLOS 2023
- [SAP] Uhlig et al., "The SAP Cloud Infrastructure Dataset", IMC 2025, doi 10.1145/3730567.3764480
- [PPR] XaviLi, "Another Para-Virtualization page recycler", linux-kernel mailing list, 19 September 2017
- [wasp] wasp-agent's default: node swap = memory × (overcommitment of 150 % − 1)
- chosen: no published figure was found
"""

from __future__ import annotations

from memhint.objects.units import GIB, MIB

# -- hosts

HOST_MEMORY = 256 * GIB  # chosen
HOST_SWAP = 128 * GIB  # [wasp]
HOST_OTHER = 4 * GIB  # chosen: the host's other work, constant
QEMU_OWN = 64 * MIB  # chosen: what a QEMU process has beside its guest's memory; the planner counts `overhead`

# -- sizes, lifetimes, arrivals

# [RC]: the doubling sizes of the trace, of which 70 % of VMs have less than 4 GB. The weights within that are chosen.
SIZES = (
    (int(0.75 * GIB), 0.060),
    (int(1.75 * GIB), 0.400),
    (int(3.5 * GIB), 0.260),
    (7 * GIB, 0.160),
    (14 * GIB, 0.070),
    (28 * GIB, 0.030),
    (56 * GIB, 0.016),
    (112 * GIB, 0.004),
)

# [RC]: over 90 % of VMs live for less than a day, and the mean of the trace is 104,371,713 / 2,013,767 = 51.8 hours.
# Short ones are log-normal below a day; those above have an exponential rest whose mean makes up the 51.8 hours.
SHORT_SHARE = 0.90
SHORT_MEDIAN = 1800.0  # seconds, chosen
SHORT_SIGMA = 1.5  # of the logarithm, chosen
LONG_LEAST = 86400.0
LONG_MEAN_REST = 482 * 3600.0  # derived
MEAN_LIFETIME = 51.8 * 3600.0

# [RC]: arrivals follow the day and the week. The amplitudes are chosen.
ARRIVAL_SWING = 0.5  # of the mean rate, highest at PEAK_HOUR
OFFERED = 2.0  # chosen: VMs that ask, in multiples of the memory of all hosts, so that every policy is full
FILL = 86400.0  # chosen: the first VMs come within this time; it counts for no mean

# -- use of memory

# [Pond]: half of VMs touch less than half of their memory. [SAP]: over 80 % of VMs use less than 70 % of what they
# have. Beta(2.3, 2.3) has both: median 0.5, 80 % below 0.7. It is the peak of a VM's use.
PEAK_BETA = (2.3, 2.3)
PEAK_LEAST = 0.05  # chosen: no VM runs in less

# -- diurnal

SWING = (0.1, 0.5)  # chosen: uniform, how much of its peak a VM does without at its quietest
PEAK_HOUR = 14.0  # chosen
PEAK_HOUR_SPREAD = 2.0  # chosen: standard deviation in hours
ELSEWHERE = 0.3  # chosen: share of VMs that work at any hour, for other time zones and nightly jobs
WEEKEND = 0.6  # chosen: a weekend's day in parts of a working day
NOISE = 0.10  # chosen: standard deviation, in parts of the swing
NOISE_TIME = 3600.0  # chosen: seconds in which noise forgets itself by 1/e

# -- bursty

BURST_SWING = 0.7  # chosen: what a burst adds, in parts of the peak
BURST_EVERY = 4 * 3600.0  # chosen: mean quiet time, exponential
BURST_MEDIAN = 1200.0  # chosen: log-normal
BURST_SIGMA = 1.0  # chosen

# -- storm: the diurnal fleet, and once a week VMs that belong together use all they have at once

STORM_EVERY_DAYS = 7  # chosen
STORM_HOUR = 3.0  # chosen: a patch window
STORM_SECONDS = 3600.0  # chosen
STORM_SHARE = 0.5  # chosen: of all VMs, drawn by lot

# -- office: all VMs busy in office hours and idle by night and at weekends

OFFICE_HOURS = (9.0, 17.0)  # chosen
OFFICE_SPREAD = 0.5  # chosen: standard deviation in hours of when each begins and ends
OFFICE_SWING = 0.85  # chosen: of the peak, what an idle VM does without

# -- cron: most VMs idle but for an hour each night, all at the same time

CRON_HOUR = 2.0  # chosen
CRON_SECONDS = 3600.0  # chosen
CRON_SHARE = 0.6  # chosen: of the courses; the others are diurnal
CRON_SWING = 0.85  # chosen

# -- hot: VMs that are cold for hours or days, and then use their peak for good

HOT_AFTER = (3600.0, 96 * 3600.0)  # chosen: seconds from a VM's arrival, log-uniform
HOT_PEAK = (0.6, 1.0)  # chosen: of memory, uniform
HOT_COLD = 0.05  # chosen: of memory, before

# -- leak: VMs that use a little more each hour, until what leaks is restarted

LEAK_SHARE = 0.4  # chosen: of the courses; the others are diurnal
LEAK_LASTS = (86400.0, 14 * 86400.0)  # chosen: seconds from one restart to the next, log-uniform
LEAK_SWING = 0.85  # chosen: of the peak, what is not used after a restart

# -- flash: crowds that come unannounced, each time to others

FLASH_EVERY = 3 * 86400.0  # chosen: mean time without one, exponential
FLASH_SECONDS = 2 * 3600.0  # chosen
FLASH_SHARE = 0.2  # chosen: of the courses, drawn by lot each time
FLASH_USUAL = 0.5  # chosen: how high a day rises without a crowd, in parts of the peak's swing
FLASH_SWING = 0.85  # chosen: of the peak, what a VM does without at its quietest

# -- antiphase: half of all VMs work by day, the others by night

ANTIPHASE_SWING = 0.85  # chosen

# -- tails: bursts of which most are small and a few take all of a VM's memory

TAIL_LEAST = 0.05  # chosen: the smallest burst, in parts of the swing
TAIL_SHAPE = 1.1  # chosen: of the Pareto distribution: a burst takes all in 4 % of the cases
TAIL_SWING = 0.9  # chosen

# -- the seed's workload [PPR]: VMs of 4 GB; each allocates and frees every 30 minutes, 3 GB at its highest and 150 MB
# on average; 230 GB for 67 VMs, 73 with KSM, and 516 with an average of 182 GB where freed memory came back in seconds

SEED_MEMORY = 4 * GIB
SEED_PERIOD = 1800.0
SEED_TOP = 3 * GIB
SEED_MEAN = 150 * MIB
SEED_STEP = 30.0  # chosen: a step of five minutes would not see an allocation of 90 s
SEED_USED = 230 * GIB
SEED_VMS = {"none": 67, "ksm": 73, "returned": 516}
SEED_RETURNED_USED = 182 * GIB
