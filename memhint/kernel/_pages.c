/*
 * The inner loops of reading pages: what profiles show as the interpreter's part. Everything here has its equal in
 * Python (guest_pages.py, page_index.py), which takes over where this was not built, and which tests hold it to.
 *
 * Each function checks all sizes first, then lets go of the interpreter's lock, and never keeps a pointer.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define CHUNK 256 /* pages of one look: guest_pages.CHUNK */
#define PRESENT (1ULL << 63)
#define OF_FILE (1ULL << 61)
#define EXCLUSIVE (1ULL << 56)
#define ABSENT 0 /* tags of pages that have no content: page_index.py */
#define ZEROS 255

struct look {
	int pagemap, memory;
	uint64_t start, page, seed, zero;
	unsigned char *buffer;
	uint64_t entries[CHUNK];
	uint64_t addresses[CHUNK], hashes[CHUNK], zeros[CHUNK];
	Py_ssize_t pages, found, empty; /* pages: entries that pagemap had; negative: -errno */
};

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
	ssize_t got = pread(look->pagemap, look->entries, (size_t)look->pages * 8, (off_t)(look->start / look->page * 8));

	if (got < 0) {
		look->pages = -errno;
		return;
	}
	look->pages = got / 8;
	for (Py_ssize_t at = 0, end = look->pages; at <= end; at++) {
		int readable = at < end && look->entries[at] & PRESENT && !(look->entries[at] & OF_FILE);

		if (readable && first < 0) {
			first = at;
		} else if (!readable && first >= 0) {
			if (!read_run(look, first, at - first))
				return;
			first = -1;
		}
	}
}

PyDoc_STRVAR(look_doc, "look(pagemap, memory, start, pages, page_size, seed, zero, buffer) -> (addresses, hashes, zeros)\n"
	"Read and hash what is present of at most 256 pages; arrays of 64 bits, as bytes. None: pagemap had nothing.");

static PyObject *look(PyObject *self, PyObject *args)
{
	struct look look = { 0 };
	unsigned long long start, page, seed, zero;
	Py_buffer buffer;
	PyObject *result = NULL;

	if (!PyArg_ParseTuple(args, "iiKnKKKw*", &look.pagemap, &look.memory, &start, &look.pages, &page, &seed, &zero,
			      &buffer))
		return NULL;
	if (page < 512 || page > (1 << 20) || page & (page - 1) || look.pages < 0 || look.pages > CHUNK ||
	    start % page || start > INT64_MAX - CHUNK * page || (uint64_t)buffer.len < (uint64_t)look.pages * page) {
		PyErr_SetString(PyExc_ValueError, "pages or buffer out of bounds");
		goto out;
	}
	look.start = start, look.page = page, look.seed = seed, look.zero = zero, look.buffer = buffer.buf;
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
	PyBuffer_Release(&buffer);
	return result;
}

/* A filter is one of 64 bits a word: a content has four bits of one word, set at once, so that two threads that bring
 * the same content cannot both be the first. Which bits is page_index.py's to say: see there.
 */
static uint64_t *word_of(const Py_buffer *filter, uint64_t hash, uint64_t *bits)
{
	*bits = 1ULL << (hash & 63) | 1ULL << (hash >> 6 & 63) | 1ULL << (hash >> 12 & 63) | 1ULL << (hash >> 18 & 63);
	return (uint64_t *)filter->buf + ((hash >> 32) * (uint64_t)(filter->len / 8) >> 32);
}

static uint8_t tag_of(uint64_t hash)
{
	uint8_t tag = hash >> 24;

	return tag == ABSENT ? 1 : tag == ZEROS ? ZEROS - 1 : tag;
}

/* Addresses, hashes, tags and one or two filters; places are pages counted from the first address of the tags. */
static int check(const Py_buffer *addresses, const Py_buffer *hashes, const Py_buffer *tags, const Py_buffer *filter,
		 uint64_t start, uint64_t page)
{
	const uint64_t *address = addresses->buf;

	if (addresses->len != hashes->len || addresses->len % 8 || filter->len % 8 || filter->len < 8 ||
	    (uint64_t)filter->len / 8 > UINT32_MAX || (uintptr_t)filter->buf % 8 || page == 0)
		goto bad;
	/* an empty array may be anywhere */
	if (addresses->len && ((uintptr_t)addresses->buf % 8 || (uintptr_t)hashes->buf % 8))
		goto bad;
	for (Py_ssize_t at = 0; at < addresses->len / 8; at++)
		if (address[at] < start || (address[at] - start) / page >= (uint64_t)tags->len)
			goto bad;
	return 1;
bad:
	PyErr_SetString(PyExc_ValueError, "an address without a tag, or arrays that do not fit");
	return 0;
}

PyDoc_STRVAR(first_doc, "first(addresses, hashes, start, page_size, tags, once, more)\n"
	"Remember what pages hold: a tag each, and each content as seen, or as seen more than once.");

static PyObject *first(PyObject *self, PyObject *args)
{
	Py_buffer addresses, hashes, tags, once, more;
	unsigned long long start, page;
	PyObject *result = NULL;

	if (!PyArg_ParseTuple(args, "y*y*KKw*w*w*", &addresses, &hashes, &start, &page, &tags, &once, &more))
		return NULL;
	if (more.len != once.len) {
		PyErr_SetString(PyExc_ValueError, "two filters of one size are wanted");
		goto out;
	}
	if (!check(&addresses, &hashes, &tags, &once, start, page) || !check(&addresses, &hashes, &tags, &more, start, page))
		goto out;
	Py_BEGIN_ALLOW_THREADS
	for (Py_ssize_t at = 0; at < hashes.len / 8; at++) {
		uint64_t hash = ((uint64_t *)hashes.buf)[at], bits;
		uint64_t *word = word_of(&once, hash, &bits);

		((uint8_t *)tags.buf)[(((uint64_t *)addresses.buf)[at] - start) / page] = tag_of(hash);
		if ((__atomic_fetch_or(word, bits, __ATOMIC_RELAXED) & bits) == bits)
			__atomic_fetch_or(word_of(&more, hash, &bits), bits, __ATOMIC_RELAXED);
	}
	Py_END_ALLOW_THREADS
	result = Py_NewRef(Py_None);
out:
	PyBuffer_Release(&addresses);
	PyBuffer_Release(&hashes);
	PyBuffer_Release(&tags);
	PyBuffer_Release(&once);
	PyBuffer_Release(&more);
	return result;
}

PyDoc_STRVAR(second_doc, "second(addresses, hashes, start, page_size, tags, more) -> (changed, addresses, hashes)\n"
	"Of pages that had content before: how many hold another, and, as arrays of 64 bits in bytes, those that hold the\n"
	"same and probably have a partner.");

static PyObject *second(PyObject *self, PyObject *args)
{
	Py_buffer addresses, hashes, tags, more;
	unsigned long long start, page;
	PyObject *places = NULL, *contents = NULL, *result = NULL;
	Py_ssize_t changed = 0, found = 0;

	if (!PyArg_ParseTuple(args, "y*y*KKy*y*", &addresses, &hashes, &start, &page, &tags, &more))
		return NULL;
	if (!check(&addresses, &hashes, &tags, &more, start, page))
		goto out;
	places = PyBytes_FromStringAndSize(NULL, addresses.len);
	contents = PyBytes_FromStringAndSize(NULL, hashes.len);
	if (!places || !contents)
		goto out;
	Py_BEGIN_ALLOW_THREADS
	for (Py_ssize_t at = 0; at < hashes.len / 8; at++) {
		uint64_t address = ((uint64_t *)addresses.buf)[at], hash = ((uint64_t *)hashes.buf)[at], bits;

		uint8_t tag = ((uint8_t *)tags.buf)[(address - start) / page];

		if (tag != tag_of(hash)) {
			changed += tag != ABSENT && tag != ZEROS;
		} else if ((__atomic_load_n(word_of(&more, hash, &bits), __ATOMIC_RELAXED) & bits) == bits) {
			memcpy(PyBytes_AS_STRING(places) + found * 8, &address, 8);
			memcpy(PyBytes_AS_STRING(contents) + found++ * 8, &hash, 8);
		}
	}
	Py_END_ALLOW_THREADS
	if (_PyBytes_Resize(&places, found * 8) == 0 && _PyBytes_Resize(&contents, found * 8) == 0)
		result = Py_BuildValue("nOO", changed, places, contents);
out:
	Py_XDECREF(places);
	Py_XDECREF(contents);
	PyBuffer_Release(&addresses);
	PyBuffer_Release(&hashes);
	PyBuffer_Release(&tags);
	PyBuffer_Release(&more);
	return result;
}

static PyMethodDef methods[] = {
	{ "look", look, METH_VARARGS, look_doc },
	{ "first", first, METH_VARARGS, first_doc },
	{ "second", second, METH_VARARGS, second_doc },
	{ NULL },
};

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "_pages", "The inner loops of reading pages.", -1, methods,
};

PyMODINIT_FUNC PyInit__pages(void)
{
	return PyModule_Create(&module);
}
