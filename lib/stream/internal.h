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

/*
 * Takes a place in group @tag of the stream, after those of killed readers were freed; needs
 * the lock. Nothing is recorded until member_switch_on(). -EBUSY when all are taken.
 */
int member_join(struct stream *s, size_t tag, const struct stream_filter *filter,
	struct err *err);
void member_switch_on(struct member *m);

/*
 * Renews the lease. If it had run out, for the process was stopped, programs have switched
 * the stream off: from then on until now nothing was recorded or counted. If the place was
 * given away meanwhile, .evicted is set.
 */
void member_renew(struct member *m);

/* Nothing is recorded from here on, but by programs that run now. */
void member_switch_off(struct member *m);

/* Frees the place; or does nothing if there is none. */
void member_leave(struct member *m);
void member_unmap(struct member *m);

/* Whether the group is still pinned under its name. */
bool member_is_attached(const struct bpffs *fs, const struct member *m);

#endif
