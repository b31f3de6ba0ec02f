/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings, switches and maps of a group. */
#ifndef FUNCSNOOP_MAPS_BPF_H
#define FUNCSNOOP_MAPS_BPF_H

#include "core.bpf.h"
#include "shared/layout.h"

/* Settings, fixed when the group is attached: what is off costs nothing. */
const volatile __u32 fsn_fn_cnt = 1;
const volatile __u32 fsn_timed_cnt = 1;
const volatile __u32 fsn_stat_mask = 0; /* shards - 1; a power of two */
const volatile __u32 fsn_hist_mask = 0;
const volatile __u32 fsn_proc_mask = 0; /* records - 1; a power of two */
const volatile bool fsn_processes = true;
const volatile bool fsn_has_more = false; /* some function has arguments for fsn_more */
const volatile __u32 fsn_sample = 0;      /* follow one call of so many; 0: all */

struct fsn_ctl ctl;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_stat);
} fsn_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_hist);
} fsn_hists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_conf);
} fsn_confs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FSN_SET_CNT);
	__type(key, __u32);
	__type(value, struct fsn_set);
} fsn_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_held);
} fsn_held SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FSN_SLOT_CNT);
	__type(key, __u32);
	__type(value, struct fsn_args);
} fsn_args SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_more);
} fsn_more SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FSN_STREAMS_MAX);
	__type(key, __u32);
	__type(value, struct fsn_stream);
} fsn_streams SEC(".maps");

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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_proc);
} fsn_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FSN_CODE_CNT);
	__type(key, struct fsn_code);
	__type(value, __u64);
} fsn_codes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FSN_SLOW_CNT);
	__type(key, __u32);
	__type(value, struct fsn_slow);
} fsn_slow SEC(".maps");

/* --- kept for the command; no program reads them ------------------------------------------ */

#define BASE_MAP(name, type_)                     \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(max_entries, 1);           \
		__type(key, __u32);               \
		__type(value, struct type_);      \
	} name SEC(".maps")

BASE_MAP(fsn_base0, fsn_base);
BASE_MAP(fsn_base1, fsn_base);
BASE_MAP(fsn_base_hist0, fsn_hist);
BASE_MAP(fsn_base_hist1, fsn_hist);
BASE_MAP(fsn_meta, fsn_meta);
BASE_MAP(fsn_libs, fsn_lib);
BASE_MAP(fsn_funcs, fsn_func);

struct fsn_text {
	char text[FSN_TEXT_LEN];
};
BASE_MAP(fsn_text, fsn_text);

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

#endif
