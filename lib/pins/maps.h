/* SPDX-License-Identifier: BSD-2-Clause */
/* The maps of a group: their types and sizes, and access to array maps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/maps.h"

/* MAPID_CTL and so on; FSN_MAPS in shared/maps.h describes each map. */
enum map_id {
#define X(id, name, shape, entries, readers) MAPID_##id,
	FSN_MAPS_OTHER(X) FSN_MAPS(X)
#undef X
	MAPID_CNT
};

/* Properties of a group that determine the sizes of its maps. */
struct map_sizes {
	size_t funcs, timed, libs;   /* functions, timed functions, libraries */
	size_t types, names, texts; /* pieces of text */
	size_t stat_shards, hist_shards, path_shards, procs, paths, rows, stacks;
	size_t slots; /* calls in progress */
	size_t block_sets, places;
	bool has_more, wide, nesting, split, children, holds, pauses, callers, launches, sleeps;
	bool gpus, pythons, judged, cold;
};

/* Returns the number of entries of map @id in such a group, at least one. */
uint32_t map_entries(enum map_id id, const struct map_sizes *n);

/* Returns the value size of map @id in bytes, or 0 for the size in the BPF programs. */
uint32_t map_value_bytes(enum map_id id, const struct map_sizes *n);

/* Goes through the keys of the map @fd, none if it is not open: @key points to each. */
#define map_foreach(fd, key)                                                                  \
	for (void *_from = NULL; (fd) >= 0 && !bpf_map_get_next_key(fd, _from, key); _from = (key))

/* Returns the name of the pin, in static storage. */
const char *map_pin_name(enum map_id id);

/*
 * Checks that map @fd has the type, key size and value size of @id, because reading a map with
 * larger values would overflow the buffer. Values of maps with text may be FSN_STR_SPARED shorter.
 * @number is the expected map id of the kernel, or 0 for any. *@ret_entries is the number of
 * entries.
 *
 * Returns 0, -EPROTO, or an error of bpf(2).
 */
int map_check(int fd, enum map_id id, uint32_t number, uint32_t *ret_entries);

/* Returns the map id of the kernel, or 0 if it is not known. */
uint32_t map_number(int fd);

/* True if the map is read first, right after meta, because all other reads depend on it. */
bool map_is_first(enum map_id id);

/* True if the map has only data that readers of statistics may see. */
bool map_is_counter(enum map_id id);

/* True if the map allocates memory per element, not for all elements when it is made. */
bool map_grows(enum map_id id);

/* Reads one element. This function and the ones below return @fd if it is a negative errno. */
int map_get(int fd, const void *key, void *ret_value);

/*
 * Reads elements @first to @first + @cnt - 1 of an array map whose values have @size bytes
 * (a multiple of 8) into @buf, which is aligned to 8 bytes. Each 8-byte word is read atomically.
 * The words of a value are read in ascending order, while BPF programs may write them.
 *
 * If @fd is writable and the map is BPF_F_MMAPABLE, one mmap() reads all; otherwise each element
 * needs a system call. Returns 0 or a negative errno.
 */
int map_read(int fd, uint32_t first, uint32_t cnt, size_t size, void *buf);

/* Copies words of a mapped value as map_read() does. */
void map_copy(void *to, const void *from, size_t size);

/*
 * Like map_read(), but uses batches, which need fewer system calls. Only for maps that are not
 * written meanwhile, or if the caller detects writes and reads again: words can be torn.
 */
int map_read_fixed(int fd, uint32_t first, uint32_t cnt, size_t size, void *buf);

/* Writes elements @first to @first + @cnt - 1. */
int map_write(int fd, uint32_t first, uint32_t cnt, size_t size, const void *buf);

/*
 * Do the same for a SPARSE map, starting at element 0. Missing elements read as zeros, and a write
 * deletes elements that are all zeros. Only single elements are read and written atomically: a
 * reader may see some of the elements of a write in progress.
 */
int map_get_sparse(int fd, uint32_t i, size_t size, void *ret_value);
int map_read_sparse(int fd, uint32_t cnt, size_t size, void *buf);
int map_write_sparse(int fd, uint32_t cnt, size_t size, const void *buf);

/*
 * Maps the values of a BPF_F_MMAPABLE array, @size bytes, for reading and writing while the BPF
 * programs run. Needs a descriptor without BPF_F_RDONLY. Returns 0 or a negative errno. The caller
 * unmaps *@ret_mapping with map_munmap().
 */
struct map_mapping {
	void *addr;
	size_t size;
};
int map_mmap(int fd, size_t size, struct map_mapping *ret_mapping);
void map_munmap(struct map_mapping *m);
#define _cleanup_mapping_ __cleanup(map_munmap)

/* Returns the kernel memory of the map in bytes, from fdinfo, or 0 if it cannot be read. */
uint64_t map_memory(int fd);
