/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of attached groups as they happen: a ring buffer that the programs write to. */
#ifndef FUNCSNOOP_STREAM_STREAM_H
#define FUNCSNOOP_STREAM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "group/group.h"
#include "pins/bpffs.h"
#include "shared/words.h"

#define STREAM_BUFFER_DEFAULT (16U << 20)
#define STREAM_BUFFER_MIN     4096U
#define STREAM_BUFFER_MAX     (1U << 30)

/* Which calls are wanted: decided in the kernel. */
struct stream_filter {
	bool ends, entries;   /* records of finished calls, of entries; one of the two */
	bool slow, failed;    /* only slow calls, only failed ones */
	uint64_t min_ns;      /* only calls at least as long */
	const pid_t *pids;    /* only these processes, at most FSN_STREAM_PIDS; or none */
	size_t pid_cnt;
	const char *const *funcs; /* only functions that one of these globs matches; or none */
	size_t func_cnt;
	uint32_t sample;      /* one record of so many; 0 and 1: all */
};

enum stream_kind {
	STREAM_ENTRY, /* a call begins */
	STREAM_END,   /* a call is over */
	STREAM_LOST,  /* .count records of the group were lost before the next one */
	STREAM_GAP,   /* this reader was stopped: nothing was recorded for .duration_ns */
};

/* What is handed to the reader; pointers are good until it returns. */
struct stream_record {
	enum stream_kind kind;
	size_t group; /* index among the stream's groups */
	uint64_t count, duration_ns;
	const struct call *call;
	const struct fsn_more *more; /* or NULL, when the registers are all that was kept */
	const struct fsn_key *key;   /* FSN_KEY_WIDE words each; NULL: it has none, or is not known */
};

struct stream;

/*
 * Begins to watch @groups, which are open for writing and outlive the stream, with the lock
 * of @fs held; it is not needed any more afterwards. The buffer takes @buffer_bytes, rounded
 * up to a power of two of whole pages. -ENOENT when a glob matches no function of any group,
 * -EBUSY when a group has as many streams as it can, -EOPNOTSUPP for processes outside the
 * first pid namespace, -ENOMEM. Of groups of group_open_brief()
 * what is open is closed but for what the stream itself needs. End with stream_close() and
 * then stream_free(). While it lives a thread of its own renews its leases.
 */
int stream_open(const struct bpffs *fs, struct group *const *groups, size_t group_cnt,
	const struct stream_filter *filter, size_t buffer_bytes, struct stream **ret_stream,
	struct err *err);

/* Returns 0 to go on, anything else to stop there. */
typedef int (*stream_fn)(const struct stream_record *r, void *arg);

/*
 * Hands over what has been recorded until STREAM_SETTLE_NS ago, in the order of time: of
 * ends that of the end. Returns what @fn did, or a negative errno.
 */
#define STREAM_SETTLE_NS 40000000
int stream_read(struct stream *s, stream_fn fn, void *arg, struct err *err);

/*
 * How full the buffer was when it was last read, of 100; whether it should be read again
 * sooner.
 */
unsigned int stream_fill(const struct stream *s);

/* How many functions are watched, in all groups. */
size_t stream_func_cnt(const struct stream *s);

/* Whether all of its groups are detached, so that nothing will come any more. */
bool stream_is_over(const struct stream *s);

/*
 * Stops the programs from recording, waits until none does, and hands over the rest and what
 * was lost at the end; @fn may be NULL, and is called as by stream_read(). The places in the
 * groups are free afterwards.
 */
int stream_close(struct stream *s, stream_fn fn, void *arg, struct err *err);

/* Records lost in all until now. */
uint64_t stream_lost(const struct stream *s);

void stream_free(struct stream *s);

/*
 * Frees places of streams whose reader was killed: their lease has run out. @g is open for
 * writing. Does nothing, for the next command to do it, while another one holds the lock.
 */
void streams_sweep(struct bpffs *fs, const struct group *g);

DEFINE_CLEANUP(stream, struct stream *, stream_free)
#define _cleanup_stream_ __cleanup(cleanup_stream)

#endif
