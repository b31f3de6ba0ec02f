/* SPDX-License-Identifier: GPL-2.0-only */
/* Counters, buckets and extremes of a function; its failures, by their codes. */
#ifndef FUNCSNOOP_COUNTERS_BPF_H
#define FUNCSNOOP_COUNTERS_BPF_H

#include "maps.bpf.h"

#define READ(x)       (*(volatile __typeof__(x) *)&(x))
#define add(p, n)     ((void)__sync_fetch_and_add((p), (n)))
#define swap(p, o, n) (__sync_val_compare_and_swap((p), (o), (n)) == (o))

/* Programs stay on their CPU while they run; its number only chooses among shards. */
static __always_inline struct fsn_stat *stat_of(__u32 fn, __u32 cpu)
{
	__u32 i = (cpu & fsn_stat_mask) * fsn_fn_cnt + fn;

	return bpf_map_lookup_elem(&fsn_stats, &i);
}

static __always_inline __u32 log2_u64(__u64 v)
{
	__u32 r = 0;

	if (v >> 32) {
		v >>= 32;
		r = 32;
	}
	if (v >> 16) {
		v >>= 16;
		r += 16;
	}
	if (v >> 8) {
		v >>= 8;
		r += 8;
	}
	if (v >> 4) {
		v >>= 4;
		r += 4;
	}
	if (v >> 2) {
		v >>= 2;
		r += 2;
	}
	return r + (v >> 1);
}

static __always_inline int count_bucket(__u32 row, __u64 ns, __u32 cpu)
{
	__u32 i = (cpu & fsn_hist_mask) * fsn_timed_cnt + row;
	struct fsn_hist *hist = bpf_map_lookup_elem(&fsn_hists, &i);
	__u32 bucket = ns, octave;

	if (!hist)
		return 0;
	if (ns >= FSN_HIST_STEPS) {
		octave = log2_u64(ns) - FSN_HIST_STEP_BITS;
		bucket = octave * FSN_HIST_STEPS + (ns >> octave);
	}
	if (bucket < FSN_HIST_CNT)
		add(&hist->bucket[bucket], 1);
	return 0;
}

/*
 * Raises a word; the loop ends when the word is as high. Each failed exchange means that
 * another CPU has raised it: 64 times during one call's end is out of reach, and a bound
 * is what the verifier needs. Not static, so that it is verified once, on its own.
 */
__noinline int raise_word(unsigned long long *word, __u64 value)
{
	__u64 seen, was;

	if (!word)
		return 0;
	seen = READ(*word);
	for (int i = 0; i < 64 && seen < value; i++) {
		was = __sync_val_compare_and_swap(word, seen, value);
		if (was == seen)
			break;
		seen = was;
	}
	return 0;
}

static __always_inline void raise(unsigned long long *word, __u64 value)
{
	if (READ(*word) < value)
		raise_word(word, value);
}

static __always_inline void raise_extremes(struct fsn_stat *stat, __u64 ns)
{
	__u64 epoch = READ(ctl.epoch), tag = epoch << FSN_NS_BITS;

	if (epoch & 1) {
		raise(&stat->max[1], tag | ns);
		raise(&stat->min[1], tag | (FSN_NS_MASK - ns));
	} else {
		raise(&stat->max[0], tag | ns);
		raise(&stat->min[0], tag | (FSN_NS_MASK - ns));
	}
}

__noinline int count_code(__u32 fn, __s64 code)
{
	struct fsn_code key = { .fn = fn, .epoch = READ(ctl.epoch), .code = code };
	__u64 none = 0, *count = bpf_map_lookup_elem(&fsn_codes, &key);

	if (!count) {
		bpf_map_update_elem(&fsn_codes, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&fsn_codes, &key);
	}
	if (count)
		add(count, 1);
	else
		add(&ctl.lost_codes, 1);
	return 0;
}

/* Whether a call that returned @result failed; then it is counted by its code. */
__noinline int judge(__u32 fn, __u64 result)
{
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	__u32 unused;
	__s64 code;

	if (!conf)
		return 0;
	unused = (64 - conf->width) & 63;
	code = (__s64)(result << unused) >> unused;
	if ((conf->judge == FSN_JUDGE_NONZERO && !code) ||
		(conf->judge == FSN_JUDGE_NEGATIVE && code >= 0) ||
		(conf->judge == FSN_JUDGE_NULL && code))
		return 0;
#pragma unroll
	for (int i = 0; i < FSN_OK_CODES; i++)
		if (i < conf->ok_cnt && code == conf->ok[i])
			return 0;
	count_code(fn, code);
	return 1;
}

#endif
