/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics by what a call was about: rows of {function, process, key}, the key being of
 * arguments, text, or where and by whom the call was made.
 *
 * A row is found at the entry, and its number kept beside the slot, so that the end adds to
 * it without looking for it. It stays what it is over resets, which remember what it had: so
 * an end finds the row of its entry, whatever came in between. What finds no room, or whose
 * row is gone, is in the function's row of others.
 *
 * Recursion, longjmp and exceptions are what they are for slots: a call that never ends has
 * been counted in its row, and no more.
 */
#ifndef FUNCSNOOP_ROWS_BPF_H
#define FUNCSNOOP_ROWS_BPF_H

#include "keys.bpf.h"
#include "nest.bpf.h"

const volatile __u32 fsn_row_cnt = 1; /* behind them the others of each function */

/* What a call is about whose result is a part of it: by slot, until that is known. */
struct slot_key {
	struct fsn_key key;
	__u64 sum[FSN_SUMS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot_key);
} fsn_slot_keys SEC(".maps");

static __always_inline struct fsn_row *row_at(__u32 i)
{
	return bpf_map_lookup_elem(&fsn_rows, &i);
}

#define ROW_NEW  (1U << 31)
#define ROW_LOST (FSN_NO_ROW - 2) /* what was free is another's */

#define KEY_WORDS (FSN_KEYS * FSN_KEY_WIDE)

/* How many of a key's words count is fixed when the group is attached. */
static __always_inline bool word_counts(__u32 i)
{
	return i < fsn_key_cnt * (fsn_key_wide ? FSN_KEY_WIDE : 1);
}

static __always_inline __u64 key_hash(const struct fsn_key *key, __u64 tag, __u64 start)
{
	__u64 hash = (tag ^ start) * 0x9e3779b97f4a7c15ULL;

#pragma unroll
	for (__u32 i = 0; i < KEY_WORDS; i++)
		if (word_counts(i))
			hash = ((hash ^ hash >> 32) ^ key->word[i]) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static __always_inline bool key_is(__u32 i, const struct fsn_key *key)
{
	const struct fsn_key *has = bpf_map_lookup_elem(&fsn_keys, &i);
	__u64 other = 0;

	if (!has)
		return false;
#pragma unroll
	for (__u32 n = 0; n < KEY_WORDS; n++)
		if (word_counts(n))
			other |= READ(has->word[n]) ^ key->word[n];
	return !other;
}

/*
 * 1 + the place in fsn_names of the name that @word has, one of @cnt from @first on, which are
 * sorted; or 0. Not static, so that it is verified once, on its own.
 */
__noinline __u32 name_find(__u32 first, __u32 cnt, __u64 word)
{
	struct fsn_name *name;
	__u32 at;

	for (int n = 0; n < 16 && cnt; n++) {
		at = first + cnt / 2;
		name = bpf_map_lookup_elem(&fsn_names, &at);
		if (!name)
			return 0;
		if (name->value == (__s64)word)
			return at + 1;
		if (name->value < (__s64)word) {
			first = at + 1;
			cnt = cnt - cnt / 2 - 1;
		} else {
			cnt = cnt / 2;
		}
	}
	return 0;
}

/*
 * For readers who may not see keys: which of its names a new row @i has, after it is there. It
 * is not done where rows are claimed, for calls can go no deeper there: stacks are 512 bytes.
 */
static __always_inline __u32 row_named(__u32 i, const struct fsn_keyed *keyed,
	const struct fsn_key *key)
{
	struct fsn_row *row;

	if (i == FSN_NO_ROW || !(i & ROW_NEW))
		return i;
	i &= ~ROW_NEW;
	row = row_at(i);
	if (!row)
		return i;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		row->named[n] = keyed->name_cnt[n]
			? name_find(keyed->names[n], keyed->name_cnt[n],
				  key->word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)])
			: 0;
	return i;
}

/* Who launches, of a new row @i that is a kernel's; not known when @ctx is NULL. */
static __always_inline __u32 row_launched(const struct pt_regs *ctx, __u32 i,
	const struct fsn_keyed *keyed, const struct fsn_key *key)
{
	if (!fsn_launched || i == FSN_NO_ROW || !(i & ROW_NEW))
		return i;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (keyed->launches == n + 1)
			launch_keep(ctx, i & ~ROW_NEW,
				key->word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)]);
	return i;
}

/* Where callers' code lies, of a new row @i that has one. */
static __always_inline void row_called(
	__u32 i, const struct fsn_keyed *keyed, const struct fsn_key *key)
{
	if (!fsn_called_known || i == FSN_NO_ROW || !(i & ROW_NEW))
		return;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (n < fsn_key_cnt && keyed->key[n].what == FSN_BY_CALLER)
			called_keep(i & ~ROW_NEW, key->word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)]);
}

/* Claims row @i, which is free, unless somebody else does. */
static __always_inline bool row_claim(
	__u32 i, const struct fsn_key *key, __u64 tag, __u64 start, __u64 comm)
{
	struct fsn_key *to = bpf_map_lookup_elem(&fsn_keys, &i);
	struct fsn_row *row = row_at(i);

	if (!row || !to || !swap(&row->tag, 0, FSN_PROC_LOCKED))
		return false;
	row->start = start;
	row->nth = __sync_fetch_and_add(&ctl.rows, 1) + 1;
	bpf_probe_read_kernel_str(row->comm, sizeof(row->comm), (void *)comm);
#pragma unroll
	for (__u32 n = 0; n < KEY_WORDS; n++)
		if (word_counts(n))
			to->word[n] = key->word[n];
	(void)__sync_lock_test_and_set(&row->tag, tag);
	return true;
}

/*
 * The n-th place of a key. They are all over the table, as neighbours are soon taken; and none
 * follows from the one before, as steps of one width may come round to the same few.
 */
static __always_inline __u32 row_place(__u64 hash, __u32 n)
{
	__u64 at = (hash ^ n * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;

	return (at >> 32) * fsn_row_cnt >> 32;
}

/*
 * The number of the row of @key, with ROW_NEW for row_named(), or of the others; or ROW_LOST. Of
 * process @tgid, which began at @start and whose name lies at @comm. Two CPUs may both claim one
 * for the same key: readers add up.
 */
static __always_inline __u32 row_look(
	const struct fsn_key *key, __u32 fn, __u32 tgid, __u64 start, __u64 comm)
{
	__u64 tag = row_tag(fn, tgid);
	__u32 i, first = FSN_NO_ROW;
	struct fsn_row *row;
	__u64 hash, seen;

	hash = key_hash(key, tag, start);
	for (__u32 n = 0; n < FSN_ROW_PROBES; n++) {
		i = row_place(hash, n);
		row = row_at(i);
		if (!row)
			break;
		seen = READ(row->tag);
		if (seen == tag && READ(row[AFTER(seen, 0)].start) == start &&
			key_is(AFTER(seen, i), key))
			return i;
		if (!seen && first == FSN_NO_ROW)
			first = i;
	}
	if (first == FSN_NO_ROW)
		return fsn_row_cnt + fn;
	return row_claim(first, key, tag, start, comm) ? first | ROW_NEW : ROW_LOST;
}

/* Not static, so that each is verified once, on its own. */
__noinline __u32 row_find_of(
	struct fsn_key *key, __u32 fn, __u32 tgid, __u64 start, __u64 comm)
{
	return key ? row_look(key, fn, tgid, start, comm) : FSN_NO_ROW;
}

/* That of the current process. */
__noinline __u32 row_find(struct fsn_key *key, __u32 fn)
{
	struct task_struct *task = bpf_get_current_task_btf(), *leader = task->group_leader;

	if (!key)
		return FSN_NO_ROW;
	return row_look(key, fn, task->tgid, leader->start_boottime, as_number(leader->comm));
}

/* Another CPU may come first to what is free, more than once. */
static __always_inline __u32 row_of(struct fsn_key *key, __u32 fn)
{
	__u32 i = row_find(key, fn);

	if (i == ROW_LOST)
		i = row_find(key, fn);
	if (i == ROW_LOST)
		i = row_find(key, fn);
	return i == ROW_LOST ? fsn_row_cnt + fn : i;
}

/*
 * Counts a call of @key in row @i, which row_of() gave: @i becomes its number, or FSN_NO_ROW. What
 * it adds to sum n @value says, which is looked at one by one: there is no stack for all of them.
 */
#define ROW_COUNT(i, keyed, key, value)                                                \
	do {                                                                           \
		struct fsn_row *row_;                                                  \
                                                                                       \
		(i) = row_named(i, keyed, key);                                        \
		row_ = row_at(i);                                                      \
		if (row_)                                                              \
			add(&row_->calls, 1);                                          \
		else                                                                   \
			(i) = FSN_NO_ROW;                                              \
		_Pragma("unroll") for (__u32 n = 0; n < FSN_SUMS; n++)                 \
			if (row_ && n < fsn_sum_cnt && (keyed)->sum[n].what)           \
				add(&row_->sum[n], value);                             \
	} while (0)

/* Counts a call in its row: its number, or FSN_NO_ROW. */
static __noinline __u32 row_count(const struct pt_regs *ctx, __u32 fn, __u64 where)
{
	struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct fsn_key key = {};
	__u32 i;

	if (!keyed || !keyed->on)
		return FSN_NO_ROW;
	if (fsn_launched && fsn_nesting && keyed->launches && launch_is_inner(fn, where))
		return FSN_NO_ROW;
	if (fsn_key_late && keyed->late)
		return FSN_ROW_LATE;
	key_fill(ctx, keyed, &key);
	i = row_of(&key, fn);
	row_called(i, keyed, &key);
	i = row_launched(ctx, i, keyed, &key);
	ROW_COUNT(i, keyed, &key, part_sum(ctx, &keyed->sum[n]));
	return i;
}

/* Keeps what is known of a call at its entry. */
static __noinline int key_keep(const struct pt_regs *ctx, __u32 fn, __u32 slot)
{
	struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct slot_key *kept = bpf_map_lookup_elem(&fsn_slot_keys, &slot);

	if (!keyed || !kept)
		return 0;
	__builtin_memset(&kept->key, 0, sizeof(kept->key));
	key_fill(ctx, keyed, &kept->key);
#pragma unroll
	for (__u32 n = 0; n < FSN_SUMS; n++)
		if (n < fsn_sum_cnt && keyed->sum[n].what)
			kept->sum[n] = part_sum(ctx, &keyed->sum[n]);
	return 0;
}

static __always_inline void row_keep(const struct pt_regs *ctx, __u32 fn, __u32 slot, __u32 i)
{
	__u32 *kept = bpf_map_lookup_elem(&fsn_slot_rows, &slot);

	if (kept)
		*kept = i;
	if (fsn_key_late && !fsn_walks_alone && i == FSN_ROW_LATE)
		key_keep(ctx, fn, slot);
}

static __always_inline void row_raise(struct fsn_row *row, __u64 ns)
{
	__u64 epoch = READ(ctl.epoch), tag = epoch << FSN_NS_BITS;

	if (epoch & 1)
		raise(&row->max[1], tag | ns);
	else
		raise(&row->max[0], tag | ns);
}

/*
 * The number of the row of the call in @slot, now that its result is known: it is counted there
 * as one that has begun. Not static, so that it is verified once, on its own. The slot is locked,
 * and its key is completed where it lies: stacks are 512 bytes for all that call each other.
 */
__noinline __u32 row_count_late(__u32 fn, __u32 slot, __u64 result)
{
	struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct slot_key *kept = bpf_map_lookup_elem(&fsn_slot_keys, &slot);
	__u32 i;

	if (!keyed || !kept)
		return FSN_NO_ROW;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (keyed->key[n].what == FSN_BY_RESULT)
			kept->key.word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)] =
				part_cut(&keyed->key[n], result);
	i = row_launched(NULL, row_of(&kept->key, fn), keyed, &kept->key);
	ROW_COUNT(i, keyed, &kept->key, kept->sum[n]);
	return i;
}

/* Who has made the call in @slot, for end_in_row(). */
static __noinline int key_walked(__u32 fn, __u32 slot, __u32 number)
{
	struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct slot_key *kept = bpf_map_lookup_elem(&fsn_slot_keys, &slot);

	if (!keyed || !kept)
		return 0;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (keyed->key[n].what == FSN_BY_STACK)
			kept->key.word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)] = number;
	return 0;
}

/* What the call in @slot is about, for who remembers it. */
static __noinline int slow_key(struct fsn_slow *slow, __u32 fn, __u32 slot, __u64 result)
{
	struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	__u32 *kept = bpf_map_lookup_elem(&fsn_slot_rows, &slot), i = kept ? *kept : FSN_NO_ROW;
	const struct fsn_key *key = bpf_map_lookup_elem(&fsn_keys, &i);
	struct slot_key *late = bpf_map_lookup_elem(&fsn_slot_keys, &slot);

	slow->keyed = 0;
	if (fsn_key_late && late && i == FSN_ROW_LATE)
		key = &late->key;
	if (!key || !keyed)
		return 0;
	__builtin_memcpy(&slow->key, key, sizeof(slow->key));
	slow->keyed = 1;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (fsn_key_late && keyed->key[n].what == FSN_BY_RESULT)
			slow->key.word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)] =
				part_cut(&keyed->key[n], result);
	return 0;
}

/* A call of @net ns ends; flags in @how. */
static __always_inline void row_ends(struct fsn_row *row, __s64 net, int how)
{
	add(&row->returns, 1);
	add(&row->total_ns, net);
	row_raise(row, net > 0 ? net : 0);
	if (how & FSN_CALL_FAILED)
		add(&row->errors, 1);
	if (how & FSN_CALL_SLOW)
		add(&row->slow, 1);
}

/* The end of the call in @slot, in the row that its entry found, or its result does. */
static __always_inline void end_in_row(__u32 slot, __u32 fn, __u32 tgid, __s64 net, int how,
	__u64 result, const struct fsn_split *split)
{
	__u32 *kept = bpf_map_lookup_elem(&fsn_slot_rows, &slot), i;
	struct fsn_row *row;

	if (!kept)
		return;
	i = *kept;
	if (fsn_walks_alone && i == FSN_ROW_LATE && !how)
		return;
	if (fsn_key_late && i == FSN_ROW_LATE)
		*kept = i = row_count_late(fn, slot, result);
	row = row_at(i);
	/* That of a process which has ended may be another's by now. */
	if (row && i < fsn_row_cnt && READ(row->tag) != row_tag(fn, tgid))
		row = row_at(fsn_row_cnt + fn);
	if (!row)
		return;
	row_ends(row, net, how);
	if (split)
		SPLIT_ADD(*row, split, net);
}

#endif
