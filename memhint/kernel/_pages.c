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
#define ABSENT 0 /* prints of pages that have no content: page_index.py */
#define ZEROS 1
#define LEAST 2 /* of those that have */

struct look {
	int pagemap, memory;
	uint64_t start, page, seed, zero;
	unsigned char *buffer;
	const uint32_t *wanted; /* prints: pages without one are passed over; NULL: none is */
	uint64_t entries[CHUNK];
	uint64_t addresses[CHUNK], hashes[CHUNK], zeros[CHUNK];
	Py_ssize_t pages, found, empty; /* pages: entries that pagemap had; negative: -errno */
};

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
	for (Py_ssize_t at = 0; at < got / (ssize_t)look->page; at++, address += look->page) {
		uint64_t hash = XXH3_64bits_withSeed(look->buffer + (uint64_t)at * look->page, look->page, look->seed);

		if (hash != look->zero) {
			look->addresses[look->found] = address;
			look->hashes[look->found++] = hash;
		} else if (look->entries[first + at] & EXCLUSIVE) {
			look->zeros[look->empty++] = address;
		}
	}
	return 1;
}

static void do_look(struct look *look)
{
	Py_ssize_t first = -1;

	look->pages = read_entries(look->pagemap, look->start, look->page, look->pages, look->entries);
	for (Py_ssize_t at = 0, end = look->pages; at <= end; at++) {
		int taken = at < end && readable(look->entries[at]) && (!look->wanted || look->wanted[at] != ABSENT);

		if (taken && first < 0) {
			first = at;
		} else if (!taken && first >= 0) {
			if (!read_run(look, first, at - first))
				return;
			first = -1;
		}
	}
}

static int fits(uint64_t start, Py_ssize_t pages, uint64_t page)
{
	return page >= 512 && page <= (1 << 20) && !(page & (page - 1)) && pages >= 0 && pages <= CHUNK && start % page == 0 &&
	       start <= INT64_MAX - CHUNK * page;
}

PyDoc_STRVAR(look_doc,
	"look(pagemap, memory, start, pages, page_size, seed, zero, buffer, wanted) -> (addresses, hashes, zeros)\n"
	"Read and hash what is present of at most 256 pages; arrays of 64 bits, as bytes. None: pagemap had nothing.\n"
	"wanted: an array of 32 bits with 0 for each page that is to be passed over, or None.");

static PyObject *look(PyObject *self, PyObject *args)
{
	struct look look = { 0 };
	unsigned long long start, page, seed, zero;
	Py_buffer buffer, wanted = { 0 };
	PyObject *result = NULL, *only;

	if (!PyArg_ParseTuple(args, "iiKnKKKw*O", &look.pagemap, &look.memory, &start, &look.pages, &page, &seed, &zero,
			      &buffer, &only))
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
	} else if (look.pages == 0) {
		result = Py_NewRef(Py_None);
	} else {
		result = Py_BuildValue("y#y#y#", look.addresses, look.found * 8, look.hashes, look.found * 8, look.zeros,
				       look.empty * 8);
	}
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
	struct iovec from[CHUNK];
	uint16_t places[CHUNK];
	uint32_t prints[CHUNK];
	Py_ssize_t pages; /* entries that pagemap had; negative: -errno */
};

/* Parts of so many pages from one on; false when reading failed for another reason than that memory went meanwhile. */
static int read_parts(struct parts *parts, Py_ssize_t count)
{
	struct iovec to = { parts->buffer, (size_t)count * parts->length };
	Py_ssize_t first = 0;

	while (first < count) {
		ssize_t got = process_vm_readv(parts->pid, &to, 1, parts->from + first, (unsigned long)(count - first), 0);

		if (got < 0 && errno != EFAULT) {
			parts->pages = -errno;
			return 0;
		}
		if (got < 0)
			got = 0;
		for (; got >= (ssize_t)parts->length; got -= (ssize_t)parts->length, first++) {
			parts->prints[parts->places[first]] =
				print_of(XXH3_64bits_withSeed(to.iov_base, parts->length, parts->seed));
			to.iov_base = (unsigned char *)to.iov_base + parts->length;
			to.iov_len -= parts->length;
		}
		if (first < count) { /* this one is gone */
			to.iov_base = (unsigned char *)to.iov_base + parts->length;
			to.iov_len -= parts->length;
			first++;
		}
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

		if (alone) {
			parts->from[own].iov_base = (void *)(parts->start + (uint64_t)at * parts->page + parts->offset);
			parts->from[own].iov_len = parts->length;
			parts->places[own++] = (uint16_t)at;
		}
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
	"parts(pagemap, memory, pid, start, pages, page_size, seed, offset, length, buffer) -> prints\n"
	"Read and hash a part of what is present of at most 256 pages: 32 bits each, 0 where nothing is. None: there is no\n"
	"memory. A pid of 0: all is read through memory.");

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
	if (!fits(start, pages, page) || length == 0 || length > page || offset > page - length ||
	    (uint64_t)buffer.len < (uint64_t)pages * page) {
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
		result = PyBytes_FromStringAndSize((char *)parts.prints, pages * 4);
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

PyDoc_STRVAR(enter_doc, "enter(prints, once, more) -> how many were there already\n"
	"Remember each print as seen, or as seen more than once.");

static PyObject *enter(PyObject *self, PyObject *args)
{
	Py_buffer prints, once, more;
	Py_ssize_t again = 0;
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

		if (print >= LEAST && (__atomic_fetch_or(word, bits, __ATOMIC_RELAXED) & bits) == bits) {
			__atomic_fetch_or(word_of(&more, print, &bits), bits, __ATOMIC_RELAXED);
			again++;
		}
	}
	Py_END_ALLOW_THREADS
	result = PyLong_FromSsize_t(again);
out:
	PyBuffer_Release(&prints);
	PyBuffer_Release(&once);
	PyBuffer_Release(&more);
	return result;
}

PyDoc_STRVAR(repeated_doc, "repeated(prints, more) -> prints\n"
	"The same with 0 for those that were seen once.");

static PyObject *repeated(PyObject *self, PyObject *args)
{
	Py_buffer prints, more;
	PyObject *result = NULL;

	if (!PyArg_ParseTuple(args, "y*y*", &prints, &more))
		return NULL;
	if (!fit(&prints, &more))
		goto out;
	result = PyBytes_FromStringAndSize(NULL, prints.len);
	if (!result)
		goto out;
	Py_BEGIN_ALLOW_THREADS
	for (Py_ssize_t at = 0; at < prints.len / 4; at++) {
		uint32_t print = ((uint32_t *)prints.buf)[at];
		uint64_t bits, *word = word_of(&more, print, &bits);

		if (print >= LEAST && (__atomic_load_n(word, __ATOMIC_RELAXED) & bits) != bits)
			print = ABSENT;
		memcpy(PyBytes_AS_STRING(result) + at * 4, &print, 4);
	}
	Py_END_ALLOW_THREADS
out:
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
