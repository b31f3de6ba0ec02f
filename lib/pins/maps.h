/* SPDX-License-Identifier: BSD-2-Clause */
/* The maps of a group: how each is named where it is pinned, and how arrays are read. */
#ifndef FUNCSNOOP_PINS_MAPS_H
#define FUNCSNOOP_PINS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(id, name of the pin, name in the skeleton) */
#define MAPS(X)                                                                               \
	X(MAPID_CTL, "ctl", bss)                                                                \
	X(MAPID_META, "meta", fsn_meta)                                                         \
	X(MAPID_LIBS, "libs", fsn_libs)                                                         \
	X(MAPID_FUNCS, "funcs", fsn_funcs)                                                      \
	X(MAPID_TEXT, "text", fsn_text)                                                         \
	X(MAPID_CONFS, "confs", fsn_confs)                                                      \
	X(MAPID_STATS, "stats", fsn_stats)                                                      \
	X(MAPID_HISTS, "hists", fsn_hists)                                                      \
	X(MAPID_BASE0, "base0", fsn_base0)                                                      \
	X(MAPID_BASE1, "base1", fsn_base1)                                                      \
	X(MAPID_BASE_HIST0, "base_hist0", fsn_base_hist0)                                       \
	X(MAPID_BASE_HIST1, "base_hist1", fsn_base_hist1)                                       \
	X(MAPID_SLOTS, "slots", fsn_slots)                                                      \
	X(MAPID_HELD, "held", fsn_held)                                                        \
	X(MAPID_ARGS, "args", fsn_args)                                                         \
	X(MAPID_MORE, "more", fsn_more)                                                       \
	X(MAPID_STREAMS, "streams", fsn_streams)                                              \
	X(MAPID_RINGS, "rings", fsn_rings)                                                    \
	X(MAPID_PROCS, "procs", fsn_procs)                                                      \
	X(MAPID_CODES, "codes", fsn_codes)                                                      \
	X(MAPID_SLOW, "slow", fsn_slow)                                                         \
	X(MAPID_PIDS, "pids", fsn_pids)                                                       \
	X(MAPID_COMMS, "comms", fsn_comms)                                                    \
	X(MAPID_SYNC, "sync", fsn_sync)

enum map_id {
#define X(id, pin, map) id,
	MAPS(X)
#undef X
	MAPID_CNT
};

/* Name of the pin; static storage. */
const char *map_pin_name(enum map_id id);

/*
 * Whether @fd is a map of the kind and with the sizes of key and value that @id has: a read
 * from another one would write past the end of what it reads into. 0, -EPROTO or what
 * bpf(2) gives.
 */
int map_check(int fd, enum map_id id);

/*
 * Whether the map has only what readers of statistics are to see: no arguments, no results,
 * no addresses, and nothing that only a writer needs.
 */
bool map_is_counter(enum map_id id);

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
#define _cleanup_mapping_ __attribute__((cleanup(map_munmap)))

/* Bytes of kernel memory that the map takes, by its fdinfo; 0 when that can't be read. */
uint64_t map_memory(int fd);

#endif
