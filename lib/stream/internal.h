/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream from inside: places in groups, and the records taken out of its ring. */
#ifndef FUNCSNOOP_STREAM_INTERNAL_H
#define FUNCSNOOP_STREAM_INTERNAL_H

#include <pthread.h>

#include <bpf/libbpf.h>

#include "group/records.h"
#include "stream/stream.h"

#define NO_PLACE (~0U)

/* The stream's place in one group. */
struct member {
	struct group *g;
	ino_t ino; /* of the group's directory */
	uint32_t place;
	struct map_mapping ctl_map, streams_map, confs_map;
	struct map_mapping rows_map, keys_map; /* of keys, where there are some */
	struct fsn_ctl *ctl;
	struct fsn_stream *conf;
	uint64_t lease;     /* as last written: another value is another stream's */
	uint32_t told_lost; /* low bits of what the reader was told of */
	uint64_t gap_ns;    /* not yet told; written by the keeper, as the next */
	bool evicted;       /* the lease ran out, and the place was given away */
};

/* A record held back: when it happened, and where it lies in the arena. */
struct held {
	uint64_t at;
	size_t offset;
};

struct stream {
	const struct bpffs *fs;
	struct member *member;
	size_t cnt;
	int ring_fd;
	size_t ring_bytes;
	struct ring_buffer *ring;
	size_t func_cnt; /* functions watched */
	bool running;    /* the programs write */

	char *arena;
	size_t arena_len, arena_size;
	struct held *held;
	size_t held_cnt;
	unsigned int fill;
	bool more;     /* there was more in the ring than was taken out */
	uint64_t lost; /* of members that are closed */
	struct fsn_key key; /* of the record that is handed over */

	pthread_t keeper;
	pthread_mutex_t lock;
	pthread_cond_t quit;
	bool has_keeper, quitting;
};

/* --- places: place.c ------------------------------------------------------------------ */

#endif
