/*
 * huge: memory that wants huge pages, and a host whose memory is in pieces.
 *
 *   huge usemem THREADS MIB          threads touch MIB in all, each from one CPU, and give it back
 *   huge faults MIB plain|advised    one thread touches MIB, a block of 2 MiB after another, and times each fault
 *   huge write FOLDER FILES          files of 64 KiB, written a page at a time and in turns, so that inodes, directory
 *                                    blocks and page cache lie side by side
 *   huge read FOLDER FILES SEED      looks at one file after another, and reads it, until it is killed
 *
 * What it found is one line of JSON. Times are nanoseconds: of the monotonic clock, and those of single faults of
 * processor time. Memory is counted in pages of 4 KiB.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define HUGE_SIZE (2ul << 20)
#define MIB (1ul << 20)
#define FILE_PAGES 16
#define FOLDER_FILES 64
#define THREADS_MOST 8

static void fail(const char *what)
{
	fprintf(stderr, "huge: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t clock_of(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

/* Of this thread: others that have the processor meanwhile do not count. */
static uint64_t processor_time(void)
{
	return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t system_time(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_stime.tv_sec * 1000000000u + (uint64_t)usage.ru_stime.tv_usec * 1000u;
}

/* Each of these machines' nodes has one CPU, of the same number. */
static void stay_on(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		fail("sched_setaffinity");
}

/* Memory with unmapped space around it: the kernel would make one mapping of two neighbours. */
static char *region(size_t size)
{
	char *space = mmap(NULL, size + 2 * HUGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		fail("mmap");
	char *start = (char *)(((uintptr_t)space + HUGE_SIZE) & ~(HUGE_SIZE - 1));
	if (mprotect(start, size, PROT_READ | PROT_WRITE))
		fail("mprotect");
	return start;
}

/* Pages of the mapping that begins at `start`, on `node` and elsewhere. */
static void placed(const char *start, int node, long *local, long *remote)
{
	char line[1024];
	FILE *maps = fopen("/proc/self/numa_maps", "r");
	if (!maps)
		fail("numa_maps");
	while (fgets(line, sizeof line, maps)) {
		if ((char *)strtoul(line, NULL, 16) != start)
			continue;
		for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
			int on;
			long pages;
			if (sscanf(word, "N%d=%ld", &on, &pages) == 2)
				*(on == node ? local : remote) += pages;
		}
	}
	fclose(maps);
}

struct user {
	int cpu;
	size_t size;
	long local, remote;
};

static pthread_barrier_t touched;

static void *use(void *given)
{
	struct user *user = given;
	stay_on(user->cpu);
	char *memory = region(user->size);
	for (size_t at = 0; at < user->size; at += PAGE)
		memory[at] = 1;
	pthread_barrier_wait(&touched);
	placed(memory, user->cpu, &user->local, &user->remote);
	munmap(memory, user->size);
	return NULL;
}

static void usemem(int threads, size_t size)
{
	pthread_t thread[THREADS_MOST];
	struct user user[THREADS_MOST] = { 0 };
	long local = 0, remote = 0;
	if (threads < 1 || threads > THREADS_MOST)
		exit(2);
	pthread_barrier_init(&touched, NULL, threads);
	uint64_t began = now();
	for (int i = 0; i < threads; i++) {
		user[i].cpu = i % 2;
		user[i].size = size / threads & ~(HUGE_SIZE - 1);
		if (pthread_create(&thread[i], NULL, use, &user[i]))
			fail("pthread_create");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		local += user[i].local;
		remote += user[i].remote;
	}
	printf("{\"elapsed\": %lu, \"system\": %lu, \"local\": %ld, \"remote\": %ld}\n", now() - began, system_time(), local,
	       remote);
}

static void faults(size_t size, bool advised)
{
	unsigned char there[HUGE_SIZE / PAGE];
	uint64_t huge_time = 0, base_time = 0, slowest = 0;
	long huge = 0, base = 0, local = 0, remote = 0;
	stay_on(0);
	char *memory = region(size);
	uint64_t begin = now();
	if (madvise(memory, size, advised ? MADV_HUGEPAGE : MADV_NORMAL) && advised)
		fail("MADV_HUGEPAGE");
	for (size_t block = 0; block < size; block += HUGE_SIZE) {
		for (size_t at = block; at < block + HUGE_SIZE; at += PAGE) {
			uint64_t began = processor_time();
			memory[at] = 1;
			uint64_t took = processor_time() - began;
			slowest = took > slowest ? took : slowest;
			/* one fault that brings the whole block is a huge one */
			if (at == block && !mincore(memory + block, HUGE_SIZE, there) && there[sizeof there - 1] & 1) {
				huge++;
				huge_time += took;
				break;
			}
			base++;
			base_time += took;
		}
	}
	uint64_t waited = now() - begin;
	placed(memory, 0, &local, &remote);
	printf("{\"waited\": %lu, \"huge\": %ld, \"base\": %ld, \"huge_time\": %lu, \"base_time\": %lu, \"slowest\": %lu, "
	       "\"local\": %ld, \"remote\": %ld}\n",
	       waited, huge, base, huge_time, base_time, slowest, local, remote);
}

static void name_of(char *name, size_t length, const char *folder, long file)
{
	snprintf(name, length, "%s/%ld/%ld", folder, file / FOLDER_FILES, file);
}

static void write_files(const char *folder, long files)
{
	static char page[PAGE] = "huge";
	char name[512];
	for (long first = 0; first < files; first += FOLDER_FILES) {
		int open_file[FOLDER_FILES];
		snprintf(name, sizeof name, "%s/%ld", folder, first / FOLDER_FILES);
		if (mkdir(name, 0700) && errno != EEXIST)
			fail(name);
		for (int i = 0; i < FOLDER_FILES; i++) {
			name_of(name, sizeof name, folder, first + i);
			open_file[i] = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
			if (open_file[i] < 0)
				fail(name);
		}
		for (int at = 0; at < FILE_PAGES; at++)
			for (int i = 0; i < FOLDER_FILES; i++)
				if (write(open_file[i], page, PAGE) != (ssize_t)PAGE)
					fail("write");
		for (int i = 0; i < FOLDER_FILES; i++)
			close(open_file[i]);
	}
	printf("{\"files\": %ld}\n", files);
}

static void read_files(const char *folder, long files, unsigned int seed)
{
	static char content[FILE_PAGES * PAGE];
	char name[512];
	struct stat about;
	/* With who wants huge pages, whose processor time is counted: on the other processor, which has the same clock,
	 * they would count as well, or not while they wait for the disk. */
	stay_on(0);
	for (;;) {
		name_of(name, sizeof name, folder, rand_r(&seed) % files);
		int file = stat(name, &about) ? -1 : open(name, O_RDONLY);
		if (file < 0)
			fail(name);
		while (read(file, content, sizeof content) > 0)
			;
		close(file);
	}
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	if (!strcmp(what, "usemem") && count == 4)
		usemem(atoi(words[2]), strtoul(words[3], NULL, 10) * MIB);
	else if (!strcmp(what, "faults") && count == 4)
		faults(strtoul(words[2], NULL, 10) * MIB, !strcmp(words[3], "advised"));
	else if (!strcmp(what, "write") && count == 4)
		write_files(words[2], atol(words[3]) / FOLDER_FILES * FOLDER_FILES);
	else if (!strcmp(what, "read") && count == 5)
		read_files(words[2], atol(words[3]) / FOLDER_FILES * FOLDER_FILES, (unsigned int)atoi(words[4]));
	else
		return 2;
	return 0;
}
