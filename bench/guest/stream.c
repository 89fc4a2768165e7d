// SPDX-License-Identifier: GPL-2.0
/*
 * As netperf's TCP_STREAM does, one process sends to another through the loopback device, 16 KiB at a time through socket
 * buffers of 128 KiB, a fixed number of bytes. So that there is something to report meanwhile, a third process takes 256 MiB
 * of huge pages when the receiver has got another 256 MiB, and frees them 128 MiB later: in step with what is moved, so that
 * the work is the same however long it takes. An operation is a MiB that is moved; there are 1024 at scale=100.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "window.h"

enum { SEND = 16 << 10, BUFFER = 128 << 10, STEP = 128 * MIB, TAKEN = 256 * MIB };

static int ready[2], go[2], done[2], step[2];
static long size;

static int buffered(int fd)
{
	int bytes = BUFFER;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)))
		fail("socket");
	return fd;
}

static void send_all(struct sockaddr_in address)
{
	char *data = map(SEND);
	int fd = buffered(socket(AF_INET, SOCK_STREAM, 0));

	memset(data, 1, SEND);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		fail("connect");
	give(ready[1], 1);
	await(go[0], 1);
	for (long sent = 0; sent < size; sent += SEND)
		if (send(fd, data, SEND, 0) != SEND)
			fail("send");
	pause();
}

static void receive_all(int listening)
{
	char *data = map(BUFFER);
	long got = 0, told = 0;
	int fd = accept(listening, NULL, NULL);

	if (fd < 0)
		fail("accept");
	memset(data, 1, BUFFER);
	give(ready[1], 1);
	while (got < size) {
		ssize_t more = recv(fd, data, BUFFER, 0);

		if (more <= 0)
			fail("recv");
		for (got += more; got - told >= STEP; told += STEP)
			give(step[1], 1);
	}
	give(done[1], 1);
	pause();
}

static void free_steadily(void)
{
	char *taken = map(TAKEN + BLOCK);

	taken = (char *)(((uintptr_t)taken + BLOCK - 1) & ~(uintptr_t)(BLOCK - 1));
	madvise(taken, TAKEN, MADV_HUGEPAGE);
	touch(taken, TAKEN, BLOCK);
	give(ready[1], 1);
	for (long i = 0; i < size / STEP; i++) {
		await(step[0], 1);
		if (i % 2 == 0)
			madvise(taken, TAKEN, MADV_DONTNEED);
		else
			touch(taken, TAKEN, BLOCK);
	}
	give(done[1], 1);
	pause();
}

static void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request))
		fail("lo");
	close(fd);
}

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(12865) };
	int fd;

	begin_guest();
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	size = 1024L * MIB * scale / 100 / (2 * STEP) * (2 * STEP);
	/* as in the other program; without it pages of the network would make two runs differ */
	put("/proc/sys/vm/percpu_pagelist_high_fraction", "8");
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	put("/sys/kernel/debug/sched/base_slice_ns", "100000000");
	if (sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 }))
		fail("batch");
	loopback_up();
	if (pipe(ready) || pipe(go) || pipe(done) || pipe(step))
		fail("pipe");
	fd = buffered(socket(AF_INET, SOCK_STREAM, 0));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1))
		fail("listen");
	if (!fork())
		receive_all(fd);
	if (!fork())
		send_all(address);
	if (!fork())
		free_steadily();
	await(ready[0], 3);
	open_window();
	give(go[1], 1);
	await(done[0], 2);
	close_window("stream", size / MIB);
	end_guest();
	return 0;
}
