/* SPDX-License-Identifier: BSD-2-Clause */
/* What libbpf says: its log, whose last lines are kept for error messages, and its version. */
#ifndef FUNCSNOOP_BASE_LOG_H
#define FUNCSNOOP_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef void (*log_sink_fn)(const char *line);

/* Takes libbpf's log over. @sink gets every line as it comes, or is NULL. */
void log_init(log_sink_fn sink);

/* Whether log_init() was given a sink: then the verifier is asked for its statistics. */
bool log_wanted(void);

/* The last lines of warnings since log_init(), joined by "; ", or "". Static storage. */
const char *log_tail(void);

/* "v1.1", of the libbpf that runs. */
const char *version_libbpf(void);

#endif
