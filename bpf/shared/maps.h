/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The pinned maps and the values that only commands use. The values that the BPF programs
 * use are in layout.h.
 */
#pragma once

#include "gpu.h"
#include "layout.h"
#include "python.h"

/* --- description of the group ------------------------------------------------------- */

/* Readable only by the owner. Strings end with a zero byte and are truncated to fit. */
#define FSN_COND_LEN 512
struct fsn_said {
	char condition[FSN_COND_LEN]; /* --if, or "" */
	char cpus[512];             /* --cpu, each followed by a blank */
	char cgroups[2048];         /* --cgroup, each followed by a newline */
	/* the command line, each word followed by a zero byte */
	char argv[4096];
};

#define FSN_MAPS_MAX 96
#define FSN_NAME_LEN 33
#define FSN_TEXT_LEN 4096 /* a piece of fsn_text; offsets count through all pieces */

struct fsn_meta {
	unsigned int layout;            /* stays first in every layout */
	unsigned int links;             /* mask of enum link_mode (lib/kernel/kernel.h) */
	unsigned long long attached_ns; /* CLOCK_REALTIME */
	unsigned int fn_cnt, timed_cnt, lib_cnt;
	unsigned int stat_shards, hist_shards, path_shards;
	unsigned int path_cnt; /* number of paths, with the last one */
	unsigned int type_cnt, name_cnt, text_bytes;
	unsigned int sample;  /* 0 or 1: every call is timed */
	unsigned int options; /* FSN_OPT_... */
	unsigned int uid, pid; /* of the attaching command */
	unsigned int row_cnt; /* rows of keys; 0: there are none */
	unsigned int key_cnt, sum_cnt;
	/* maximum number of stacks; 0: no stacks are recorded */
	unsigned int stack_cnt;
	unsigned int stacks_of;     /* N: record the stack of one of N calls; 0: all */
	unsigned int key_wide;      /* a key has FSN_KEY_WIDE words, not one */
	/* 1 + number of the key that is the caller; 0: none */
	unsigned int key_caller;
	unsigned int key_lock;      /* the same for the lock */
	unsigned int key_kernel;    /* the same for the GPU kernel launched */
	unsigned int key_cgroup;    /* the same for the cgroup */
	unsigned int key_stack;     /* the same for the stack */
	unsigned int key[FSN_KEYS]; /* their names, in fsn_text */
	unsigned int sum[FSN_SUMS];
	char name[FSN_NAME_LEN + 3];
	char version[20]; /* of the command that attached */
	struct price price; /* measured overhead on this machine */
	/* The limit of the overhead, as a share of a CPU; 0: no limit. */
	unsigned int budget; /* FSN_SHARE_ALL: all of it */
	unsigned int sampled_cpus; /* CPUs whose activity is sampled; 0: no sampling */
	/* offset in the text: functions skipped to keep the limit, five lines each */
	unsigned int left_out;
	/* sets of allocations, a power of two; 0: allocations are not tracked */
	unsigned int block_sets;
	unsigned int duty; /* N: record GPU activity in one of N seconds; 0, 1: always */
	/* how long entries were counted to estimate the overhead */
	unsigned long long tried_ns;
	unsigned long long tried_cost_ns; /* that estimate, per second of tracing */
	unsigned long long memory_bytes; /* of all maps that do not grow */
	/* hash of the request and its matches: attach_definition() */
	unsigned long long definition;
	/* The kernel's number of each pinned map (enum map_id): a pin can be replaced. */
	unsigned int map_id[FSN_MAPS_MAX];
};

#define FSN_SHARE_ALL 1000000U

#define FSN_OPT_PROCESSES 1U
#define FSN_OPT_LINK_PID \
	2U /* other processes have no breakpoints: --pid stays as it is */
#define FSN_OPT_RAW     4U /* times include the overhead of probes */
#define FSN_OPT_NESTING 8U /* calls have parents */
/* it does not count: it stops processes that have loaded libraries */
#define FSN_OPT_HOLDS   16U
#define FSN_OPT_SPLIT   64U /* times are split: on CPU, runnable, blocked */
#define FSN_OPT_KEPT    32U /* removed when the attaching command exits */

struct fsn_lib {
	unsigned long long dev, ino, size, mtime_ns;
	unsigned int path, build_id; /* offsets in fsn_text */
	unsigned int soname;         /* the same; 0: none */
	unsigned int pad;
};

#define FSN_LABEL_LEN 64

/* Strings are offsets in fsn_text; offset 0 is the empty string. */
struct fsn_func {
	char label[FSN_LABEL_LEN]; /* its name, truncated, for dumps of this map */
	unsigned long long offset, site_offset;
	unsigned long long calls_per_s; /* before its probes were removed */
	unsigned int lib;
	unsigned int exit; /* enum fsn_exit */
	unsigned int name, symbol, demangled;
	unsigned int insn, site_why, exit_why;
	unsigned int ret;  /* 1 + its result in fsn_types; 0: not declared */
	unsigned int args; /* 1 + its first argument there, .arg_cnt of them; 0: not declared */
	unsigned int arg_cnt;
	unsigned int aliases; /* its other names, each followed by a newline */
	unsigned int jumps;   /* untracked probed tail calls */
	unsigned char kind;      /* enum target_number (lib/target/kind.h) */
	unsigned char site, end; /* indices of struct price */
	unsigned char limit;     /* enum limit */
	unsigned int types_why;  /* where its types are from, or why they are not known */
	unsigned char variadic;  /* more may follow its arguments */
	unsigned char exact;     /* its probes are never removed for their overhead */
	unsigned char undercounted; /* its count may be too low */
	unsigned char pad;
};

#define FSN_TYPE_LABEL_LEN 40

/* Type of a result or an argument. */
struct fsn_type {
	/* its declaration, truncated, for dumps of this map */
	char label[FSN_TYPE_LABEL_LEN];
	enum type_kind kind;
	unsigned int size; /* bytes; 0 for void */
	enum type_place place;
	unsigned int index, words;
	unsigned char is_signed;
	unsigned char by_ref;      /* the word is a pointer to the structure */
	unsigned char member_size; /* of a structure of unsigned integers of one size */
	unsigned char pad;
	unsigned int text, name;      /* offsets in fsn_text: its declaration, the argument's name */
	/* names of its values in fsn_names, sorted by value */
	unsigned int names, name_cnt;
};

/* Name of a value of a type. */
struct fsn_name {
	long long value;
	char label[FSN_TYPE_LABEL_LEN]; /* truncated, for dumps of this map */
	unsigned int name;              /* offset in fsn_text */
	unsigned int pad;
};

struct fsn_text {
	char text[FSN_TEXT_LEN];
};

/* --- list of maps ------------------------------------------------------------------- */

/*
 * All pinned maps: X(ID, name, shape, entries, readers). The BPF programs call a map
 * fsn_NAME. The shape is one of:
 *	ARRAY(value)
 *	MAPPED(value)		an array that can be mapped
 *	TEXTS(value)		an array whose values are FSN_STR_SPARED shorter unless n->wide
 *	SPARSE(value)		an array that only commands use; zeros need no memory
 *	HASH(key, value)
 *	OUTER			an array of maps
 * The number of entries may depend on the group: n is its struct map_sizes.
 *
 * READERS are the users whom attach --mode grants read access. Their maps contain no
 * arguments, results or addresses, and nothing that only a writer needs. The other maps
 * are for the OWNER.
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
	X(BASE0, base0, SPARSE(struct fsn_base), n->funcs, READERS)                     \
	X(BASE1, base1, SPARSE(struct fsn_base), n->funcs, READERS)                     \
	X(BASE_HIST0, base_hist0, SPARSE(struct fsn_hist), n->timed, READERS)           \
	X(BASE_HIST1, base_hist1, SPARSE(struct fsn_hist), n->timed, READERS)           \
	X(SLOTS, slots, MAPPED(struct fsn_set), n->slots / FSN_WAYS, OWNER)                    \
	X(HELD, held, MAPPED(struct fsn_held), 1, OWNER)                               \
	X(NESTS, nests, ARRAY(struct fsn_nest), \
		n->nesting ? n->slots + FSN_THREADS / FSN_THREADS_EACH : 1, OWNER)    \
	X(PLACES, places, MAPPED(struct fsn_place), n->places, OWNER)                  \
	X(SPLITS, splits, ARRAY(struct fsn_split), n->split ? n->slots : 1, OWNER) \
	X(PATHS, paths, MAPPED(unsigned long long), n->paths, READERS)                 \
	X(PATH_STATS, path_stats, MAPPED(struct fsn_path), n->path_shards * n->paths, READERS) \
	X(BASE_PATHS0, base_paths0, ARRAY(struct fsn_path), n->paths, READERS)         \
	X(BASE_PATHS1, base_paths1, ARRAY(struct fsn_path), n->paths, READERS)         \
	X(ARGS, args, ARRAY(struct fsn_args), n->slots, OWNER)                     \
	X(MORE, more, TEXTS(struct fsn_more), n->has_more ? n->slots : 1, OWNER)   \
	X(STREAMS, streams, MAPPED(struct fsn_stream), FSN_STREAMS_MAX, OWNER)         \
	X(PROCS, procs, MAPPED(struct fsn_proc), n->procs + 2 * n->funcs, READERS)     \
	X(KEYED_BY, keyed_by, ARRAY(struct fsn_keyed), n->rows ? n->funcs : 1, READERS) \
	X(KEYS, keys, MAPPED(struct fsn_key), n->rows, OWNER)                          \
	X(CALLERS, callers, SPARSE(struct fsn_caller), n->callers ? n->rows : 1, OWNER) \
	X(CALLED, called, ARRAY(struct fsn_called), n->callers ? n->rows : 1, OWNER)   \
	X(FILE_NAMES, file_names, HASH(struct fsn_file_id, struct fsn_file_name),      \
		n->callers || n->stacks ? FSN_NAMED_FILES : FSN_CRASH_FILES, OWNER)                               \
	X(LAUNCHES, launches, ARRAY(struct fsn_launch), n->launches ? n->rows : 1, OWNER) \
	X(KERNELS, kernels, SPARSE(struct fsn_kernel), n->launches ? n->rows : 1, OWNER) \
	X(HANDLES, handles, HASH(struct fsn_handle, struct fsn_handle_of),             \
		n->launches ? FSN_HANDLES : 1, OWNER)                                  \
	X(GPUS, gpus, HASH(unsigned int, struct fsn_gpu), n->gpus ? FSN_GPUS : 1, READERS) \
	X(SLOT_ROWS, slot_rows, ARRAY(unsigned int), n->rows ? n->slots : 1, OWNER) \
	X(ROWS, rows, MAPPED(struct fsn_row), n->rows ? n->rows + 3 * n->funcs : 1, READERS) \
	X(BASE_ROWS0, base_rows0, SPARSE(struct fsn_row), n->rows ? n->rows + n->funcs : 1, READERS) \
	X(BASE_ROWS1, base_rows1, SPARSE(struct fsn_row), n->rows ? n->rows + n->funcs : 1, READERS) \
	X(RULES_OF, rules_of, ARRAY(struct fsn_rule), n->block_sets ? n->funcs : 1, READERS) \
	X(MEMORY, memory, MAPPED(struct fsn_memory), n->block_sets ? n->funcs : 1, READERS) \
	X(BASE_MEMORY0, base_memory0, SPARSE(struct fsn_memory),                        \
		n->block_sets ? n->funcs : 1, READERS)                                 \
	X(BASE_MEMORY1, base_memory1, SPARSE(struct fsn_memory),                        \
		n->block_sets ? n->funcs : 1, READERS)                                 \
	X(BLOCKS, blocks, MAPPED(struct fsn_block_set), n->block_sets, OWNER)          \
	X(STACKS, stacks, MAPPED(struct fsn_stack), n->stacks, OWNER)                  \
	X(FRAMES, frames, MAPPED(struct fsn_frames), n->stacks * FSN_STACK_PIECES, OWNER) \
	X(STACK_FILES, stack_files, ARRAY(struct fsn_stack_file),                      \
		n->stacks ? FSN_FILES_MAX : 1, OWNER)                                  \
	X(FILE_OF, file_of, HASH(struct fsn_file_id, struct fsn_file_ref),             \
		n->stacks ? FSN_FILES_MAX : 1, OWNER)                                  \
	X(PYTHONS, pythons, HASH(unsigned int, struct fsn_python),                     \
		n->pythons ? FSN_PYTHONS : 1, OWNER)                                   \
	X(PYTHON_CODES, python_codes, MAPPED(struct fsn_python_code),                  \
		n->pythons ? FSN_PYTHON_CODES : 1, OWNER)                              \
	X(PYTHON_LINES, python_lines, MAPPED(struct fsn_python_lines),                 \
		n->pythons ? FSN_PYTHON_PIECES : 1, OWNER)                             \
	X(CODES, codes, HASH(struct fsn_code, unsigned long long),                     \
		n->judged ? FSN_CODE_CNT : 1, READERS)                                  \
	X(SLEEPS, sleeps, HASH(struct fsn_sleep_at, struct fsn_slept),                 \
		n->sleeps ? FSN_SLEEP_CNT : 1, OWNER)                                  \
	X(SPREADS, spreads, HASH(struct fsn_spread_at, unsigned long long),            \
		n->gpus ? FSN_SPREADS : 1, READERS)                                    \
	X(SLOW, slow, ARRAY(struct fsn_slow), FSN_SLOW_CNT, OWNER)                     \
	X(PIDS, pids, HASH(unsigned int, unsigned int),                                \
		n->children ? FSN_CHILD_PIDS_MAX : FSN_PIDS_MAX, OWNER)                \
	X(COMMS, comms, HASH(struct fsn_comm, unsigned int), FSN_COMMS_MAX, OWNER)     \
	X(UIDS, uids, HASH(unsigned int, unsigned int), FSN_UIDS_MAX, OWNER)           \
	X(TIDS, tids, HASH(unsigned int, unsigned int), FSN_TIDS_MAX, OWNER)           \
	X(CONDS, conds, ARRAY(struct fsn_cond), 2 * n->funcs, OWNER)                   \
	X(HOLDS, holds, HASH(unsigned int, struct fsn_hold),                           \
		n->holds ? FSN_HOLDS_MAX : 1, OWNER)                                   \
	X(STOPS, stops, HASH(unsigned int, struct fsn_stop),                           \
		n->pauses ? FSN_HOLDS_MAX : 1, OWNER)                                  \
	X(PAUSES, pauses, ARRAY(unsigned long long), n->pauses ? n->slots : 1, OWNER) \
	X(CRASHES, crashes, ARRAY(struct fsn_crash), FSN_CRASHES, OWNER)                   \
	X(CRASH_MORE, crash_more, TEXTS(struct fsn_more),                              \
		n->has_more ? FSN_CRASHES * FSN_CRASH_CALLS : 1, OWNER)                \
	X(SAID, said, ARRAY(struct fsn_said), 1, OWNER)

/* Maps with another definition in the BPF programs; ctl is their .bss. */
#define FSN_MAPS_OTHER(X)                                    \
	X(CTL, ctl, ARRAY(struct fsn_ctl), 1, READERS)       \
	X(RINGS, rings, OUTER, FSN_STREAMS_MAX, OWNER)       \
	X(SYNC, sync, OUTER, 1, OWNER)                       \
	X(TABLES, tables, OUTER, n->stacks ? FSN_FILES_MAX : 1, OWNER) \
	X(WORKS, works, ARRAY(struct fsn_work), n->cold ? FSN_COLD : 1, OWNER)
