/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which maps are pinned, and of what; layout.h has what is in them. */
#ifndef FUNCSNOOP_SHARED_MAPS_H
#define FUNCSNOOP_SHARED_MAPS_H

#include "layout.h"

/*
 * All facts of the pinned maps: X(ID, name, shape, entries, readers). In the programs a map is
 * fsn_NAME. Its shape is ARRAY(value), MAPPED(value), an array that can be mapped, HASH(key,
 * value), or OUTER, an array of maps. How many entries it has may depend on the group: @n is
 * its struct map_sizes. What READERS may see, whom attach's --mode lets in, has no arguments,
 * no results, no addresses, and nothing that only a writer needs; the rest is its OWNER's.
 */
#define FSN_MAPS(X)                                                                    \
	X(META, meta, ARRAY(struct fsn_meta), 1, READERS)                              \
	X(LIBS, libs, ARRAY(struct fsn_lib), n->libs, READERS)                         \
	X(FUNCS, funcs, ARRAY(struct fsn_func), n->funcs, READERS)                     \
	X(TYPES, types, ARRAY(struct fsn_type), n->types, READERS)                     \
	X(NAMES, names, ARRAY(struct fsn_name), n->names, READERS)                     \
	X(TEXT, text, ARRAY(struct fsn_text), n->texts, READERS)                       \
	X(CONFS, confs, MAPPED(struct fsn_conf), n->funcs, READERS)                    \
	X(STATS, stats, MAPPED(struct fsn_stat), n->stat_shards * n->funcs, READERS)   \
	X(HISTS, hists, ARRAY(struct fsn_hist), n->hist_shards * n->timed, READERS)    \
	X(BASE0, base0, ARRAY(struct fsn_base), n->funcs, READERS)                     \
	X(BASE1, base1, ARRAY(struct fsn_base), n->funcs, READERS)                     \
	X(BASE_HIST0, base_hist0, ARRAY(struct fsn_hist), n->timed, READERS)           \
	X(BASE_HIST1, base_hist1, ARRAY(struct fsn_hist), n->timed, READERS)           \
	X(SLOTS, slots, MAPPED(struct fsn_set), FSN_SET_CNT, OWNER)                    \
	X(HELD, held, MAPPED(struct fsn_held), 1, OWNER)                               \
	X(NESTS, nests, ARRAY(struct fsn_nest), n->nesting ? FSN_SLOT_CNT : 1, OWNER)  \
	X(PATHS, paths, MAPPED(unsigned long long), n->paths, READERS)                 \
	X(PATH_STATS, path_stats, MAPPED(struct fsn_path), n->path_shards * n->paths, READERS) \
	X(BASE_PATHS0, base_paths0, ARRAY(struct fsn_path), n->paths, READERS)         \
	X(BASE_PATHS1, base_paths1, ARRAY(struct fsn_path), n->paths, READERS)         \
	X(ARGS, args, ARRAY(struct fsn_args), FSN_SLOT_CNT, OWNER)                     \
	X(MORE, more, ARRAY(struct fsn_more), n->has_more ? FSN_SLOT_CNT : 1, OWNER)   \
	X(STREAMS, streams, MAPPED(struct fsn_stream), FSN_STREAMS_MAX, OWNER)         \
	X(PROCS, procs, MAPPED(struct fsn_proc), n->procs + 2 * n->funcs, READERS)     \
	X(KEYED_BY, keyed_by, ARRAY(struct fsn_keyed), n->rows ? n->funcs : 1, READERS) \
	X(KEYS, keys, MAPPED(struct fsn_key), n->rows, OWNER)                          \
	X(ROWS, rows, MAPPED(struct fsn_row), n->rows ? n->rows + 3 * n->funcs : 1, READERS) \
	X(BASE_ROWS0, base_rows0, MAPPED(struct fsn_row), n->rows ? n->rows + n->funcs : 1, READERS) \
	X(BASE_ROWS1, base_rows1, MAPPED(struct fsn_row), n->rows ? n->rows + n->funcs : 1, READERS) \
	X(CODES, codes, HASH(struct fsn_code, unsigned long long), FSN_CODE_CNT, READERS) \
	X(SLOW, slow, ARRAY(struct fsn_slow), FSN_SLOW_CNT, OWNER)                     \
	X(PIDS, pids, HASH(unsigned int, unsigned int),                                \
		n->children ? FSN_CHILD_PIDS_MAX : FSN_PIDS_MAX, OWNER)                \
	X(COMMS, comms, HASH(struct fsn_comm, unsigned int), FSN_COMMS_MAX, OWNER)     \
	X(UIDS, uids, HASH(unsigned int, unsigned int), FSN_UIDS_MAX, OWNER)           \
	X(TIDS, tids, HASH(unsigned int, unsigned int), FSN_TIDS_MAX, OWNER)           \
	X(CONDS, conds, ARRAY(struct fsn_cond), 2 * n->funcs, OWNER)                   \
	X(HOLDS, holds, HASH(unsigned int, struct fsn_hold),                           \
		n->holds ? FSN_HOLDS_MAX : 1, OWNER)                                   \
	X(SAID, said, ARRAY(struct fsn_said), 1, OWNER)

/* Those that the programs define otherwise; the switches are .bss. */
#define FSN_MAPS_OTHER(X)                                    \
	X(CTL, ctl, ARRAY(struct fsn_ctl), 1, READERS)       \
	X(RINGS, rings, OUTER, FSN_STREAMS_MAX, OWNER)       \
	X(SYNC, sync, OUTER, 1, OWNER)

#endif
