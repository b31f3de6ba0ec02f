/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the statistics that are kept by key: return codes, processes. */
#ifndef FUNCSNOOP_STATS_DETAIL_H
#define FUNCSNOOP_STATS_DETAIL_H

#include "internal.h"

/* Fill in .codes and .procs of all functions. 0 or a negative errno. */
int stats_read_codes(const struct group *g, const struct stats_view *view, struct stats *s);
int stats_read_procs(const struct group *g, const struct stats_view *view, struct stats *s);

#endif
