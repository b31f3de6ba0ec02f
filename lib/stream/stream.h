/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams calls of attached groups from a ring buffer that the BPF programs write to. */
#pragma once

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

/* Selects calls. The kernel applies the filter. */
struct stream_filter {
	bool ends, entries;   /* records of finished calls, of entries; at least one */
	bool slow, failed;    /* only slow calls, only failed ones */
	uint64_t min_ns;      /* only calls of this duration or longer */
	const pid_t *pids;    /* only these processes, at most FSN_STREAM_PIDS */
	size_t pid_cnt;       /* 0: all processes */
	const char *const *funcs; /* only functions that one of these globs matches */
	size_t func_cnt;      /* 0: all functions */
	uint32_t sample;      /* one record in N; 0 and 1: all */
};

enum stream_kind {
	STREAM_ENTRY, /* a call starts */
	STREAM_END,   /* a call has returned */
	STREAM_LOST,  /* .count records of the group were lost before the next one */
	STREAM_GAP,   /* this reader was stopped: nothing was recorded for .duration_ns */
};

/* Argument of the reader's callback; pointers are valid until the callback returns. */
struct stream_record {
	enum stream_kind kind;
	size_t group; /* index among the stream's groups */
	uint64_t count, duration_ns;
	const struct call *call;
	uint64_t late_ns; /* its end as seen is at most this later: its duration lacks overhead */
	const struct fsn_more *more; /* or NULL if only registers were recorded */
	const struct fsn_key *key;   /* FSN_KEY_WIDE words each; NULL: none, or not known */
};

struct stream;

/*
 * Starts streaming calls of @groups, which are open for writing and outlive the stream. The caller
 * holds the lock of @fs during this call only. The buffer has @buffer_bytes, rounded up to a power
 * of two of whole pages. Closes the maps of groups of group_open_brief() that the stream does not
 * need. A thread renews the leases of the stream.
 *
 * Returns 0, -ENOENT if a glob matches no function of any group, -EBUSY if a group has the maximum
 * number of streams, or -EOPNOTSUPP for processes outside the first PID namespace. The
 * caller ends the stream with stream_close() and frees it with stream_free().
 */
int stream_open(const struct bpffs *fs, struct group *const *groups, size_t group_cnt,
	const struct stream_filter *filter, size_t buffer_bytes, struct stream **ret_stream,
	struct err *err);

/* Returns 0 to continue, or another value to stop. */
typedef int (*stream_fn)(const struct stream_record *r, void *arg);

/*
 * Calls @fn for each record until STREAM_SETTLE_NS ago, in the order of time; finished calls are
 * ordered by their return. Returns 0, the nonzero value of @fn, or a negative errno.
 */
#define STREAM_SETTLE_NS 40000000
int stream_read(struct stream *s, stream_fn fn, void *arg, struct err *err);

/*
 * Returns how full the buffer was at the last read, in percent. If it was rather full, the caller
 * should read sooner.
 */
unsigned int stream_fill(const struct stream *s);

/* True if the filter selects function @fn of @g. */
bool stream_selects(const struct stream_filter *filter, const struct group *g, uint32_t fn);

/* Returns the number of streamed functions in all groups. */
size_t stream_func_cnt(const struct stream *s);

/* True if all groups are detached, so that no more records will come. */
bool stream_is_over(const struct stream *s);

/*
 * Stops recording and waits until no BPF program records any more. Then calls @fn like
 * stream_read() for the remaining and lost records; @fn may be NULL. Frees the places of the stream
 * in its groups.
 */
int stream_close(struct stream *s, stream_fn fn, void *arg, struct err *err);

/* Returns the total number of lost records. */
uint64_t stream_lost(const struct stream *s);

void stream_free(struct stream *s);

/*
 * Frees places of streams whose lease has expired because their reader was killed. @g is open for
 * writing. If another command holds the lock, leaves this to the next command.
 */
void streams_sweep(struct bpffs *fs, const struct group *g);

DEFINE_CLEANUP(stream, struct stream *, stream_free)
#define _cleanup_stream_ __cleanup(cleanup_stream)
