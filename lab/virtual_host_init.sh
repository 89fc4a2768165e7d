#!/bin/sh
# First process of a virtual host: kernel interfaces, drivers, cgroup v2, then the server takes over.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /run/cryptsetup
if [ -e /proc/modules ]; then
    while read -r module; do insmod "/lib/modules/$module"; done < /etc/modules
fi
# as systemd mounts it
mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup
exec /usr/bin/python3 -S -u /inside/lab/virtual_host_server.py
