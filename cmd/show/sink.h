/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a stream is written to: a file, a pipe, a terminal; in whole lines. */
#ifndef FUNCSNOOP_SHOW_SINK_H
#define FUNCSNOOP_SHOW_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/err.h"

struct sink {
	struct out out;      /* lines to be written */
	const char *name;    /* for messages */
	int fd;
	bool owned;          /* fd is to be closed */
	bool regular;        /* fd is a file of its own, not one that others write, too */
	const char *created; /* the file that sink_open() made, until sink_begin() */
	off_t at;            /* of a document: where the next line goes */
	uint64_t bytes;      /* written */
	/*
	 * Ends a document; set before sink_open(), or NULL. A file of its own ends with
	 * it after each write, and the next one takes its place.
	 */
	const char *trailer;
	/* Whether to give up a write that waits: a pipe that nobody reads, a stopped terminal. */
	bool (*give_up)(void);
};

#define SINK_NONE { .fd = -1 }

/*
 * Opens @path or, with NULL, stdout. The file is made 0600, or kept as it is until
 * sink_begin(); one that was made is removed by sink_done() if it never comes to that. Waits,
 * as open(2) does, for whoever reads a pipe with a name. @path outlives the sink.
 */
int sink_open(const char *path, struct sink *s, struct err *err);

/* From here on the file's old contents are gone. */
int sink_begin(struct sink *s, struct err *err);

/*
 * Writes .out, whole lines at a time. -EPIPE when nobody reads any more, -EINTR when it was
 * given up; a file is cut behind its last whole line when the disk is full (-ENOSPC).
 */
int sink_flush(struct sink *s, struct err *err);

/* The same for the last time: the trailer, too. */
int sink_end(struct sink *s, struct err *err);

void sink_done(struct sink *s);

#endif
