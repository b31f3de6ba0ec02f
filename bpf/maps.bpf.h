/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings, switches and maps of a group. */
#pragma once

#include "core.bpf.h"
#include "shared/maps.h"

/*
 * Settings, constant after the attach: the verifier removes the code of disabled
 * features.
 */
const volatile __u32 fsn_fn_cnt = 1;
const volatile __u32 fsn_timed_cnt = 1;
const volatile __u32 fsn_stat_mask = 0; /* shards - 1; a power of two */
const volatile __u32 fsn_hist_mask = 0;
const volatile __u32 fsn_proc_mask = 0; /* records - 1; a power of two */
/* number of paths - 1, without the last; a power of two */
const volatile __u32 fsn_path_mask = 0;
const volatile __u32 fsn_path_shards = 0; /* shards - 1; a power of two */
const volatile bool fsn_processes = true;
const volatile bool fsn_has_more = false; /* some function has arguments in fsn_more */
const volatile bool fsn_keeps_regs = false; /* all calls have arguments in fsn_args, for fsn_crashes */
const volatile bool fsn_wide = false;     /* text has FSN_STR_WIDE bytes */
const volatile __u32 fsn_sample = 0;      /* N: one of N calls is timed; 0: all */
const volatile __u64 fsn_seed = 0;        /* random: chooses the one of N calls */
/* the run time of one hit of 1 << N is measured */
const volatile __u32 fsn_runs_bits = FSN_RUNS_BITS;
/* some functions have their own N, in fsn_confs */
const volatile bool fsn_samples = false;
const volatile bool fsn_follows = false; /* some tail call is tracked */
const volatile bool fsn_goroutines = false; /* some calls are matched by goroutine */
const volatile bool fsn_split = false;   /* times are split: on CPU, runnable, blocked */
const volatile bool fsn_may_pause = false; /* callers may be stopped; hold.bpf.h */
/* stacks are those of the thread, not of a call */
const volatile bool fsn_thread_stacks = false;
/* stacks start at the thread's entry to the kernel */
const volatile bool fsn_user_stacks = false;
/* calls are waits, of threads that are not the current one */
const volatile bool fsn_waits = false;
/* 1 + number of the functions whose calls are these waits; 0: not traced */
const volatile __u32 fsn_off_cpu = 0;
const volatile __u32 fsn_run_queue = 0;
/*
 * Overhead of a probe that is hit and measures nothing: on an emulated and on a
 * single-stepped instruction.
 */
const volatile __u32 fsn_hit_ns = 0, fsn_step_ns = 0;

struct fsn_ctl ctl;

/* The attaching command sets their sizes from the same table. */
#define ARRAY(value_)                      \
	__uint(type, BPF_MAP_TYPE_ARRAY);  \
	__type(key, __u32);                \
	__type(value, value_)
#define MAPPED(value_)                       \
	__uint(map_flags, BPF_F_MMAPABLE);   \
	ARRAY(value_)
/* Without a value type, because the kernel requires its size to match that of the value. */
#define TEXTS(value_)                       \
	__uint(type, BPF_MAP_TYPE_ARRAY);   \
	__uint(key_size, sizeof(__u32));    \
	__uint(value_size, sizeof(value_))
#define SPARSE(value_)                       \
	__uint(type, BPF_MAP_TYPE_HASH);     \
	__uint(map_flags, BPF_F_NO_PREALLOC); \
	__type(key, __u32);                  \
	__type(value, value_)
#define HASH(key_, value_)                \
	__uint(type, BPF_MAP_TYPE_HASH);  \
	__type(key, key_);                \
	__type(value, value_)
#define X(id, name, shape, entries, readers) \
	struct {                             \
		shape;                       \
		__uint(max_entries, 1);      \
	} fsn_##name SEC(".maps");
FSN_MAPS(X)
#undef X
#undef HASH
#undef TEXTS
#undef SPARSE
#undef MAPPED
#undef ARRAY

/* For groups in which some tail call is tracked; no command reads it. */
MAP(fsn_marks, ARRAY, __u32, struct fsn_mark, 1);

/* Hits that a new link has counted and that the old one must skip: call.bpf.h. */
MAP(fsn_counted, ARRAY, __u32, __u64, FSN_MARKS);

/* Data of a wait, by slot, in groups that trace waits; no command reads it. */
struct wait {
	__u64 since; /* by the run queue's clock: wait_clock() */
	/* of its process: start time, and address of its name */
	__u64 start, named, cgroup;
	__u32 tgid, tid;            /* the waiting thread */
	__u32 instead_tid, waker_tid;
	__u32 stack, waker_stack;
	char comm[FSN_COMM_LEN];
	char instead[FSN_COMM_LEN]; /* the thread that got its CPU */
	char waker[FSN_COMM_LEN];   /* the thread that woke it, or "" */
};

MAP(fsn_wait, ARRAY, __u32, struct wait, 1);

/* Rings of any size may be inserted: bpf_map_meta_equal() ignores their size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, FSN_STREAMS_MAX);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_RINGBUF);
			__uint(max_entries,
				65536); /* whole pages of every architecture */
		});
} fsn_rings SEC(".maps");

/* Unwind tables by the number of their file; bpf/unwind.bpf.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(map_flags, FSN_TABLE_FLAGS);
			__uint(max_entries, 1);
			__type(key, __u32);
			__type(value, __u64); /* struct fsn_unwind_row */
		});
} fsn_tables SEC(".maps");

/*
 * An update of a map of maps returns only after all BPF programs that were running have
 * finished (maybe_wait_bpf_programs, kernel/bpf/syscall.c). A reset uses this to wait for
 * them.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, 1);
			__type(key, __u32);
			__type(value, __u32);
		});
} fsn_sync SEC(".maps");

/*
 * What was found before: structs of four words, of which the first identifies it. One map, because a
 * program can have no more than 64. No command reads it.
 */
struct seen {
	__u64 word[4];
};

MAP(fsn_seen, ARRAY, __u32, struct seen, 1);

static __always_inline void *seen_at(__u32 kind, __u64 hash)
{
	__u32 i = kind * FSN_SEEN + (hash >> 40 & (FSN_SEEN - 1));

	return bpf_map_lookup_elem(&fsn_seen, &i);
}

/*
 * Sampling: a hash of the block of @n calls and of @salt chooses one call in each block.
 * So exactly one of @n is sampled, and the sample is fair for a program with a period of
 * @n calls.
 */
static __always_inline bool is_sampled(__u64 nth, __u32 n, __u64 salt)
{
	__u64 x = (nth / n + 1) * 0x9e3779b97f4a7c15ULL ^ (fsn_seed + salt * 0xc2b2ae3d27d4eb4fULL);

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return nth % n == (x >> 32) * n >> 32;
}
