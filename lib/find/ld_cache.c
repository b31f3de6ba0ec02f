// SPDX-License-Identifier: BSD-2-Clause
// Reading glibc's ld.so.cache.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "library_internal.h"

/* The format of sysdeps/generic/dl-cache.h in glibc, since 2.2 after an older table. */
#define OLD_MAGIC       "ld.so-1.7.0"
#define OLD_HEADER_SIZE 16
#define OLD_ENTRY_SIZE  12
#define NEW_MAGIC       "glibc-ld.so.cache1.1"
#define NEW_HEADER_SIZE 48
#define NEW_ENTRY_SIZE  24

/* _DL_CACHE flags: a library for libc 6, and the machine. */
#define FLAG_TYPE_MASK 0x00ff
#define FLAG_ELF_LIBC6 0x0003
#define FLAG_MACH_MASK 0xff00
#if defined(__x86_64__)
#define FLAG_MACH 0x0300
#elif defined(__aarch64__)
#define FLAG_MACH 0x0a00
#endif

#define CACHE_MAX_SIZE (64u << 20)

struct cache_entry {
	int32_t flags;
	uint32_t key, value; /* offsets of strings, from the new header on */
	uint32_t os_version;
	uint64_t hwcap;
};

/* The whole file; NULL when it can't be read or is too large. */
static char *slurp(const char *path, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *bytes = NULL;
	struct stat st;
	size_t got = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
		st.st_size > CACHE_MAX_SIZE)
		return NULL;
	bytes = malloc(st.st_size + 1);
	while (bytes && got < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + got, st.st_size - got);

		if (n <= 0)
			return NULL;
		got += n;
	}
	if (bytes)
		bytes[got] = '\0'; /* so that no string runs over the end */
	*ret_size = got;
	return TAKE_PTR(bytes);
}

static uint32_t word_at(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Where the new format begins; NULL when it is not there. */
static const char *new_part(const char *bytes, size_t size, size_t *ret_size)
{
	uint64_t at = 0;

	if (size >= OLD_HEADER_SIZE && memcmp(bytes, OLD_MAGIC, strlen(OLD_MAGIC)) == 0) {
		at = OLD_HEADER_SIZE + (uint64_t)word_at(bytes + 12) * OLD_ENTRY_SIZE;
		at = (at + 7) & ~7ull;
	}
	if (at > size || size - at < NEW_HEADER_SIZE ||
		memcmp(bytes + at, NEW_MAGIC, strlen(NEW_MAGIC)) != 0)
		return NULL;
	*ret_size = size - at;
	return bytes + at;
}

static int add_entry(const char *part, size_t size, const struct cache_entry *e,
	struct lib_places *places)
{
	const char *path, *slash;

	if ((e->flags & FLAG_TYPE_MASK) != FLAG_ELF_LIBC6 ||
		(e->flags & FLAG_MACH_MASK) != FLAG_MACH || e->key >= size ||
		e->value >= size)
		return 0;
	path = part + e->value;
	slash = strrchr(path, '/');
	if (path[0] != '/' || strlen(path) >= PATH_MAX ||
		strlen(part + e->key) >= PATH_MAX)
		return 0;
	return lib_place_add(
		places, path, slash - path, slash + 1, part + e->key, "ld.so.cache");
}

int lib_cache_read(const char *root, struct lib_places *places)
{
	_cleanup_free_ char *bytes = NULL;
	char path[PATH_MAX];
	const char *part;
	size_t size;
	uint32_t cnt;
	int ret;

	snprintf(path, sizeof(path), "%s/etc/ld.so.cache", root);
	bytes = slurp(path, &size);
	part = bytes ? new_part(bytes, size, &size) : NULL;
	if (!part)
		return 0;
	cnt = word_at(part + strlen(NEW_MAGIC));
	if (cnt > (size - NEW_HEADER_SIZE) / NEW_ENTRY_SIZE)
		return 0;
	for (uint32_t i = 0; i < cnt; i++) {
		struct cache_entry e;

		memcpy(&e, part + NEW_HEADER_SIZE + (size_t)i * NEW_ENTRY_SIZE,
			sizeof(e));
		ret = add_entry(part, size, &e, places);
		if (ret)
			return ret;
	}
	return 0;
}
