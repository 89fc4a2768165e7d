/*
 * The inner loops of reading pages: what profiles show as the interpreter's part. Everything here has its equal in
 * Python (guest_pages.py, page_index.py), which takes over where this was not built, and which tests hold it to.
 *
 * Each function checks all sizes first, then lets go of the interpreter's lock, and never keeps a pointer.
 */

#define _GNU_SOURCE /* process_vm_readv */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define CHUNK 256 /* pages of one look: guest_pages.CHUNK */
#define PRESENT (1ULL << 63)
#define OF_FILE (1ULL << 61)
#define EXCLUSIVE (1ULL << 56)
#define FRAME ((1ULL << 55) - 1)
#define SIDE_BY_SIDE 16 /* pages in a row of frames, so that to read them in one go is faster */
#define ABSENT 0 /* prints of pages that have no content: page_index.py */
#define ZEROS 1
#define LEAST 2 /* of those that have */

struct look {
	int pagemap, memory, pid; /* pid 0: all is read through memory */
	uint64_t start, page, seed, zero;
	unsigned char *buffer;
	const uint32_t *wanted; /* prints: pages without one are passed over; NULL: none is */
	uint64_t entries[CHUNK];
	uint64_t hashes[CHUNK]; /* by place, as what follows */
	unsigned char seen[CHUNK];
	uint16_t own[CHUNK]; /* places of pages that this process alone maps */
	struct iovec from[CHUNK];
	Py_ssize_t pages; /* entries that pagemap had; negative: -errno */
};

/* What was seen of a page. */
enum { NOTHING, CONTENT, ZERO };

static uint32_t print_of(uint64_t hash)
{
	uint32_t print = (uint32_t)hash;

	return print < LEAST ? LEAST : print;
}

/* How many pages pagemap knows from here on; negative: -errno. */
static Py_ssize_t read_entries(int pagemap, uint64_t start, uint64_t page, Py_ssize_t pages, uint64_t *entries)
{
	ssize_t got = pread(pagemap, entries, (size_t)pages * 8, (off_t)(start / page * 8));

	return got < 0 ? -errno : got / 8;
}

static int readable(uint64_t entry)
{
	return entry & PRESENT && !(entry & OF_FILE);
}

/* A page that was read. One of zeros that is not this process's alone is the kernel's, and takes no memory. */
static void note(struct look *look, Py_ssize_t at, const unsigned char *page)
{
	uint64_t hash = XXH3_64bits_withSeed(page, look->page, look->seed);

	if (hash != look->zero) {
		look->hashes[at] = hash;
		look->seen[at] = CONTENT;
	} else if (look->entries[at] & EXCLUSIVE) {
		look->seen[at] = ZERO;
	}
}

/* One run of present pages. False when reading failed for another reason than that memory went meanwhile. */
static int read_run(struct look *look, Py_ssize_t first, Py_ssize_t count)
{
	uint64_t address = look->start + (uint64_t)first * look->page;
	ssize_t got = pread(look->memory, look->buffer, (size_t)count * look->page, (off_t)address);

	if (got < 0) {
		if (errno == EIO || errno == EFAULT)
			return 1;
		look->pages = -errno;
		return 0;
	}
	for (Py_ssize_t at = 0; at < got / (ssize_t)look->page; at++)
		note(look, first + at, look->buffer + (uint64_t)at * look->page);
	return 1;
}

/* Neighbours make one place to read from: the kernel takes hold of them together. */
static unsigned long places_of(struct look *look, Py_ssize_t first, Py_ssize_t count)
{
	unsigned long places = 0;

	for (Py_ssize_t at = first; at < count; at++) {
		if (at > first && look->own[at] == look->own[at - 1] + 1) {
			look->from[places - 1].iov_len += look->page;
		} else {
			look->from[places].iov_base = (void *)(look->start + look->own[at] * look->page);
			look->from[places++].iov_len = look->page;
		}
	}
	return places;
}

/* All pages that nobody else maps; false as above. */
static int read_own(struct look *look, Py_ssize_t count)
{
	for (Py_ssize_t first = 0; first < count;) {
		struct iovec to = { look->buffer, (size_t)(count - first) * look->page };
		unsigned long places = places_of(look, first, count);
		ssize_t got = process_vm_readv(look->pid, &to, 1, look->from, places, 0);

		if (got < 0 && errno != EFAULT) {
			look->pages = -errno;
			return 0;
		}
		for (Py_ssize_t at = 0; at < got / (ssize_t)look->page; at++)
			note(look, look->own[first + at], look->buffer + (uint64_t)at * look->page);
		first += (got > 0 ? got / (ssize_t)look->page : 0) + 1; /* the next one is gone */
	}
	return 1;
}

static void do_look(struct look *look)
{
	Py_ssize_t own = 0, first = -1;

	look->pages = read_entries(look->pagemap, look->start, look->page, look->pages, look->entries);
	for (Py_ssize_t at = 0, end = look->pages; at <= end; at++) {
		int taken = at < end && readable(look->entries[at]) && (!look->wanted || look->wanted[at] != ABSENT);
		int alone = taken && look->pid > 0 && look->entries[at] & EXCLUSIVE;

		if (alone)
			look->own[own++] = (uint16_t)at;
		if (taken && !alone && first < 0) {
			first = at;
		} else if ((!taken || alone) && first >= 0) {
			if (!read_run(look, first, at - first))
				return;
			first = -1;
		}
	}
	if (own && read_own(look, own)) {
		uint64_t entry;

		/* The pid may be another process's by now; while this one has memory, it is not. */
		if (read_entries(look->pagemap, look->start, look->page, 1, &entry) != 1)
			look->pages = 0;
	}
}

static int fits(uint64_t start, Py_ssize_t pages, uint64_t page)
{
	return page >= 512 && page <= (1 << 20) && !(page & (page - 1)) && pages >= 0 && pages <= CHUNK && start % page == 0 &&
	       start <= INT64_MAX - CHUNK * page;
}

PyDoc_STRVAR(look_doc,
	"look(pagemap, memory, pid, start, pages, page_size, seed, zero, buffer, wanted) -> (addresses, hashes, zeros)\n"
	"Read and hash what is present of at most 256 pages; arrays of 64 bits, as bytes. None: pagemap had nothing.\n"
	"wanted: an array of 32 bits with 0 for each page that is to be passed over, or None. A pid of 0: all is read\n"
	"through memory.");

static PyObject *look(PyObject *self, PyObject *args)
{
	struct look look = { 0 };
	unsigned long long start, page, seed, zero;
	Py_buffer buffer, wanted = { 0 };
	PyObject *result = NULL, *only;
	uint64_t addresses[CHUNK], zeros[CHUNK];
	Py_ssize_t found = 0, empty = 0;

	if (!PyArg_ParseTuple(args, "iiiKnKKKw*O", &look.pagemap, &look.memory, &look.pid, &start, &look.pages, &page,
			      &seed, &zero, &buffer, &only))
		return NULL;
	if (only != Py_None && PyObject_GetBuffer(only, &wanted, PyBUF_SIMPLE) < 0)
		goto out;
	if (!fits(start, look.pages, page) || (uint64_t)buffer.len < (uint64_t)look.pages * page ||
	    (wanted.buf && (wanted.len < look.pages * 4 || (uintptr_t)wanted.buf % 4))) {
		PyErr_SetString(PyExc_ValueError, "pages or buffer out of bounds");
		goto out;
	}
	look.start = start, look.page = page, look.seed = seed, look.zero = zero, look.buffer = buffer.buf;
	look.wanted = wanted.buf;
	Py_BEGIN_ALLOW_THREADS
	do_look(&look);
	Py_END_ALLOW_THREADS
	if (look.pages < 0) {
		errno = (int)-look.pages;
		PyErr_SetFromErrno(PyExc_OSError);
		goto out;
	}
	if (look.pages == 0) {
		result = Py_NewRef(Py_None);
		goto out;
	}
	for (Py_ssize_t at = 0; at < look.pages; at++) {
		uint64_t address = look.start + (uint64_t)at * look.page;

		if (look.seen[at] == CONTENT) {
			addresses[found] = address;
			look.hashes[found++] = look.hashes[at];
		} else if (look.seen[at] == ZERO) {
			zeros[empty++] = address;
		}
	}
	result = Py_BuildValue("y#y#y#", addresses, found * 8, look.hashes, found * 8, zeros, empty * 8);
out:
	if (wanted.obj)
		PyBuffer_Release(&wanted);
	PyBuffer_Release(&buffer);
	return result;
}

struct parts {
	int pagemap, memory, pid;
	uint64_t start, page, seed, offset, length;
	unsigned char *buffer;
	uint64_t entries[CHUNK];
	struct iovec from[CHUNK], to[2 * CHUNK];
	uint16_t places[CHUNK];
	unsigned char joined[CHUNK]; /* read in one go with the one before */
	uint32_t prints[CHUNK];
	uint64_t read; /* bytes */
	Py_ssize_t pages; /* entries that pagemap had; negative: -errno */
};

/* Pages that lie side by side in the machine's memory, as those of a huge page do, are read in one go: to take hold of
 * each takes the kernel longer than to copy what lies between their parts. Elsewhere the processor waits for each page.
 * Where memhint is not shown which frames they are, none are joined.
 */
static void join(struct parts *parts, Py_ssize_t count)
{
	Py_ssize_t first = 0;

	for (Py_ssize_t at = 1; at <= count; at++) {
		uint64_t before = parts->entries[parts->places[at - 1]] & FRAME;

		if (at < count && before && parts->places[at] == parts->places[at - 1] + 1 &&
		    (parts->entries[parts->places[at]] & FRAME) == before + 1)
			continue;
		memset(parts->joined + first, at - first >= SIDE_BY_SIDE, (size_t)(at - first));
		parts->joined[first] = 0;
		first = at;
	}
}

/* What is to be read from one page on, and where it goes: what lies between parts to the last page of the buffer. */
static void places_of_parts(struct parts *parts, Py_ssize_t first, Py_ssize_t count, unsigned long *from, unsigned long *to)
{
	unsigned char *between = parts->buffer + (uint64_t)(CHUNK - 1) * parts->page;

	*from = *to = 0;
	for (Py_ssize_t at = first; at < count; at++) {
		if (at > first && parts->joined[at]) {
			parts->from[*from - 1].iov_len += parts->page;
			parts->to[*to].iov_base = between;
			parts->to[(*to)++].iov_len = parts->page - parts->length;
		} else {
			parts->from[*from].iov_base =
				(void *)(parts->start + (uint64_t)parts->places[at] * parts->page + parts->offset);
			parts->from[(*from)++].iov_len = parts->length;
		}
		parts->to[*to].iov_base = parts->buffer + (uint64_t)at * parts->length;
		parts->to[(*to)++].iov_len = parts->length;
	}
}

/* Parts of so many pages; false when reading failed for another reason than that memory went meanwhile. */
static int read_parts(struct parts *parts, Py_ssize_t count)
{
	Py_ssize_t first = 0;

	join(parts, count);
	while (first < count) {
		unsigned long from, to;
		ssize_t got;

		places_of_parts(parts, first, count, &from, &to);
		got = process_vm_readv(parts->pid, parts->to, to, parts->from, from, 0);
		if (got < 0 && errno != EFAULT) {
			parts->pages = -errno;
			return 0;
		}
		if (got < 0)
			got = 0;
		parts->read += (uint64_t)got;
		for (Py_ssize_t begin = first; first < count; first++) {
			ssize_t takes = (ssize_t)(first > begin && parts->joined[first] ? parts->page : parts->length);

			if (got < takes)
				break;
			got -= takes;
			parts->prints[parts->places[first]] = print_of(XXH3_64bits_withSeed(
				parts->buffer + (uint64_t)first * parts->length, parts->length, parts->seed));
		}
		first++; /* this one is gone */
	}
	return 1;
}

static int all_zeros(const unsigned char *page, uint64_t size)
{
	return page[0] == 0 && memcmp(page, page + 1, size - 1) == 0;
}

/* Pages that others map, too: to read a part by process_vm_readv would take a copy of each. One of zeros that is not
 * this process's alone is the kernel's, and takes no memory.
 */
static int read_shared(struct parts *parts, Py_ssize_t first, Py_ssize_t count)
{
	uint64_t address = parts->start + (uint64_t)first * parts->page;
	ssize_t got = pread(parts->memory, parts->buffer, (size_t)count * parts->page, (off_t)address);

	if (got < 0 && errno != EIO && errno != EFAULT) {
		parts->pages = -errno;
		return 0;
	}
	parts->read += got > 0 ? (uint64_t)got : 0;
	for (Py_ssize_t at = 0; at < got / (ssize_t)parts->page; at++) {
		unsigned char *part = parts->buffer + (uint64_t)at * parts->page + parts->offset;

		if (!all_zeros(part - parts->offset, parts->page))
			parts->prints[first + at] = print_of(XXH3_64bits_withSeed(part, parts->length, parts->seed));
	}
	return 1;
}

static void do_parts(struct parts *parts)
{
	Py_ssize_t own = 0, first = -1;

	parts->pages = read_entries(parts->pagemap, parts->start, parts->page, parts->pages, parts->entries);
	for (Py_ssize_t at = 0, end = parts->pages; at <= end; at++) {
		int taken = at < end && readable(parts->entries[at]);
		int alone = taken && parts->pid > 0 && parts->entries[at] & EXCLUSIVE;

		if (alone)
			parts->places[own++] = (uint16_t)at;
		if (taken && !alone && first < 0) {
			first = at;
		} else if ((!taken || alone) && first >= 0) {
			if (!read_shared(parts, first, at - first))
				return;
			first = -1;
		}
	}
	if (own && read_parts(parts, own)) {
		uint64_t entry;

		/* The pid may be another process's by now; while this one has memory, it is not. */
		if (read_entries(parts->pagemap, parts->start, parts->page, 1, &entry) != 1)
			parts->pages = 0;
	}
}

PyDoc_STRVAR(parts_doc,
	"parts(pagemap, memory, pid, start, pages, page_size, seed, offset, length, buffer) -> (prints, bytes)\n"
	"Read and hash a part of what is present of at most 256 pages: 32 bits each, 0 where nothing is; and how much was\n"
	"read for that. None: there is no memory. A pid of 0: all is read through memory. The buffer holds 256 pages.");

static PyObject *parts(PyObject *self, PyObject *args)
{
	struct parts parts = { 0 };
	unsigned long long start, page, seed, offset, length;
	Py_buffer buffer;
	Py_ssize_t pages;
	PyObject *result = NULL;

	if (!PyArg_ParseTuple(args, "iiiKnKKKKw*", &parts.pagemap, &parts.memory, &parts.pid, &start, &pages, &page, &seed,
			      &offset, &length, &buffer))
		return NULL;
	if (!fits(start, pages, page) || length == 0 || length > page / 2 || offset > page - length ||
	    (uint64_t)buffer.len < CHUNK * (uint64_t)page) {
		PyErr_SetString(PyExc_ValueError, "pages or buffer out of bounds");
		goto out;
	}
	parts.start = start, parts.page = page, parts.seed = seed, parts.offset = offset, parts.length = length;
	parts.buffer = buffer.buf, parts.pages = pages;
	Py_BEGIN_ALLOW_THREADS
	do_parts(&parts);
	Py_END_ALLOW_THREADS
	if (parts.pages < 0) {
		errno = (int)-parts.pages;
		PyErr_SetFromErrno(PyExc_OSError);
	} else if (parts.pages == 0 && pages) {
		result = Py_NewRef(Py_None);
	} else {
		result = Py_BuildValue("y#K", (char *)parts.prints, pages * 4, (unsigned long long)parts.read);
	}
out:
	PyBuffer_Release(&buffer);
	return result;
}

/* A filter is one of 64 bits a word: a print has four bits of one word, set at once, so that two threads that bring
 * the same print cannot both be the first. Which bits is page_index.py's to say: see there.
 */
static uint64_t *word_of(const Py_buffer *filter, uint32_t print, uint64_t *bits)
{
	uint64_t mixed = print * 0x9E3779B97F4A7C15ULL;

	*bits = 1ULL << (mixed & 63) | 1ULL << (mixed >> 6 & 63) | 1ULL << (mixed >> 12 & 63) | 1ULL << (mixed >> 18 & 63);
	return (uint64_t *)filter->buf + ((mixed >> 32) * (uint64_t)(filter->len / 8) >> 32);
}

static int fit(const Py_buffer *prints, const Py_buffer *filter)
{
	/* an empty array may be anywhere */
	if (prints->len % 4 == 0 && (!prints->len || (uintptr_t)prints->buf % 4 == 0) && filter->len % 8 == 0 &&
	    filter->len >= 8 && (uint64_t)filter->len / 8 <= UINT32_MAX && (uintptr_t)filter->buf % 8 == 0)
		return 1;
	PyErr_SetString(PyExc_ValueError, "arrays that do not fit");
	return 0;
}

PyDoc_STRVAR(enter_doc, "enter(prints, once, more) -> (prints of pages with content, how many were there already)\n"
	"Remember each print as seen, or as seen more than once.");

static PyObject *enter(PyObject *self, PyObject *args)
{
	Py_buffer prints, once, more;
	Py_ssize_t content = 0, again = 0;
	PyObject *result = NULL;

	if (!PyArg_ParseTuple(args, "y*w*w*", &prints, &once, &more))
		return NULL;
	if (more.len != once.len) {
		PyErr_SetString(PyExc_ValueError, "two filters of one size are wanted");
		goto out;
	}
	if (!fit(&prints, &once) || !fit(&prints, &more))
		goto out;
	Py_BEGIN_ALLOW_THREADS
	for (Py_ssize_t at = 0; at < prints.len / 4; at++) {
		uint32_t print = ((uint32_t *)prints.buf)[at];
		uint64_t bits, *word = word_of(&once, print, &bits);

		content += print >= LEAST;
		if (print >= LEAST && (__atomic_fetch_or(word, bits, __ATOMIC_RELAXED) & bits) == bits) {
			__atomic_fetch_or(word_of(&more, print, &bits), bits, __ATOMIC_RELAXED);
			again++;
		}
	}
	Py_END_ALLOW_THREADS
	result = Py_BuildValue("nn", content, again);
out:
	PyBuffer_Release(&prints);
	PyBuffer_Release(&once);
	PyBuffer_Release(&more);
	return result;
}

PyDoc_STRVAR(repeated_doc, "repeated(prints, more) -> (prints, how many, of pages of zeros)\n"
	"The same with 0 for those that were seen once.");

static PyObject *repeated(PyObject *self, PyObject *args)
{
	Py_buffer prints, more;
	Py_ssize_t content = 0, zeros = 0;
	PyObject *left = NULL, *result = NULL;

	if (!PyArg_ParseTuple(args, "y*y*", &prints, &more))
		return NULL;
	if (!fit(&prints, &more))
		goto out;
	left = PyBytes_FromStringAndSize(NULL, prints.len);
	if (!left)
		goto out;
	Py_BEGIN_ALLOW_THREADS
	for (Py_ssize_t at = 0; at < prints.len / 4; at++) {
		uint32_t print = ((uint32_t *)prints.buf)[at];
		uint64_t bits, *word = word_of(&more, print, &bits);

		if (print >= LEAST && (__atomic_load_n(word, __ATOMIC_RELAXED) & bits) != bits)
			print = ABSENT;
		content += print >= LEAST;
		zeros += print == ZEROS;
		memcpy(PyBytes_AS_STRING(left) + at * 4, &print, 4);
	}
	Py_END_ALLOW_THREADS
	result = Py_BuildValue("Onn", left, content + zeros, zeros);
out:
	Py_XDECREF(left);
	PyBuffer_Release(&prints);
	PyBuffer_Release(&more);
	return result;
}

/* Addresses of pages within a stretch of so many. */
static int within(const Py_buffer *addresses, uint64_t start, uint64_t page, Py_ssize_t pages)
{
	const uint64_t *address = addresses->buf;

	if (addresses->len % 8 || (addresses->len && (uintptr_t)address % 8) || page == 0)
		goto bad;
	for (Py_ssize_t at = 0; at < addresses->len / 8; at++)
		if (address[at] < start || (address[at] - start) / page >= (uint64_t)pages)
			goto bad;
	return 1;
bad:
	PyErr_SetString(PyExc_ValueError, "an address outside, or arrays that do not fit");
	return 0;
}

PyDoc_STRVAR(prints_doc, "prints(addresses, hashes, zeros, start, page_size, pages) -> prints\n"
	"What a look saw, by place.");

static PyObject *prints(PyObject *self, PyObject *args)
{
	Py_buffer addresses, hashes, zeros;
	unsigned long long start, page;
	Py_ssize_t pages;
	PyObject *result = NULL;

	if (!PyArg_ParseTuple(args, "y*y*y*KKn", &addresses, &hashes, &zeros, &start, &page, &pages))
		return NULL;
	if (pages < 0 || addresses.len != hashes.len || (hashes.len && (uintptr_t)hashes.buf % 8)) {
		PyErr_SetString(PyExc_ValueError, "arrays that do not fit");
		goto out;
	}
	if (!within(&addresses, start, page, pages) || !within(&zeros, start, page, pages))
		goto out;
	result = PyBytes_FromStringAndSize(NULL, pages * 4);
	if (!result)
		goto out;
	memset(PyBytes_AS_STRING(result), ABSENT, (size_t)pages * 4);
	for (Py_ssize_t at = 0; at < addresses.len / 8; at++) {
		uint32_t print = print_of(((uint64_t *)hashes.buf)[at]);

		memcpy(PyBytes_AS_STRING(result) + (((uint64_t *)addresses.buf)[at] - start) / page * 4, &print, 4);
	}
	for (Py_ssize_t at = 0; at < zeros.len / 8; at++) {
		uint32_t print = ZEROS;

		memcpy(PyBytes_AS_STRING(result) + (((uint64_t *)zeros.buf)[at] - start) / page * 4, &print, 4);
	}
out:
	PyBuffer_Release(&addresses);
	PyBuffer_Release(&hashes);
	PyBuffer_Release(&zeros);
	return result;
}

PyDoc_STRVAR(held_doc, "held(addresses, hashes, start, page_size, prints) -> (addresses, hashes)\n"
	"Those that hold what their prints say, as arrays of 64 bits in bytes.");

static PyObject *held(PyObject *self, PyObject *args)
{
	Py_buffer addresses, hashes, prints;
	unsigned long long start, page;
	PyObject *places = NULL, *contents = NULL, *result = NULL;
	Py_ssize_t found = 0;

	if (!PyArg_ParseTuple(args, "y*y*KKy*", &addresses, &hashes, &start, &page, &prints))
		return NULL;
	if (addresses.len != hashes.len || (hashes.len && (uintptr_t)hashes.buf % 8) || prints.len % 4) {
		PyErr_SetString(PyExc_ValueError, "arrays that do not fit");
		goto out;
	}
	if (!within(&addresses, start, page, prints.len / 4))
		goto out;
	places = PyBytes_FromStringAndSize(NULL, addresses.len);
	contents = PyBytes_FromStringAndSize(NULL, hashes.len);
	if (!places || !contents)
		goto out;
	for (Py_ssize_t at = 0; at < hashes.len / 8; at++) {
		uint64_t address = ((uint64_t *)addresses.buf)[at], hash = ((uint64_t *)hashes.buf)[at];
		uint32_t before;

		memcpy(&before, (char *)prints.buf + (address - start) / page * 4, 4);
		if (before == print_of(hash)) {
			memcpy(PyBytes_AS_STRING(places) + found * 8, &address, 8);
			memcpy(PyBytes_AS_STRING(contents) + found++ * 8, &hash, 8);
		}
	}
	if (_PyBytes_Resize(&places, found * 8) == 0 && _PyBytes_Resize(&contents, found * 8) == 0)
		result = Py_BuildValue("OO", places, contents);
out:
	Py_XDECREF(places);
	Py_XDECREF(contents);
	PyBuffer_Release(&addresses);
	PyBuffer_Release(&hashes);
	PyBuffer_Release(&prints);
	return result;
}

static PyMethodDef methods[] = {
	{ "look", look, METH_VARARGS, look_doc },
	{ "parts", parts, METH_VARARGS, parts_doc },
	{ "enter", enter, METH_VARARGS, enter_doc },
	{ "repeated", repeated, METH_VARARGS, repeated_doc },
	{ "prints", prints, METH_VARARGS, prints_doc },
	{ "held", held, METH_VARARGS, held_doc },
	{ NULL },
};

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "_pages", "The inner loops of reading pages.", -1, methods,
};

PyMODINIT_FUNC PyInit__pages(void)
{
	return PyModule_Create(&module);
}
