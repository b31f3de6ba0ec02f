/* SPDX-License-Identifier: BSD-2-Clause */
/* Running a stream, once its options are known. */
#ifndef FUNCSNOOP_CMD_STREAM_RUN_H
#define FUNCSNOOP_CMD_STREAM_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "cli/cmd.h"
#include "show/stream_format.h"
#include "stream/stream.h"

struct stream_options {
	struct globals *g;
	struct words names;
	struct stream_filter filter;
	pid_t pid[FSN_STREAM_PIDS];
	const char **func;
	bool calls, entries, exits; /* which of the events are shown */
	const struct stream_format *format;
	const char *output;
	uint64_t max_calls;   /* end after so many; 0: no end */
	uint64_t duration_ns; /* end after so long; 0: no end */
	uint64_t buffer_bytes;
	bool alert;
	int until_fd; /* it ends when this can be read, and not by signals; 0: none */
	void (*ready)(void *arg); /* told when calls are recorded; or NULL */
	void *ready_arg;
};

/*
 * Reads a line of options into @o, which holds .g; names of groups stand in .names. False
 * when it makes no sense, which has been said: EXIT_USAGE. End with stream_options_done() in
 * any case.
 */
bool stream_options_parse(struct stream_options *o, int argc, char **argv);
void stream_options_done(struct stream_options *o);

/* Until a signal, the end that was asked for, or that of the groups. Returns the status. */
int stream_run(const struct stream_options *o);

#endif
