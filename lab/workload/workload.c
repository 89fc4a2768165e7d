/*
 * workload: what a lab guest runs as its first process, once /init has set the guest up. In a guest with an init system
 * it is one service of it, and the guest agent another, which it leaves alone until it is asked to imitate it.
 *
 * It answers one line of JSON per line of request on the virtio-serial port memhint.lab.0. A request is
 * "[@ID] COMMAND ARGUMENT..."; the answer repeats ID, so that an answer to a client that went away is never
 * taken for the answer to the next one. Sizes in requests are MiB, sizes in answers are bytes.
 *
 * It also starts, stops and impersonates the guest agent, to show how a host copes with a bad one.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)
#define LINE_MAX_BYTES 4096
/* What an allocation leaves to the rest of the guest: below this the OOM killer could take the agent. */
#define MARGIN (24 * MIB)

#define WORK_PORT "memhint.lab.0"
#define AGENT_PORT "org.qemu.guest_agent.0"

/* ---- answers ---------------------------------------------------------------------------------------------- */

static char answer[256 * 1024];
static size_t answer_length;

static void put(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(answer + answer_length, sizeof answer - answer_length, format, arguments);
	va_end(arguments);
	if (n > 0)
		answer_length += (size_t)n;
	if (answer_length > sizeof answer - 1)
		answer_length = sizeof answer - 1;
}

static void put_string(const char *text, size_t length)
{
	put("\"");
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c == '"' || c == '\\')
			put("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			put("\\u%04x", c);
		else
			put("%c", c);
	}
	put("\"");
}

static void fail(const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	put(",\"ok\":false,\"error\":");
	put_string(text, strlen(text));
}

static void succeed(void)
{
	put(",\"ok\":true");
}

/* ---- small files ------------------------------------------------------------------------------------------ */

/* Bytes read into buffer (NUL-terminated, trailing newline cut), or -1. */
static ssize_t slurp(const char *path, char *buffer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	size_t length = 0;
	ssize_t n;
	while (length < size - 1 && (n = read(fd, buffer + length, size - 1 - length)) > 0)
		length += (size_t)n;
	close(fd);
	if (length && buffer[length - 1] == '\n')
		length--;
	buffer[length] = 0;
	return (ssize_t)length;
}

static int spit(const char *path, const char *text, size_t length)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = write(fd, text, length);
	int saved = errno;
	close(fd);
	errno = saved;
	return n < 0 ? -1 : 0;
}

/* Bytes of one /proc/meminfo row. */
static unsigned long meminfo(const char *row)
{
	static char text[8192];
	if (slurp("/proc/meminfo", text, sizeof text) < 0)
		return 0;
	size_t length = strlen(row);
	for (char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
		if (!strncmp(line, row, length) && line[length] == ':')
			return strtoul(line + length + 1, NULL, 10) * 1024;
	return 0;
}

/* ---- memory ----------------------------------------------------------------------------------------------- */

enum content { ZERO, RANDOM, SEED };

struct block {
	char name[64];
	unsigned char *start;
	size_t bytes;
	enum content content;
	uint64_t seed;
	struct block *next;
};

static struct block *blocks;

static struct block **find_block(const char *name)
{
	struct block **at = &blocks;
	while (*at && strcmp((*at)->name, name))
		at = &(*at)->next;
	return at;
}

/* splitmix64: turns neighbouring seeds and page numbers into unrelated starting points. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Every page depends on (seed, page number) only: two guests with one seed hold the same pages in the same order. */
static void fill_page(uint64_t *page, uint64_t seed, uint64_t number)
{
	uint64_t x = mix(seed ^ mix(number)) | 1;
	for (size_t i = 0; i < PAGE / sizeof *page; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		page[i] = x;
	}
}

/*
 * MemAvailable, once it is enough or 5 s are over. While the host is told of free blocks they are on no free list: up to
 * 32 at a time, of 4 MiB each.
 */
static unsigned long wait_available(unsigned long wanted)
{
	unsigned long available = meminfo("MemAvailable");
	for (int tries = 0; available < wanted && tries < 500; tries++) {
		usleep(10 * 1000);
		available = meminfo("MemAvailable");
	}
	return available;
}

static void alloc_command(char *name, char *mib, char *content)
{
	if (!name || !mib) {
		fail("alloc NAME MIB [zero|random|seed:N]");
		return;
	}
	if (strlen(name) >= sizeof blocks->name) {
		fail("name longer than %zu characters", sizeof blocks->name - 1);
		return;
	}
	if (*find_block(name)) {
		fail("%s is allocated already: free it first", name);
		return;
	}
	char *end;
	unsigned long count = strtoul(mib, &end, 10);
	if (*end || !count || count > (1ul << 30)) {
		fail("%s is not a number of MiB", mib);
		return;
	}
	struct block new = { .bytes = count * MIB, .content = RANDOM };
	if (!content || !strcmp(content, "random")) {
		if (getrandom(&new.seed, sizeof new.seed, 0) != sizeof new.seed) {
			fail("getrandom: %s", strerror(errno));
			return;
		}
	} else if (!strcmp(content, "zero")) {
		new.content = ZERO;
	} else if (!strncmp(content, "seed:", 5)) {
		new.content = SEED;
		new.seed = strtoull(content + 5, &end, 10);
		if (*end || end == content + 5) {
			fail("%s: a seed is a number", content);
			return;
		}
	} else {
		fail("content %s is not zero, random or seed:N", content);
		return;
	}
	unsigned long available = wait_available(new.bytes + MARGIN);
	if (new.bytes + MARGIN > available) {
		fail("%lu MiB asked, %lu MiB available, of which %lu are kept for the guest itself", count, available / MIB, MARGIN / MIB);
		return;
	}
	new.start = mmap(NULL, new.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (new.start == MAP_FAILED) {
		fail("mmap: %s", strerror(errno));
		return;
	}
	struct block *block = malloc(sizeof *block);
	if (!block) {
		munmap(new.start, new.bytes);
		fail("malloc: %s", strerror(errno));
		return;
	}
	strcpy(new.name, name);
	*block = new;
	for (size_t at = 0; at < new.bytes; at += PAGE) {
		if (new.content == ZERO)
			memset(new.start + at, 0, PAGE); /* a write, so that a page of its own is there, and not the kernel's shared one */
		else
			fill_page((uint64_t *)(new.start + at), new.seed, at / PAGE);
	}
	block->next = blocks;
	blocks = block;
	succeed();
	put(",\"bytes\":%zu", block->bytes);
}

static void free_command(char *name)
{
	struct block **at = name ? find_block(name) : NULL;
	if (!at || !*at) {
		fail("nothing is allocated as %s", name ? name : "(no name given)");
		return;
	}
	struct block *block = *at;
	*at = block->next;
	munmap(block->start, block->bytes);
	succeed();
	put(",\"bytes\":%zu", block->bytes);
	free(block);
}

/* Write to every page. Zero and seeded pages get the value they had (a write storm that leaves the content alone); random ones change. */
static void touch_command(char *name)
{
	struct block **at = name ? find_block(name) : NULL;
	if (!at || !*at) {
		fail("nothing is allocated as %s", name ? name : "(no name given)");
		return;
	}
	struct block *block = *at;
	for (size_t offset = 0; offset < block->bytes; offset += PAGE) {
		volatile uint64_t *word = (volatile uint64_t *)(block->start + offset);
		uint64_t value = *word;
		*word = block->content == RANDOM ? mix(value) : value;
	}
	succeed();
	put(",\"bytes\":%zu", block->bytes);
}

static void list_command(void)
{
	succeed();
	put(",\"blocks\":[");
	for (struct block *block = blocks; block; block = block->next) {
		put("%s{\"name\":", block == blocks ? "" : ",");
		put_string(block->name, strlen(block->name));
		put(",\"bytes\":%zu,\"content\":\"", block->bytes);
		if (block->content == SEED)
			put("seed:%llu\"}", (unsigned long long)block->seed);
		else
			put("%s\"}", block->content == ZERO ? "zero" : "random");
	}
	put("]");
}

/* Allocate, and give every other page back: what becomes free is in single pages, none of which can be reported. */
static void fragment_command(char *name, char *mib)
{
	alloc_command(name, mib, "random");
	struct block **at = name ? find_block(name) : NULL;
	if (!at || !*at)
		return; /* alloc has said why */
	for (size_t offset = 0; offset < (*at)->bytes; offset += 2 * PAGE)
		madvise((*at)->start + offset, PAGE, MADV_DONTNEED);
}

/* ---- page cache ------------------------------------------------------------------------------------------- */

static off_t cache_offset; /* how far into the disk earlier calls have read */

static void cache_command(char *mib)
{
	char *end = NULL;
	unsigned long count = mib ? strtoul(mib, &end, 10) : 0;
	if (!count || *end) {
		fail("cache MIB");
		return;
	}
	int fd = open("/dev/vda", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fail("/dev/vda: %s", strerror(errno));
		return;
	}
	static char buffer[1 << 20];
	unsigned long wanted = count * MIB, done = 0;
	while (done < wanted) {
		ssize_t n = pread(fd, buffer, wanted - done < sizeof buffer ? wanted - done : sizeof buffer, cache_offset);
		if (n <= 0)
			break;
		done += (unsigned long)n;
		cache_offset += n;
	}
	int saved = errno;
	/* Kept open: the kernel empties a block device's cache when its last opener closes it. */
	static int keep_open = -1;
	if (keep_open < 0)
		keep_open = fd;
	else
		close(fd);
	if (done < wanted) {
		fail("%lu of %lu MiB read: %s", done / MIB, count, saved ? strerror(saved) : "end of the disk");
		return;
	}
	succeed();
	put(",\"bytes\":%lu", done);
}

/* ---- a hot working set, and a hog ------------------------------------------------------------------------- */

#define HOT_OFFSET (48ul << 30) /* on the disk, far from what the cache command reads */

static void pause_ms(long ms);
static void reset_signals(void);

static pid_t hot_pid, hog_pid; /* children that go on until they are told to stop; 0 when they do not run */
static size_t hot_bytes;

static void stop_child(pid_t *pid)
{
	if (*pid) {
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
	}
	*pid = 0;
}

static bool read_hot(int fd)
{
	static char buffer[1 << 16];
	for (size_t at = 0; at < hot_bytes; at += sizeof buffer)
		if (pread(fd, buffer, sizeof buffer, (off_t)(HOT_OFFSET + at)) != (ssize_t)sizeof buffer)
			return false;
	return true;
}

/* Bytes of the hot set that are in the page cache now. */
static size_t hot_resident(int fd)
{
	static unsigned char in_core[1 << 20];
	size_t pages = hot_bytes / PAGE, found = 0;
	void *map = mmap(NULL, hot_bytes, PROT_READ, MAP_SHARED, fd, (off_t)HOT_OFFSET);
	if (map == MAP_FAILED)
		return 0;
	if (pages <= sizeof in_core && !mincore(map, hot_bytes, in_core))
		for (size_t i = 0; i < pages; i++)
			found += in_core[i] & 1;
	munmap(map, hot_bytes);
	return found * PAGE;
}

/* `hot MIB`: page cache that is read again and again, twice a second. `hot`: how much of it is there. `hot stop`. */
static void hot_command(char *mib)
{
	static int fd = -1;
	if (fd < 0)
		fd = open("/dev/vda", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fail("/dev/vda: %s", strerror(errno));
		return;
	}
	if (mib && !strcmp(mib, "stop")) {
		stop_child(&hot_pid);
	} else if (mib) {
		char *end;
		unsigned long count = strtoul(mib, &end, 10);
		if (*end || !count || count > 1024) {
			fail("hot MIB|stop, up to 1024 MiB");
			return;
		}
		stop_child(&hot_pid);
		hot_bytes = count * MIB;
		/* Three times: the kernel takes for hot what was read again. */
		if (!read_hot(fd) || !read_hot(fd) || !read_hot(fd)) {
			fail("/dev/vda: %s", strerror(errno));
			return;
		}
		hot_pid = fork();
		for (; hot_pid == 0; pause_ms(500))
			read_hot(fd);
	}
	succeed();
	put(",\"bytes\":%zu,\"resident\":%zu", hot_bytes, hot_bytes ? hot_resident(fd) : 0);
}

/* `hog MIB LIMIT`: a process that wants MIB and is throttled above LIMIT, which is memory pressure. `hog stop`. */
static void hog_command(char *mib, char *limit)
{
	stop_child(&hog_pid);
	if (mib && !strcmp(mib, "stop")) {
		succeed();
		return;
	}
	char *end, high[64], pid[32];
	unsigned long count = mib ? strtoul(mib, &end, 10) : 0;
	if (!count || *end || !limit) {
		fail("hog MIB LIMIT|stop");
		return;
	}
	snprintf(high, sizeof high, "%luM", strtoul(limit, NULL, 10));
	mkdir("/sys/fs/cgroup/hog", 0755);
	if (spit("/sys/fs/cgroup/cgroup.subtree_control", "+memory", 7) ||
	    spit("/sys/fs/cgroup/hog/memory.high", high, strlen(high))) {
		fail("the guest has no memory cgroup of version 2: %s", strerror(errno));
		return;
	}
	hog_pid = fork();
	if (hog_pid == 0) {
		snprintf(pid, sizeof pid, "%d", getpid());
		if (spit("/sys/fs/cgroup/hog/cgroup.procs", pid, strlen(pid)))
			_exit(1);
		for (;;) {
			char *memory = mmap(NULL, count * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			for (size_t at = 0; memory != MAP_FAILED && at < count * MIB; at += PAGE)
				memory[at] = 1;
			if (memory != MAP_FAILED)
				munmap(memory, count * MIB);
		}
	}
	succeed();
}

/* ---- a duty cycle ----------------------------------------------------------------------------------------- */

#define DUTY_FOLDER "/tmp/duty"
#define DUTY_PAGES 64 /* written at once, of files of whole MiB: emulated, a call for each page took most of the time */

/* What the child has to tell, in memory that it shares with its parent. */
struct duty {
	unsigned cycles; /* that came to their end */
	uint64_t cpu_us; /* of the last one, in and outside the kernel */
	uint64_t wall_ms;
	size_t peak; /* bytes that it held */
	int error; /* why that is less than was asked for */
};

static struct duty *duty;
static pid_t duty_pid;

static uint64_t clock_ms(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Sleep until `at`, in ms of the monotonic clock; one that is late goes on at once. */
static void wait_ms(uint64_t at)
{
	uint64_t now = clock_ms(CLOCK_MONOTONIC);
	if (now < at)
		pause_ms((long)(at - now));
}

static int write_file(unsigned number, size_t bytes)
{
	static char some[DUTY_PAGES * PAGE];
	char path[64];
	uint64_t seed;
	snprintf(path, sizeof path, DUTY_FOLDER "/%u", number);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || getrandom(&seed, sizeof seed, 0) != sizeof seed)
		return -1;
	for (size_t at = 0; at < bytes; at += sizeof some) {
		for (size_t page = 0; page < DUTY_PAGES; page++)
			fill_page((uint64_t *)(some + page * PAGE), seed, at / PAGE + page);
		if (write(fd, some, sizeof some) != (ssize_t)sizeof some) {
			int saved = errno;
			close(fd);
			errno = saved;
			return -1;
		}
	}
	return close(fd);
}

/* Files of random content in memory, one each `step_ms`, until there are so many; then one after the other goes. */
static void duty_cycle(unsigned files, size_t bytes, uint64_t step_ms)
{
	uint64_t began = clock_ms(CLOCK_MONOTONIC), at = began;
	struct timespec cpu;
	char path[64];
	unsigned made = 0;
	duty->error = 0;
	for (; made < files; made++, wait_ms(at += step_ms))
		if (write_file(made, bytes)) {
			duty->error = errno;
			break;
		}
	duty->peak = made * bytes;
	while (made) {
		snprintf(path, sizeof path, DUTY_FOLDER "/%u", --made);
		unlink(path);
		wait_ms(at += step_ms);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	duty->cpu_us = (uint64_t)cpu.tv_sec * 1000000 + (uint64_t)cpu.tv_nsec / 1000;
	duty->wall_ms = clock_ms(CLOCK_MONOTONIC) - began;
	duty->cycles++;
}

/* `duty FILES MIB MS`: one cycle, begun at once. `duty`: what came of the last one. */
static void duty_command(char *files_text, char *mib, char *ms)
{
	if (!duty) {
		duty = mmap(NULL, sizeof *duty, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		mkdir("/tmp", 0755);
		mkdir(DUTY_FOLDER, 0755);
		if (duty == MAP_FAILED || mount("duty", DUTY_FOLDER, "tmpfs", 0, "size=100%")) {
			duty = NULL;
			fail(DUTY_FOLDER ": %s", strerror(errno));
			return;
		}
	}
	if (files_text) {
		unsigned long files = strtoul(files_text, NULL, 10);
		unsigned long bytes = mib ? strtoul(mib, NULL, 10) * MIB : 0, step = ms ? strtoul(ms, NULL, 10) : 0;
		if (!files || files > 10000 || !bytes || bytes > 1024 * MIB || !step || step > 600000) {
			fail("duty FILES MIB MS");
			return;
		}
		if (duty_pid) {
			fail("the last cycle has not ended");
			return;
		}
		duty_pid = fork();
		if (duty_pid == 0) {
			reset_signals();
			duty_cycle((unsigned)files, bytes, step);
			_exit(0);
		}
		if (duty_pid < 0) {
			duty_pid = 0;
			fail("fork: %s", strerror(errno));
			return;
		}
	}
	succeed();
	put(",\"running\":%s,\"cycles\":%u,\"cpu_us\":%llu,\"wall_ms\":%llu,\"peak\":%zu,\"error\":", duty_pid ? "true" : "false", duty->cycles, (unsigned long long)duty->cpu_us, (unsigned long long)duty->wall_ms, duty->peak);
	const char *error = duty->error ? strerror(duty->error) : "";
	put_string(error, strlen(error));
}

static void simple_write(const char *path, const char *text)
{
	if (spit(path, text, strlen(text)))
		fail("%s: %s", path, strerror(errno));
	else
		succeed();
}

static void meminfo_command(void)
{
	static const char *const rows[] = { "MemTotal", "MemFree", "MemAvailable", "Cached", "Buffers" };
	char text[256];
	succeed();
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		put(",\"%s\":%lu", rows[i], meminfo(rows[i]));
	struct utsname name;
	uname(&name);
	put(",\"kernel\":\"%s\"", name.release);
	if (slurp("/proc/sys/kernel/random/boot_id", text, sizeof text) > 0)
		put(",\"boot_id\":\"%s\"", text);
	if (slurp("/sys/module/page_reporting/parameters/page_reporting_order", text, sizeof text) > 0)
		put(",\"page_reporting_order\":\"%s\"", text);
	else
		put(",\"page_reporting_order\":null");
	bool bound = false;
	DIR *directory = opendir("/sys/bus/virtio/drivers/virtio_balloon");
	for (struct dirent *entry; directory && (entry = readdir(directory));)
		bound |= !strncmp(entry->d_name, "virtio", 6);
	if (directory)
		closedir(directory);
	put(",\"balloon\":%s", bound ? "true" : "false");
}

/* ---- virtio-serial ports ---------------------------------------------------------------------------------- */

/* Fill `path` with the device of the port called `name`. Ports appear some time after their driver. */
static bool find_port(const char *name, char *path, size_t size)
{
	DIR *directory = opendir("/sys/class/virtio-ports");
	bool found = false;
	for (struct dirent *entry; !found && directory && (entry = readdir(directory));) {
		char file[512], text[128];
		snprintf(file, sizeof file, "/sys/class/virtio-ports/%s/name", entry->d_name);
		if (slurp(file, text, sizeof text) > 0 && !strcmp(text, name)) {
			snprintf(path, size, "/dev/%s", entry->d_name);
			found = true;
		}
	}
	if (directory)
		closedir(directory);
	return found;
}

static void pause_ms(long ms)
{
	struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	nanosleep(&time, NULL);
}

/* The port's descriptor; waits for the device to appear and for an earlier opener to let go, 30 s in all. */
static int open_port(const char *name)
{
	char path[300];
	for (int i = 0; i < 3000; i++, pause_ms(10)) {
		if (!find_port(name, path, sizeof path))
			continue;
		int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

static void ask_for_signals(int fd)
{
	/* The driver sends SIGIO when a host side connects, so that waiting for one costs no polling. */
	fcntl(fd, F_SETOWN, getpid());
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
}

/* Sleep until there may be more to read, after a read() that gave `last`. */
static void wait_readable(int fd, ssize_t last)
{
	if (last != 0) {
		struct pollfd poller = { .fd = fd, .events = POLLIN };
		poll(&poller, 1, -1);
		return;
	}
	/* End of file: no host side is connected, and poll() would say "readable" all the time until one is. SIGIO is
	 * blocked, so one that came since the read() is waiting here and is not lost. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	struct timespec limit = { .tv_sec = 2 };
	sigtimedwait(&set, NULL, &limit);
}

static void write_all(int fd, const char *text, size_t length)
{
	int unheard = 0;
	while (length) {
		ssize_t n = write(fd, text, length);
		if (n > 0) {
			text += n;
			length -= (size_t)n;
			unheard = 0;
		} else if (n < 0 && errno == EAGAIN) {
			struct pollfd poller = { .fd = fd, .events = POLLOUT };
			poll(&poller, 1, 1000);
			/* A request may get here before the news that its sender is connected; only when that does not come
			 * is the sender gone, and with it the reason to answer. */
			if ((poller.revents & POLLHUP) && ++unheard > 200)
				return;
			if (poller.revents & POLLHUP)
				pause_ms(10);
		} else if (n < 0 && errno == EINTR) {
			continue;
		} else {
			return;
		}
	}
}

/* ---- the guest agent, and bad imitations of it ------------------------------------------------------------- */

static pid_t agent_pid; /* qemu-ga or the imitation; 0 when neither runs */

static void reap(void)
{
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == agent_pid)
			agent_pid = 0;
		else if (pid == hot_pid)
			hot_pid = 0;
		else if (pid == hog_pid)
			hog_pid = 0;
		else if (pid == duty_pid)
			duty_pid = 0;
}

static void kill_agent(void)
{
	if (!agent_pid)
		return;
	kill(agent_pid, SIGKILL);
	waitpid(agent_pid, NULL, 0);
	agent_pid = 0;
}

static void reset_signals(void)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Where this is the first process the agent is its child; elsewhere an init system has it. */
static bool first_process(void)
{
	return getpid() == 1;
}

static bool start_agent(void)
{
	if (!first_process())
		return system("systemctl restart qemu-guest-agent") == 0;
	char path[300];
	int tries = 0;
	while (!find_port(AGENT_PORT, path, sizeof path)) {
		if (++tries > 1000)
			return false;
		pause_ms(10);
	}
	agent_pid = fork();
	if (agent_pid == 0) {
		reset_signals();
		setsid();
		execl("/sbin/qemu-ga", "qemu-ga", "-m", "virtio-serial", "-p", path, "-t", "/run", (char *)NULL);
		_exit(127);
	}
	return agent_pid > 0;
}

/* The number after "id": in a sync request, as text; copied and never computed with. */
static void sync_id(const char *request, char *id, size_t size)
{
	const char *at = strstr(request, "\"id\"");
	at = at ? strchr(at, ':') : NULL;
	size_t n = 0;
	if (at)
		for (at++; *at == ' '; at++)
			;
	while (at && n < size - 1 && strchr("-0123456789", *at) && *at)
		id[n++] = *at++;
	if (!n)
		id[n++] = '0';
	id[n] = 0;
}

#define DEEPEST (512ul * 1024)

/* Valid JSON of brackets only, `depth` deep. */
static void answer_nesting(int fd, size_t depth)
{
	static char brackets[2 * DEEPEST];
	memset(brackets, '[', depth);
	memset(brackets + depth, ']', depth);
	write_all(fd, "{\"return\": ", 11);
	write_all(fd, brackets, 2 * depth);
	write_all(fd, "}\n", 2);
}

/* Text in base64 with the alphabet of RFC 4648. */
static void base64(const char *in, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t length = strlen(in);
	for (size_t i = 0; i < length; i += 3) {
		uint32_t group = (uint32_t)(unsigned char)in[i] << 16;
		if (i + 1 < length)
			group |= (uint32_t)(unsigned char)in[i + 1] << 8;
		if (i + 2 < length)
			group |= (unsigned char)in[i + 2];
		*out++ = digits[group >> 18];
		*out++ = digits[group >> 12 & 63];
		*out++ = i + 1 < length ? digits[group >> 6 & 63] : '=';
		*out++ = i + 2 < length ? digits[group & 63] : '=';
	}
	*out = 0;
}

/* Well-formed answers whose numbers no machine can have. */
static void answer_huge(int fd, const char *request)
{
	static const char lie[] = "MemTotal:       18446744073709551615 kB\n"
				  "MemFree:        99999999999999999999 kB\n"
				  "MemAvailable:   18014398509481984 kB\n"
				  "Buffers:        -1 kB\n"
				  "Cached:         18446744073709551615 kB\n"
				  "Node 0, zone   Normal 18446744073709551615 18446744073709551615 18446744073709551615\n";
	char text[2048], encoded[1024];
	base64(lie, encoded);
	if (strstr(request, "\"guest-file-read\""))
		snprintf(text, sizeof text, "{\"return\": {\"count\": 9223372036854775807, \"buf-b64\": \"%s\", \"eof\": true}}\n", encoded);
	else if (strstr(request, "\"guest-file-open\""))
		snprintf(text, sizeof text, "{\"return\": 9223372036854775807}\n");
	else if (strstr(request, "\"guest-exec-status\""))
		snprintf(text, sizeof text, "{\"return\": {\"exited\": true, \"exitcode\": 0, \"out-data\": \"%s\"}}\n", encoded);
	else if (strstr(request, "\"guest-exec\""))
		snprintf(text, sizeof text, "{\"return\": {\"pid\": 9223372036854775807}}\n");
	else if (strstr(request, "\"guest-info\""))
		snprintf(text, sizeof text,
			 "{\"return\": {\"version\": \"18446744073709551615.0.0\", \"supported_commands\": ["
			 "{\"name\": \"guest-ping\", \"enabled\": true, \"success-response\": true},"
			 "{\"name\": \"guest-info\", \"enabled\": true, \"success-response\": true},"
			 "{\"name\": \"guest-file-open\", \"enabled\": true, \"success-response\": true},"
			 "{\"name\": \"guest-file-read\", \"enabled\": true, \"success-response\": true},"
			 "{\"name\": \"guest-file-close\", \"enabled\": true, \"success-response\": true},"
			 "{\"name\": \"guest-exec\", \"enabled\": true, \"success-response\": true},"
			 "{\"name\": \"guest-exec-status\", \"enabled\": true, \"success-response\": true}]}}\n");
	else if (strstr(request, "\"guest-ping\"") || strstr(request, "\"guest-file-close\""))
		snprintf(text, sizeof text, "{\"return\": {}}\n");
	else
		snprintf(text, sizeof text,
			 "{\"return\": {\"total\": 18446744073709551615, \"free\": 18446744073709551615, \"available\": 18446744073709551615,"
			 " \"reported\": 18446744073709551615, \"unreported\": 18446744073709551615}}\n");
	write_all(fd, text, strlen(text));
}

#define HAS(name) "{\"name\": \"" name "\", \"enabled\": true, \"success-response\": true},"
#define LACKS(name) "{\"name\": \"" name "\", \"enabled\": false, \"success-response\": true},"

/* As the agent of virtio-win answers: file commands that know none of Linux's files, and commands that it only names. */
static void answer_windows(int fd, const char *request)
{
	static const char info[] = "{\"return\": {\"version\": \"107.0.1\", \"supported_commands\": ["
		HAS("guest-get-devices") HAS("guest-get-osinfo") HAS("guest-get-timezone") HAS("guest-get-users")
		HAS("guest-get-host-name") HAS("guest-exec") HAS("guest-exec-status") LACKS("guest-get-memory-block-info")
		LACKS("guest-set-memory-blocks") LACKS("guest-get-memory-blocks") HAS("guest-set-user-password")
		HAS("guest-get-disks") HAS("guest-get-fsinfo") LACKS("guest-set-vcpus") HAS("guest-get-vcpus")
		HAS("guest-network-get-interfaces") LACKS("guest-suspend-hybrid") HAS("guest-suspend-ram")
		HAS("guest-suspend-disk") HAS("guest-fstrim") HAS("guest-fsfreeze-thaw") HAS("guest-fsfreeze-freeze-list")
		HAS("guest-fsfreeze-freeze") HAS("guest-fsfreeze-status") HAS("guest-file-flush") HAS("guest-file-seek")
		HAS("guest-file-write") HAS("guest-file-read") HAS("guest-file-close") HAS("guest-file-open")
		HAS("guest-shutdown") HAS("guest-info") HAS("guest-set-time") HAS("guest-get-time") HAS("guest-ping")
		HAS("guest-sync") "{\"name\": \"guest-sync-delimited\", \"enabled\": true, \"success-response\": true}]}}\n";
	static const char system[] = "{\"return\": {\"id\": \"mswindows\", \"name\": \"Microsoft Windows\", "
		"\"pretty-name\": \"Windows Server 2022 Datacenter\", \"version\": \"Microsoft Windows Server 2022\", "
		"\"version-id\": \"2022\", \"variant\": \"server\", \"variant-id\": \"server\", "
		"\"kernel-release\": \"20348\", \"kernel-version\": \"10.0\", \"machine\": \"x86_64\"}}\n";
	static const char no_path[] = "{\"error\": {\"class\": \"GenericError\", \"desc\": \"failed to open file: "
		"The system cannot find the path specified.\"}}\n";
	static const char no_command[] = "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"The command has not been "
		"found\"}}\n";
	const char *text = no_command;
	if (strstr(request, "\"guest-info\""))
		text = info;
	else if (strstr(request, "\"guest-get-osinfo\""))
		text = system;
	else if (strstr(request, "\"guest-file-open\""))
		text = no_path;
	else if (strstr(request, "\"guest-fsfreeze-status\""))
		text = "{\"return\": \"thawed\"}\n";
	else if (strstr(request, "\"guest-ping\""))
		text = "{\"return\": {}}\n";
	write_all(fd, text, strlen(text));
}

static void imitate(const char *mode, size_t depth)
{
	int fd = open_port(AGENT_PORT);
	if (fd < 0)
		_exit(1);
	ask_for_signals(fd);
	static char request[1 << 16];
	size_t length = 0;
	for (;;) {
		ssize_t n = read(fd, request + length, sizeof request - 1 - length);
		if (n <= 0) {
			wait_readable(fd, n);
			continue;
		}
		if (!strcmp(mode, "silent"))
			continue;
		if (!strcmp(mode, "noise")) {
			char noise[1000];
			if (getrandom(noise, sizeof noise, 0) > 0)
				write_all(fd, noise, sizeof noise);
			continue;
		}
		length += (size_t)n;
		request[length] = 0;
		/* Requests end in a newline; one without an end in 64 KiB is thrown away. */
		char *end;
		while ((end = memchr(request, '\n', length))) {
			*end = 0;
			char id[40], text[80];
			sync_id(request, id, sizeof id);
			if (strstr(request, "guest-sync-delimited")) {
				snprintf(text, sizeof text, "\xff{\"return\": %s}\n", id);
				write_all(fd, text, strlen(text));
			} else if (strstr(request, "guest-sync")) {
				snprintf(text, sizeof text, "{\"return\": %s}\n", id);
				write_all(fd, text, strlen(text));
			} else if (*request && !strcmp(mode, "nesting")) {
				answer_nesting(fd, depth);
			} else if (*request && !strcmp(mode, "windows")) {
				answer_windows(fd, request);
			} else if (*request) {
				answer_huge(fd, request);
			}
			size_t used = (size_t)(end + 1 - request);
			memmove(request, end + 1, length - used);
			length -= used;
			request[length] = 0;
		}
		if (length == sizeof request - 1)
			length = 0;
	}
}

static void agent_command(char *action, char *mode, char *depth_text)
{
	reap();
	if (!action) {
		fail("agent stop|cont|kill|start|garbage MODE");
	} else if (!strcmp(action, "start")) {
		kill_agent();
		if (start_agent())
			succeed();
		else
			fail("the agent did not start: %s", strerror(errno));
	} else if (!strcmp(action, "garbage")) {
		static const char *const modes[] = { "noise", "nesting", "huge", "silent", "windows" };
		bool known = false;
		for (size_t i = 0; mode && i < sizeof modes / sizeof *modes; i++)
			known |= !strcmp(mode, modes[i]);
		if (!known) {
			fail("agent garbage noise|nesting [DEPTH]|huge|silent|windows");
			return;
		}
		size_t depth = depth_text ? strtoul(depth_text, NULL, 10) : DEEPEST;
		if (!depth || depth > DEEPEST) {
			fail("depth is a number up to %lu", DEEPEST);
			return;
		}
		kill_agent();
		if (!first_process() && system("systemctl stop qemu-guest-agent")) {
			fail("the guest's own agent does not end");
			return;
		}
		agent_pid = fork();
		if (agent_pid == 0) {
			imitate(mode, depth);
			_exit(0);
		}
		succeed();
	} else if (!agent_pid) {
		fail("no agent runs: start it first");
	} else if (!strcmp(action, "kill")) {
		kill_agent();
		succeed();
	} else if (!strcmp(action, "stop") || !strcmp(action, "cont")) {
		kill(agent_pid, *action == 's' ? SIGSTOP : SIGCONT);
		succeed();
	} else {
		fail("agent stop|cont|kill|start|garbage MODE");
	}
}

/* A guest whose owner lies: its kernel seems to have reported so many MiB more than it has. What the agent reads is a
 * copy over /proc/vmstat with one line changed, frozen at this moment. 0 shows the truth again. */
static void lie_command(char *mib_text)
{
	static const char counter[] = "\npage_report_pages ";
	static char truth[64 * 1024], false_text[sizeof truth + 64];
	if (!mib_text) {
		fail("lie MIB");
		return;
	}
	umount2("/proc/vmstat", MNT_DETACH);
	unsigned long more = strtoul(mib_text, NULL, 10);
	if (!more) {
		succeed();
		return;
	}
	char *at = slurp("/proc/vmstat", truth, sizeof truth) < 0 ? NULL : strstr(truth, counter);
	if (!at) {
		fail("this guest's kernel does not count what it reports");
		return;
	}
	char *number = at + sizeof counter - 1, *rest;
	unsigned long pages = strtoul(number, &rest, 10) + more * (MIB / PAGE);
	int length = snprintf(false_text, sizeof false_text, "%.*s%lu%s\n", (int)(number - truth), truth, pages, rest);
	int fd = open("/tmp/vmstat", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	if (fd < 0 || write(fd, false_text, (size_t)length) != length ||
	    mount("/tmp/vmstat", "/proc/vmstat", NULL, MS_BIND, NULL))
		fail("/proc/vmstat: %s", strerror(errno));
	else
		succeed();
	if (fd >= 0)
		close(fd);
}

/* At once, whatever the kernel is doing; as soon as the answer is out. */
static void reboot_command(void)
{
	if (fork() == 0) {
		usleep(100 * 1000);
		reboot(RB_AUTOBOOT);
		_exit(1);
	}
	succeed();
}

/* ---- requests --------------------------------------------------------------------------------------------- */

static void read_command(char *path)
{
	static char text[32 * 1024];
	ssize_t n = path ? slurp(path, text, sizeof text) : -1;
	if (n < 0) {
		fail("%s: %s", path ? path : "read PATH", strerror(errno));
		return;
	}
	succeed();
	put(",\"text\":");
	put_string(text, (size_t)n);
}

/* A command of the guest's shell: what it printed, on both ways, and what it ended with. */
static void shell_command(const char *command)
{
	static char text[32 * 1024];
	if (!command || !*command) {
		fail("sh COMMAND");
		return;
	}
	fflush(NULL);
	int ends[2];
	pid_t pid;
	if (pipe2(ends, O_CLOEXEC) || (pid = fork()) < 0) {
		fail("sh: %s", strerror(errno));
		return;
	}
	if (pid == 0) {
		reset_signals();
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	size_t length = 0;
	char rest[4096];
	for (ssize_t n = 1; n > 0 || (n < 0 && errno == EINTR);) {
		bool full = length == sizeof text;
		n = read(ends[0], full ? rest : text + length, full ? sizeof rest : sizeof text - length);
		if (n > 0 && !full)
			length += (size_t)n;
	}
	close(ends[0]);
	int status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	succeed();
	put(",\"code\":%d,\"text\":", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	put_string(text, length);
}

static void handle(char *line)
{
	char *rest = line, *id = NULL;
	if (*rest == '@') {
		id = strsep(&rest, " ") + 1;
		if (!rest)
			rest = line + strlen(line);
	}
	answer_length = 0;
	put("{\"id\":");
	put_string(id ? id : "", id ? strlen(id) : 0);
	char *command = strsep(&rest, " ");
	if (!strcmp(command, "write")) {
		char *path = strsep(&rest, " ");
		if (!path || !rest)
			fail("write PATH TEXT");
		else
			simple_write(path, rest);
	} else if (!strcmp(command, "sh")) {
		shell_command(rest);
	} else {
		char *argument[4] = { 0 };
		for (int i = 0; i < 4 && rest; i++) {
			argument[i] = strsep(&rest, " ");
			if (!*argument[i]) {
				argument[i] = NULL;
				i--;
			}
		}
		if (!strcmp(command, "ping"))
			succeed();
		else if (!strcmp(command, "alloc"))
			alloc_command(argument[0], argument[1], argument[2]);
		else if (!strcmp(command, "free"))
			free_command(argument[0]);
		else if (!strcmp(command, "touch"))
			touch_command(argument[0]);
		else if (!strcmp(command, "list"))
			list_command();
		else if (!strcmp(command, "fragment"))
			fragment_command(argument[0], argument[1]);
		else if (!strcmp(command, "hot"))
			hot_command(argument[0]);
		else if (!strcmp(command, "hog"))
			hog_command(argument[0], argument[1]);
		else if (!strcmp(command, "duty"))
			duty_command(argument[0], argument[1], argument[2]);
		else if (!strcmp(command, "cache"))
			cache_command(argument[0]);
		else if (!strcmp(command, "dropcache")) {
			cache_offset = 0;
			simple_write("/proc/sys/vm/drop_caches", "3");
		} else if (!strcmp(command, "meminfo"))
			meminfo_command();
		else if (!strcmp(command, "compact"))
			simple_write("/proc/sys/vm/compact_memory", "1");
		else if (!strcmp(command, "agent"))
			agent_command(argument[0], argument[1], argument[2]);
		else if (!strcmp(command, "lie"))
			lie_command(argument[0]);
		else if (!strcmp(command, "reboot"))
			reboot_command();
		else if (!strcmp(command, "read"))
			read_command(argument[0]);
		else
			fail("%s is not a command: ping alloc free touch list fragment hot hog duty cache dropcache meminfo compact agent lie reboot write read sh", command);
	}
	put("}\n");
}

static void on_child(int signal_number)
{
	(void)signal_number; /* only there to interrupt poll() */
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_child };
	sigaction(SIGCHLD, &action, NULL);
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGIO);
	sigprocmask(SIG_BLOCK, &blocked, NULL);

	if (first_process() && !start_agent())
		fprintf(stderr, "workload: no agent port\n");
	int fd = open_port(WORK_PORT);
	if (fd < 0) {
		fprintf(stderr, "workload: no port %s\n", WORK_PORT);
		for (;;)
			pause();
	}
	ask_for_signals(fd);
	static char line[LINE_MAX_BYTES];
	size_t length = 0;
	for (;;) {
		reap();
		ssize_t n = read(fd, line + length, sizeof line - 1 - length);
		if (n <= 0) {
			wait_readable(fd, n);
			continue;
		}
		length += (size_t)n;
		char *end;
		while ((end = memchr(line, '\n', length))) {
			*end = 0;
			if (*line) { /* clients begin with an empty line, which ends what an earlier one left unfinished */
				handle(line);
				write_all(fd, answer, answer_length);
			}
			size_t used = (size_t)(end + 1 - line);
			memmove(line, end + 1, length - used);
			length -= used;
		}
		if (length == sizeof line - 1)
			length = 0;
	}
}
