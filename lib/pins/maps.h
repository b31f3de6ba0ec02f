/* SPDX-License-Identifier: BSD-2-Clause */
/* The maps of a group: what each is, and how arrays are read. */
#ifndef FUNCSNOOP_PINS_MAPS_H
#define FUNCSNOOP_PINS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/maps.h"

/* MAPID_CTL and so on: FSN_MAPS in shared/maps.h says what each is. */
enum map_id {
#define X(id, name, shape, entries, readers) MAPID_##id,
	FSN_MAPS_OTHER(X) FSN_MAPS(X)
#undef X
	MAPID_CNT
};

/* What the size of a group's maps depends on. */
struct map_sizes {
	size_t funcs, timed, libs;   /* functions, of them timed */
	size_t types, names, texts; /* pieces of text */
	size_t stat_shards, hist_shards, path_shards, procs, paths, rows, stacks;
	size_t slots; /* calls in progress */
	size_t block_sets, places;
	bool has_more, wide, nesting, split, children, holds, pauses, callers, launches, sleeps;
	bool gpus, pythons, judged;
};

/* How many entries it has in such a group, at least one. */
uint32_t map_entries(enum map_id id, const struct map_sizes *n);

/* Bytes of a value of it, or 0: as many as the programs say. */
uint32_t map_value_bytes(enum map_id id, const struct map_sizes *n);

/* Name of the pin; static storage. */
const char *map_pin_name(enum map_id id);

/*
 * Whether @fd is a map of the kind and with the sizes of key and value that @id has: a read
 * from another one would write past the end of what it reads into. 0, -EPROTO or what
 * bpf(2) gives. A value may be FSN_STR_SPARED shorter where text is. *@ret_entries is how many
 * there are. @number is the kernel's number of the map that it must be, or 0.
 */
int map_check(int fd, enum map_id id, uint32_t number, uint32_t *ret_entries);

/* The kernel's number of the map; 0 if it is not known. */
uint32_t map_number(int fd);

/* Whether nothing is known of a group before it is read; meta was, before all others. */
bool map_is_first(enum map_id id);

/* Whether the map has only what readers of statistics are to see. */
bool map_is_counter(enum map_id id);

/* True if the map takes memory as it gets elements, otherwise for all of them when it is made. */
bool map_grows(enum map_id id);

/* One element. Of all these functions: where @fd is a negative errno, that is returned. */
int map_get(int fd, const void *key, void *ret_value);

/*
 * Reads elements @first to @first + @cnt - 1 of an array map whose values have @size bytes
 * (a multiple of 8) into @buf, which is aligned to 8 bytes. Each 8-byte word is read
 * whole; a value's words are read upwards, one after the other, while programs go on. One
 * call for all where @fd may write and the map is BPF_F_MMAPABLE, else one each. 0 or a
 * negative errno.
 */
int map_read(int fd, uint32_t first, uint32_t cnt, size_t size, void *buf);

/*
 * The same in fewer calls for what nobody writes meanwhile, or where it is found out and
 * all is read again: of what is written, halves of words may be seen.
 */
int map_read_fixed(int fd, uint32_t first, uint32_t cnt, size_t size, void *buf);

/* Writes them. */
int map_write(int fd, uint32_t first, uint32_t cnt, size_t size, const void *buf);

/*
 * The same of a SPARSE map, from 0 on: zeros where it has no element. A write drops those of zeros. One
 * element is read or written whole. A reader may see only a part of what is being written.
 */
int map_get_sparse(int fd, uint32_t i, size_t size, void *ret_value);
int map_read_sparse(int fd, uint32_t cnt, size_t size, void *buf);
int map_write_sparse(int fd, uint32_t cnt, size_t size, const void *buf);

/*
 * Maps the values of a BPF_F_MMAPABLE array, @size bytes, for reading and writing while
 * programs go on. Needs a descriptor without BPF_F_RDONLY. 0 or a negative errno; end
 * with map_munmap().
 */
struct map_mapping {
	void *addr;
	size_t size;
};
int map_mmap(int fd, size_t size, struct map_mapping *ret_mapping);
void map_munmap(struct map_mapping *m);
#define _cleanup_mapping_ __cleanup(map_munmap)

/* Bytes of kernel memory that the map takes, by its fdinfo; 0 when that can't be read. */
uint64_t map_memory(int fd);

#endif
