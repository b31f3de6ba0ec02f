/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings, switches and maps of a group. */
#ifndef FUNCSNOOP_MAPS_BPF_H
#define FUNCSNOOP_MAPS_BPF_H

#include "core.bpf.h"
#include "shared/maps.h"

/* Settings, fixed when the group is attached: what is off costs nothing. */
const volatile __u32 fsn_fn_cnt = 1;
const volatile __u32 fsn_timed_cnt = 1;
const volatile __u32 fsn_stat_mask = 0; /* shards - 1; a power of two */
const volatile __u32 fsn_hist_mask = 0;
const volatile __u32 fsn_proc_mask = 0; /* records - 1; a power of two */
const volatile __u32 fsn_path_mask = 0; /* places - 1, without the last; a power of two */
const volatile __u32 fsn_path_shards = 0; /* shards - 1; a power of two */
const volatile bool fsn_processes = true;
const volatile bool fsn_has_more = false; /* some function has arguments for fsn_more */
const volatile bool fsn_wide = false;     /* text has FSN_STR_WIDE bytes */
const volatile __u32 fsn_sample = 0;      /* one call of each N is timed; 0: all */
const volatile __u64 fsn_seed = 0;        /* random: which call of each N that is */
const volatile __u32 fsn_runs_bits = FSN_RUNS_BITS; /* run time is measured of one hit of 1 << N */
const volatile bool fsn_samples = false;  /* of some functions: as fsn_confs says */
const volatile bool fsn_follows = false; /* some jump is followed */
const volatile bool fsn_split = false;   /* where times went is known */
const volatile bool fsn_may_pause = false; /* who makes calls may be held; hold.bpf.h */
const volatile bool fsn_thread_stacks = false; /* stacks are what threads do, not who makes calls */
const volatile bool fsn_user_stacks = false;   /* stacks begin where the thread went into the kernel */
const volatile bool fsn_waits = false;   /* calls are waits of threads, others than that which runs */
/* Time of a probe that is hit and measures nothing: on an emulated and a single-stepped instruction. */
const volatile __u32 fsn_hit_ns = 0, fsn_step_ns = 0;

struct fsn_ctl ctl;

/* Sized when a group is made, by the same table. */
#define ARRAY(value_)                      \
	__uint(type, BPF_MAP_TYPE_ARRAY);  \
	__type(key, __u32);                \
	__type(value, value_)
#define MAPPED(value_)                       \
	__uint(map_flags, BPF_F_MMAPABLE);   \
	ARRAY(value_)
/* Without a type: the kernel wants one to be as long as the value. */
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

/* Of a group in which some jump is followed; no command reads them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_mark);
} fsn_marks SEC(".maps");

/* Calls that a new link has counted and that the old one is about to see: call.bpf.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FSN_MARKS);
	__type(key, __u32);
	__type(value, __u64);
} fsn_counted SEC(".maps");

/* What is kept of a wait beside its slot, in a group that has such; no command reads it. */
struct wait {
	__u64 start, named, cgroup; /* of its process: when it began, and where its name lies */
	__u32 tgid, tid;            /* who waits */
	__u32 instead_tid, waker_tid;
	__u32 stack, pad;
	char comm[FSN_COMM_LEN];
	char instead[FSN_COMM_LEN]; /* who runs instead, */
	char waker[FSN_COMM_LEN];   /* and who has ended the sleep, or "" */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait);
} fsn_wait SEC(".maps");

/* Rings of any size may take a place: bpf_map_meta_equal() doesn't compare it. */
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

/* How stacks are followed: of each file its rows, behind their number; bpf/unwind.bpf.h. */
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

/* An update of a map of maps returns when every program that ran before has ended
 * (maybe_wait_bpf_programs, kernel/bpf/syscall.c): what a reset waits with. */
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
 * Samples: one of each @n calls, at a place that a hash of the block of calls and of @salt chooses.
 * So exactly one of @n is taken, and a program that calls in a rhythm of @n is sampled fairly.
 */
static __always_inline bool is_sampled(__u64 nth, __u32 n, __u64 salt)
{
	__u64 x = (nth / n + 1) * 0x9e3779b97f4a7c15ULL ^ (fsn_seed + salt * 0xc2b2ae3d27d4eb4fULL);

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return nth % n == (x >> 32) * n >> 32;
}

#endif
