# Builds zstd's library, cleans, drops caches, and says in the kernel's log when each begins: "phase NAME".
# Runs in the guest's own system; make and the compiler run inside the disk.
#
#   sh -c "$(cat build.sh)" build REST_SECONDS TARGETS COMPILER_OPTIONS...
rest=$1 targets=$2
shift 2
# The kernel's log is on the console at once; what a program writes there may wait for the next writer.
phase() { echo "<2>phase $1" > /dev/kmsg; }
inside() { busybox chroot /disk /bin/env PATH=/usr/bin:/bin "$@"; }
failed() {
	cat /tmp/log > /dev/console
	phase failed
	exit 1
}

mkdir -p /disk
mount -t ext4 /dev/vdb /disk 2> /tmp/log && mount -t devtmpfs dev /disk/dev && mount -t proc proc /disk/proc || failed
phase build
# shellcheck disable=SC2086 # several targets
inside make -s -j4 -C /src/lib CFLAGS="$*" $targets > /tmp/log 2>&1 || failed
sync
phase built
sleep "$rest"
phase clean
inside make -s -C /src/lib clean > /tmp/log 2>&1 || failed
sync
phase cleaned
sleep "$rest"
phase drop
echo 3 > /proc/sys/vm/drop_caches
phase idle
