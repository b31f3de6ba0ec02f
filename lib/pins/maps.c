// SPDX-License-Identifier: BSD-2-Clause
// Types and sizes of a group's maps; access to many elements of array maps at a time.
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "pins/maps.h"

/* --- types and sizes ------------------------------------------------------------------------- */

struct map_shape {
	uint32_t type, key_bytes, value_bytes, spared;
	bool sparse;
};

static const struct map_facts {
	const char *pin;
	struct map_shape shape;
	bool for_readers;
} facts[] = {
#define OWNER          false
#define READERS        true
#define SHAPE(t, k, v) ((struct map_shape){ t, sizeof(k), sizeof(v), 0, false })
#define TEXTS(v)                                                                            \
	((struct map_shape){ BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), sizeof(v), FSN_STR_SPARED, false })
#define SPARSE(v)      ((struct map_shape){ BPF_MAP_TYPE_HASH, sizeof(uint32_t), sizeof(v), 0, true })
#define HASH(k, v)     SHAPE(BPF_MAP_TYPE_HASH, k, v)
#define ARRAY(v)       SHAPE(BPF_MAP_TYPE_ARRAY, uint32_t, v)
#define MAPPED(v)      ARRAY(v)
#define OUTER          SHAPE(BPF_MAP_TYPE_ARRAY_OF_MAPS, uint32_t, uint32_t)
#define X(id, name, shape, entries, readers) [MAPID_##id] = { #name, shape, readers },
	FSN_MAPS_OTHER(X) FSN_MAPS(X)
#undef X
};

const char *map_pin_name(enum map_id id)
{
	return facts[id].pin;
}

bool map_is_counter(enum map_id id)
{
	return facts[id].for_readers;
}

bool map_grows(enum map_id id)
{
	return facts[id].shape.sparse;
}

bool map_is_first(enum map_id id)
{
	switch (id) {
	case MAPID_LIBS:
	case MAPID_FUNCS:
	case MAPID_TEXT:
	case MAPID_CTL:
	case MAPID_STATS:
		return true;
	default:
		return false;
	}
}

uint32_t map_entries(enum map_id id, const struct map_sizes *n)
{
	const size_t cnt[] = {
#define X(id_, name, shape, entries, readers) [MAPID_##id_] = (entries),
		FSN_MAPS_OTHER(X) FSN_MAPS(X)
#undef X
	};

	return cnt[id] ? cnt[id] : 1;
}

uint32_t map_value_bytes(enum map_id id, const struct map_sizes *n)
{
	const struct map_shape *shape = &facts[id].shape;

	if (!shape->spared)
		return 0;
	return shape->value_bytes - (n->wide ? 0 : shape->spared);
}

_Static_assert(MAPID_CNT <= FSN_MAPS_MAX, "struct fsn_meta has a number for each map");

int map_check(int fd, enum map_id id, uint32_t number, uint32_t *ret_entries)
{
	const struct map_shape *shape = &facts[id].shape;
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	if (info.type != shape->type || info.key_size != shape->key_bytes ||
		(info.value_size != shape->value_bytes &&
			info.value_size != shape->value_bytes - shape->spared))
		return -EPROTO;
	if (number && info.id != number)
		return -EPROTO;
	*ret_entries = info.max_entries;
	return 0;
}

uint32_t map_number(int fd)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

/* --- arrays ---------------------------------------------------------------------------------- */

void map_copy(void *to, const void *from, size_t size)
{
	const uint64_t *words = from;
	uint64_t *buf = to;

	for (size_t i = 0; i < size / sizeof(*words); i++)
		buf[i] = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
}

/*
 * Reads a mappable array through mmap(2), without a system call per element. A read-only
 * descriptor cannot be mapped: mmap(2) clears VM_SHARED, which bpf_map_mmap() requires.
 */
static int read_mapped(int fd, uint32_t first, uint32_t cnt, size_t size, void *buf)
{
	size_t page = sysconf(_SC_PAGESIZE), begin = first * size;
	size_t end = begin + cnt * size, from = begin / page * page;
	char *addr;

	addr = mmap(NULL, end - from, PROT_READ, MAP_SHARED, fd, (off_t)from);
	if (addr == MAP_FAILED)
		return -errno;
	map_copy(buf, addr + (begin - from), cnt * size);
	munmap(addr, end - from);
	return 0;
}

int map_get(int fd, const void *key, void *ret_value)
{
	if (fd < 0)
		return fd;
	return bpf_map_lookup_elem(fd, key, ret_value) ? -errno : 0;
}

int map_read(int fd, uint32_t first, uint32_t cnt, size_t size, void *buf)
{
	uint32_t last = first + cnt - 1;

	if (!cnt)
		return 0;
	if (fd < 0)
		return fd;
	/* Checks that the element exists, because the last page may be longer than the map. */
	if (bpf_map_lookup_elem(fd, &last, buf))
		return -errno;
	if (cnt == 1 || !read_mapped(fd, first, cnt, size, buf))
		return 0;
	/* A batch could tear words, see map_read_fixed(). */
	for (uint32_t i = 0, key = first; i < cnt; i++, key++)
		if (bpf_map_lookup_elem(fd, &key, (char *)buf + i * size))
			return -errno;
	return 0;
}

/*
 * A batch can tear words: generic_map_lookup_batch() (kernel/bpf/syscall.c) copies each value to a
 * buffer after its 4-byte key, where 8-byte words are misaligned. Byte-wise copies (rep movsb, on
 * processors with FSRM) then see words half old, half new.
 */
int map_read_fixed(int fd, uint32_t first, uint32_t cnt, size_t size, void *buf)
{
	_cleanup_free_ uint32_t *keys = malloc(cnt * sizeof(*keys) + 1);
	uint32_t from, next, done = 0, n;

	if (!keys)
		return -ENOMEM;
	if (cnt && fd < 0)
		return fd;
	while (done < cnt) {
		/* A batch starts after the given key; without a key it starts at element 0. */
		from = first + done - 1;
		n = cnt - done;
		if (bpf_map_lookup_batch(fd, (first + done) ? &from : NULL, &next, keys,
			    (char *)buf + done * size, &n, NULL) &&
			errno != ENOENT)
			return -errno;
		if (!n)
			return -ENOENT;
		done += n;
	}
	return 0;
}

int map_write(int fd, uint32_t first, uint32_t cnt, size_t size, const void *buf)
{
	_cleanup_free_ uint32_t *keys = malloc(cnt * sizeof(*keys) + 1);
	uint32_t done = 0, n;

	if (!keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < cnt; i++)
		keys[i] = first + i;
	while (done < cnt) {
		n = cnt - done;
		if (bpf_map_update_batch(
			    fd, keys + done, (const char *)buf + done * size, &n, NULL))
			return -errno;
		done += n;
	}
	return 0;
}

/* --- sparse arrays --------------------------------------------------------------------------- */

int map_get_sparse(int fd, uint32_t i, size_t size, void *ret_value)
{
	int code = map_get(fd, &i, ret_value);

	if (code == -ENOENT)
		memset(ret_value, 0, size);
	return code == -ENOENT ? 0 : code;
}

/* Reads all existing elements, in any order; *@ret_cnt is at most @max. */
static int sparse_elements(
	int fd, uint32_t max, uint32_t *keys, void *values, uint32_t *ret_cnt)
{
	uint32_t next;

	if (fd < 0)
		return fd;
	*ret_cnt = max;
	if (bpf_map_lookup_batch(fd, NULL, &next, keys, values, ret_cnt, NULL))
		return errno == ENOENT ? 0 : -errno;
	return 0;
}

int map_read_sparse(int fd, uint32_t cnt, size_t size, void *buf)
{
	_cleanup_free_ uint32_t *keys = xcalloc(cnt + 1, sizeof(*keys));
	_cleanup_free_ char *values = xmalloc(cnt * size + 1);
	uint32_t there;
	int code = sparse_elements(fd, cnt, keys, values, &there);

	memset(buf, 0, cnt * size);
	for (uint32_t i = 0; !code && i < there; i++)
		if (keys[i] < cnt)
			memcpy((char *)buf + keys[i] * size, values + i * size, size);
	return code;
}

static bool is_zero(const char *value, size_t size)
{
	return !value[0] && !memcmp(value, value + 1, size - 1);
}

int map_write_sparse(int fd, uint32_t cnt, size_t size, const void *buf)
{
	_cleanup_free_ uint32_t *keys = xcalloc(cnt + 1, sizeof(*keys));
	_cleanup_free_ char *values = xmalloc(cnt * size + 1);
	uint32_t n = 0;
	int code = sparse_elements(fd, cnt, keys, values, &n);

	for (uint32_t i = 0; !code && i < n; i++)
		if (bpf_map_delete_elem(fd, &keys[i]) && errno != ENOENT)
			code = -errno;
	for (uint32_t i = 0; !code && i < cnt; i++) {
		const char *value = (const char *)buf + i * size;

		if (!is_zero(value, size) && bpf_map_update_elem(fd, &i, value, 0))
			code = -errno;
	}
	return code;
}

int map_mmap(int fd, size_t size, struct map_mapping *ret_mapping)
{
	void *addr;

	if (fd < 0)
		return fd;
	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED)
		return -errno;
	ret_mapping->addr = addr;
	ret_mapping->size = size;
	return 0;
}

void map_munmap(struct map_mapping *m)
{
	if (m->addr)
		munmap(m->addr, m->size);
	m->addr = NULL;
}

uint64_t map_memory(int fd)
{
	unsigned long long bytes;
	char path[64], line[128];
	_cleanup_fclose_ FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "memlock: %llu", &bytes) == 1)
			return bytes;
	return 0;
}
