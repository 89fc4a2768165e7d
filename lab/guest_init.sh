#!/bin/sh
# First process of a lab guest: kernel interfaces, drivers, then the workload takes over.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for word in $(cat /proc/cmdline); do
	if [ "$word" = memhint.probe ]; then
		echo memhint-probe-booted > /dev/console
		poweroff -f
	fi
done
while read -r module; do insmod "/lib/modules/$module"; done < /etc/modules
exec /sbin/workload
