/* SPDX-License-Identifier: BSD-2-Clause */
/* What libbpf says: handed to a sink, and its last lines kept for error messages. */
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

#endif
