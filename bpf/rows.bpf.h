/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics by key: rows of {function, process, key}. The key has arguments, text, or
 * the caller, thread or process.
 *
 * The row is found at the entry, and its number stored by slot, so that the return needs
 * no lookup. A row keeps its identity over resets, which only save its values, so a
 * return always finds the row of its entry. Calls dropped because the table was full, or
 * whose row was evicted, count in the function's row of others.
 *
 * Recursion, longjmp and exceptions are as for slots: a call that never returns is only
 * counted in its row.
 */
#pragma once

#include "shared/gpu.h"
#include "filter.bpf.h"
#include "mapping.bpf.h"
#include "nest.bpf.h"
#include "stacks.bpf.h"

/*
 * Launches of GPU kernels. They are grouped by the word that identifies the kernel: the
 * address of the host function of its name, or a handle. The kernel of a handle is found
 * from the launching code, which is saved by row, or from the call that returned the
 * handle, if that was traced. Commands resolve the names.
 *
 * Launches that functions of a runtime make for each other count once: a launch inside
 * another is recognized by nesting. A call that never returns leaves its flag in its
 * slot, where the next call overwrites it.
 */

const volatile bool fsn_launched = false; /* some key is the GPU kernel launched */
const volatile bool fsn_asked = false;    /* some function returns handles */

/* Calls that may return a handle, by slot. */
struct asked {
	__u64 to, name;
};

MAP(fsn_slot_asked, ARRAY, __u32, struct asked, 1);

/* Initial value of a handle's record, which does not fit on the stack. */
MAP(fsn_no_handle, ARRAY, __u32, struct fsn_handle_of, 1);

/*
 * True if a call of @fn at @where is made in one that launches a kernel: it is the same
 * launch.
 */
__noinline int launch_is_inner(__u32 fn, __u64 where)
{
	__u64 word = nest_top(bpf_get_current_task_btf());
	const struct fsn_nest *outer;

	word = nest_enclosing(word, fn, where, 0) & FSN_OPEN_CALL_MASK;
	outer = nest_at(word);
	return word && outer && READ(outer->flags) & FSN_NEST_LAUNCH;
}

/*
 * Marks the call of @fn in @slot if it is a launch or is made in one: calls inside it are
 * the same launch. Not static, because an inlined frame would not fit on the caller's
 * stack.
 */
__noinline int launch_open(__u32 fn, __u32 slot)
{
	const struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct fsn_nest *nest = nest_at(slot);
	const struct fsn_nest *outer = nest ? nest_at(nest->parent) : NULL;

	if (!keyed || !nest || !outer)
		return 0;
	if (keyed->launches || (nest->parent && READ(outer->flags) & FSN_NEST_LAUNCH))
		nest->flags |= FSN_NEST_LAUNCH;
	return 0;
}

/*
 * Records the call site of the launch of @word, whose row @i is new: code made for one kernel,
 * possibly a helper, which then has a frame. Without @ctx the call site is no longer known.
 */
static __noinline int launch_keep(const struct pt_regs *ctx, __u32 i, __u64 word)
{
	struct fsn_launch *launch = bpf_map_lookup_elem(&fsn_launches, &i);
	__u64 outer = 0;

	if (!launch)
		return 0;
	if (ctx && bpf_probe_read_user(&outer, sizeof(outer), (void *)(caller_fp(ctx) + 8)))
		outer = 0;
	if (ctx)
		outer = original_return(outer, caller_fp(ctx) + 8);
	launch->word = 0;
	launch->from[0] = ctx ? caller_of(ctx) : 0;
	launch->from[1] = outer;
	launch->word = word;
	return 0;
}

/* --- handles ----------------------------------------------------------------------------------- */

/* Saves where the call in @slot stores a handle, and its name, if it may ask for one. */
static __noinline int handle_asked(const struct pt_regs *ctx, __u32 fn, __u32 slot)
{
	const struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct asked *asked = bpf_map_lookup_elem(&fsn_slot_asked, &slot);

	if (!keyed || !keyed->named || !asked)
		return 0;
	asked->to = arg_word(ctx, keyed->handle_at);
	asked->name = arg_word(ctx, keyed->name_at);
	return 0;
}

/*
 * Records @key in the current process: by the text at @name, or as the same kernel as word @name.
 */
static __always_inline int handle_keep(const struct fsn_handle *key, __u64 name, bool is_text)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	struct fsn_handle_of *of;
	__u32 zero = 0;
	long len = 0;

	of = bpf_map_lookup_elem(&fsn_no_handle, &zero);
	if (of && !bpf_map_update_elem(&fsn_handles, key, of, BPF_ANY))
		of = bpf_map_lookup_elem(&fsn_handles, key);
	else
		of = NULL;
	if (of && is_text)
		len = bpf_probe_read_user_str(of->name, sizeof(of->name), (void *)name);
	else if (of)
		of->word = name;
	if (!of || len < 0) {
		add(&ctl.lost_texts, 1);
		return 0;
	}
	of->cut = len == sizeof(of->name);
	(void)__sync_lock_test_and_set(&of->start, leader->start_boottime);
	return 0;
}

/* The same for @word, if the process does not have it yet. Not static, so that it is verified once. */
__noinline int handle_named(__u64 word, __u64 name, int is_text)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	struct fsn_handle key = { .word = word, .tgid = bpf_get_current_pid_tgid() >> 32 };
	const struct fsn_handle_of *of = bpf_map_lookup_elem(&fsn_handles, &key);

	/* After an exec, it is another one. */
	if (of && READ(of->start) == leader->start_boottime && (is_text || READ(of->word) == name))
		return 0;
	return handle_keep(&key, name, is_text);
}

/*
 * The innermost NVTX range of the current thread, as the address of its name; 0: none.
 * libfuncsnoop-gpu.so has said where the process keeps them: lib/gpu/ranges.c. The state is that of
 * the thread, so recursion, longjmp and exceptions do not matter. Not static, so that it is verified
 * once.
 */
const volatile bool fsn_ranged = false; /* some key is that */

__noinline __u64 range_of_thread(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fsn_handle key = { .word = FSN_RANGES_WORD, .tgid = task->tgid };
	const struct fsn_handle_of *of = bpf_map_lookup_elem(&fsn_handles, &key);
	const struct fsn_gpu_thread *threads;
	struct fsn_gpu_thread t;

	if (!of || READ(of->start) != task->group_leader->start_boottime)
		return 0;
	threads = (void *)of->word;
	for (__u32 i = 0; i < FSN_GPU_THREAD_PROBES; i++) {
		if (bpf_probe_read_user(&t, sizeof(t),
			    threads + gpu_thread_place(thread_pointer(task), i)) || !t.pointer)
			break;
		if (t.pointer == thread_pointer(task))
			return t.range;
	}
	return 0;
}

/* Saves the handle that the call in @slot has returned. */
__noinline int handle_found(__u32 fn, __u32 slot)
{
	const struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	const struct asked *asked = bpf_map_lookup_elem(&fsn_slot_asked, &slot);
	struct fsn_handle key = { .tgid = bpf_get_current_pid_tgid() >> 32 };

	if (!keyed || !keyed->named || !asked ||
		bpf_probe_read_user(&key.word, sizeof(key.word), (void *)asked->to) || !key.word)
		return 0;
	return handle_keep(&key, asked->name, keyed->named == FSN_NAMED_TEXT);
}

/* The key and the sums of a call. The group defines the source of each part. */

const volatile bool fsn_keyed = false;    /* some function has a key or a sum */
const volatile bool fsn_key_wide = false; /* some key takes more than a word */
/* bit mask by enum fsn_by, over all functions */
const volatile __u32 fsn_key_kinds[FSN_KEYS] = {};
const volatile bool fsn_key_late = false; /* some part is known at the return */
const volatile __u32 fsn_key_cnt = 0;
const volatile __u32 fsn_sum_cnt = 0;

/* Truncates an argument or a result to its width and extends its sign. */
static __always_inline __u64 part_cut(const struct fsn_part *p, __u64 word)
{
	__u32 unused = (64 - p->width) & 63;

	return p->is_signed ? (__u64)((__s64)(word << unused) >> unused)
			    : word << unused >> unused;
}

static __always_inline __u64 part_number(const struct pt_regs *ctx, const struct fsn_part *p)
{
	return part_cut(p, arg_word(ctx, p->where));
}

static __always_inline bool word_at(__u64 base, __u32 after, __u64 *to)
{
	return base && !bpf_probe_read_user(to, sizeof(*to), (void *)(base + after - 1));
}

/* Fails if memory is not resident (never touched, swapped out), or a word is in other units. */
static __noinline __u64 part_product(const struct pt_regs *ctx, const struct fsn_part *p)
{
	__u64 base = p->at ? arg_word(ctx, p->where) : 0, word = 0, n = 1;
	bool fails = false;

#pragma unroll
	for (__u32 i = 0; i < FSN_ABSENTS; i++)
		if (p->type >> 16 * i & 0xffff)
			fails |= !word_at(base, p->type >> 16 * i & 0xffff, &word) || word;
#pragma unroll
	for (__u32 i = 0; i < FSN_FACTORS; i++) {
		__u32 at = p->sizes >> 16 * i & 0xffff;

		if (!at)
			break;
		if (p->at)
			fails |= !word_at(base, at, &word);
		else
			word = arg_word(ctx, at);
		n *= word;
	}
	if (!fails)
		return n;
	add(&ctl.lost_texts, 1);
	return 0;
}

/* The size of an element, in the structure that describes its type. */
static __noinline __u64 part_element(const struct pt_regs *ctx, const struct fsn_part *p)
{
	__u64 size = 0;

	if (!word_at(arg_word(ctx, p->type), p->at + 1, &size))
		add(&ctl.lost_texts, 1);
	return size;
}

/* Amount that a call adds to sum @p. */
static __always_inline __u64 part_sum(const struct pt_regs *ctx, const struct fsn_part *p)
{
	__u64 n, type;
	__u32 size;

	if (p->what == FSN_BY_PRODUCT)
		return part_product(ctx, p);
	n = part_number(ctx, p);
	if (p->what != FSN_BY_BYTES)
		return n;
	if (p->at)
		return n * part_element(ctx, p);
	type = (__u32)arg_word(ctx, p->type);
	size = type < 16 ? p->sizes >> 4 * type & 15 : 0;
	return size ? n << (size - 1) : 0;
}

/*
 * Fails if the text is not resident (never touched, swapped out): the BPF program cannot
 * sleep.
 */
static __noinline int part_text(const struct pt_regs *ctx, const struct fsn_part *p, char *to)
{
	__u64 at = arg_word(ctx, p->where);

	if (text_read(to, FSN_KEY_TEXT, p->where, at) >= 0)
		return 0;
	__builtin_memset(to, 0, FSN_KEY_TEXT);
	to[FSN_KEY_TEXT - 1] = 1;
	add(&ctl.lost_texts, 1);
	return 0;
}

/* Anything that cannot be an NCCL communicator is grouped by its address. */
static __noinline int part_communicator(
	const struct pt_regs *ctx, const struct fsn_part *p, struct fsn_communicator *to)
{
	__u64 at = arg_word(ctx, p->where);

	if (!bpf_probe_read_user(to, offsetof(struct fsn_communicator, pad), (void *)(at + p->at)) &&
		to->ranks >= 1 && to->ranks <= FSN_RANKS_MAX && to->rank >= 0 &&
		to->rank < to->ranks)
		return 0;
	__builtin_memset(to, 0, sizeof(*to));
	to->hash = at;
	return 0;
}

/* Sizes are constants, because the verifier loses the bounds of a computed one. */
static __always_inline long number_read(__u64 *to, __u32 bits, const void *at)
{
	switch (bits) {
	case 8:
		return bpf_probe_read_user(to, 1, at);
	case 16:
		return bpf_probe_read_user(to, 2, at);
	case 32:
		return bpf_probe_read_user(to, 4, at);
	default:
		return bpf_probe_read_user(to, 8, at);
	}
}

/* Fails if the member is not resident, as for text. */
static __noinline int part_member(const struct pt_regs *ctx, const struct fsn_part *p, __u64 *to)
{
	__u64 at = arg_word(ctx, p->where);

	to[0] = 0;
	to[1] = !at || number_read(to, p->width, (void *)(at + p->at));
	if (to[1])
		add(&ctl.lost_texts, 1);
	else
		to[0] = part_cut(p, to[0]);
	return 0;
}

/* Skips kinds that no function has: with three keys, verification takes too long on 5.15. */
#define IS_PART(by) (fsn_key_kinds[i] & 1U << (by) && p->what == (by))

/* Parts that are longer than a word. */
static __always_inline void part_wide(
	const struct pt_regs *ctx, const struct fsn_part *p, __u32 i, __u64 *to)
{
	if (IS_PART(FSN_BY_TEXT))
		part_text(ctx, p, (char *)to);
	else if (IS_PART(FSN_BY_COMM))
		bpf_get_current_comm(to, FSN_COMM_LEN);
	else if (IS_PART(FSN_BY_COMMUNICATOR))
		part_communicator(ctx, p, (struct fsn_communicator *)to);
	else if (IS_PART(FSN_BY_MEMBER))
		part_member(ctx, p, to);
	else if (IS_PART(FSN_BY_CALLER)) /* the call is before the return address */
		to[1] = place_at(to[0] - 1, false);
	else if (IS_PART(FSN_BY_LOCK))
		to[1] = place_at(to[0], true);
}

/* Number of the stack of the call or thread; 0 if it is found later. */
static __always_inline __u64 part_stack(const struct pt_regs *ctx, const struct fsn_part *p)
{
	if (!fsn_walks_stacks || fsn_walks_late)
		return 0;
	if (fsn_thread_stacks)
		return event_arg(ctx, FSN_EVENT_STACK);
	if (fsn_user_stacks || p->at)
		return stack_of_user(p->at);
	return stack_of_call(caller_sp(ctx), caller_fp(ctx), caller_link(ctx));
}

/* Value of key part @p in one word; @i is its number. */
static __always_inline __u64 part_word(
	const struct pt_regs *ctx, const struct fsn_part *p, __u32 i)
{
	if (fsn_ranged && IS_PART(FSN_BY_KERNEL) && p->at)
		return range_of_thread();
	if (IS_PART(FSN_BY_NUMBER) || IS_PART(FSN_BY_KERNEL) || IS_PART(FSN_BY_LOCK))
		return part_number(ctx, p);
	if (IS_PART(FSN_BY_CLASS))
		return key_class(part_number(ctx, p));
	if (IS_PART(FSN_BY_CALLER))
		return caller_of(ctx);
	if (IS_PART(FSN_BY_THREAD))
		return (__u32)bpf_get_current_pid_tgid();
	if (IS_PART(FSN_BY_CGROUP))
		return bpf_get_current_cgroup_id();
	return IS_PART(FSN_BY_STACK) ? part_stack(ctx, p) : 0;
}

static __always_inline void key_fill(
	const struct pt_regs *ctx, const struct fsn_keyed *keyed, struct fsn_key *key)
{
#pragma unroll
	for (__u32 i = 0; i < FSN_KEYS; i++) {
		if (i >= fsn_key_cnt)
			break;
		if (!fsn_key_wide) {
			key->word[i] = part_word(ctx, &keyed->key[i], i);
			continue;
		}
		key->word[i * FSN_KEY_WIDE] = part_word(ctx, &keyed->key[i], i);
		part_wide(ctx, &keyed->key[i], i, &key->word[i * FSN_KEY_WIDE]);
	}
}

const volatile __u32 fsn_row_cnt = 1; /* followed by one row of others per function */

/* Key of a call with a part that its return tells: by slot, until then. */
struct slot_key {
	struct fsn_key key;
	__u64 sum[FSN_SUMS];
};

MAP(fsn_slot_keys, ARRAY, __u32, struct slot_key, 1);

const volatile bool fsn_wakers = false; /* some key is the thread that ended a wait for a lock */
const volatile bool fsn_waker_stacks = false; /* some key is the stack of the thread that ended a wait */

/* The thread that ended the wait of the call, by slot. */
struct waker {
	char comm[FSN_COMM_LEN];
	__u32 tid, stack;
	__u64 start; /* of the call; that of another one: the waker is not known */
};

MAP(fsn_slot_wakers, ARRAY, __u32, struct waker, 1);

static __always_inline struct fsn_row *row_at(__u32 i)
{
	return bpf_map_lookup_elem(&fsn_rows, &i);
}

#define ROW_NEW  (1U << 31)
#define ROW_LOST (FSN_NO_ROW - 2) /* another CPU has claimed the free row */

#define KEY_WORDS (FSN_KEYS * FSN_KEY_WIDE)

/* True if word @i belongs to the key; constant after the attach. */
static __always_inline bool word_counts(__u32 i)
{
	return i < fsn_key_cnt * (fsn_key_wide ? FSN_KEY_WIDE : 1);
}

/* Hash of the key and of the row's owner. */
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
 * Binary search for @word in @cnt sorted names from @first on. Returns 1 + its index in
 * fsn_names, or 0. Not static, so that it is verified once.
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
 * Saves the names of a new row's key, for readers without access to keys. This is not
 * done where rows are claimed, because the call chain there has no stack left of its 512
 * bytes.
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

/*
 * Saves the launching code of a new row @i of a GPU kernel; it is not known if @ctx is
 * NULL.
 */
static __always_inline __u32 row_launched(const struct pt_regs *ctx, __u32 i,
	const struct fsn_keyed *keyed, const struct fsn_key *key)
{
	if (!fsn_launched || i == FSN_NO_ROW || !(i & ROW_NEW))
		return i;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++) {
		__u64 word = key->word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)];

		if (keyed->launches == n + 1)
			launch_keep(ctx, i & ~ROW_NEW, word);
		else if (fsn_ranged && keyed->key[n].what == FSN_BY_KERNEL && word)
			handle_named(word, word, true);
	}
	return i;
}

/* Saves the file of the caller's code of a new row @i, if it has one. */
static __always_inline void row_called(
	__u32 i, const struct fsn_keyed *keyed, const struct fsn_key *key)
{
	if (!fsn_places_known || i == FSN_NO_ROW || !(i & ROW_NEW))
		return;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (n < fsn_key_cnt && keyed->key[n].what == FSN_BY_CALLER)
			called_keep(i & ~ROW_NEW, key->word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)]);
}

/*
 * Saves the file of the lock at @addr, for which the call that was in @slot has waited, if it has
 * one. The slot may be in use again, by a call with another row.
 */
static __noinline int row_locked(__u32 fn, __u32 slot, __u64 addr)
{
	const struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	const __u32 *kept = bpf_map_lookup_elem(&fsn_slot_rows, &slot);
	__u32 i = kept ? READ(*kept) : FSN_NO_ROW;
	const struct fsn_key *key = bpf_map_lookup_elem(&fsn_keys, &i);
	const struct fsn_row *row = row_at(i);

	if (!keyed || !key || !row ||
		READ(row->tag) != row_tag(fn, bpf_get_current_pid_tgid() >> 32))
		return 0;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (n < fsn_key_cnt && keyed->key[n].what == FSN_BY_LOCK &&
			key->word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)] == addr)
			lock_keep(i, addr);
	return 0;
}

/* Claims the free row @i. False if another CPU has claimed it. */
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
 * Candidate @n for a key's row. They are spread over the table, because neighbours are
 * soon in use, and independent of each other, because steps of one width may cycle
 * through few rows.
 */
static __always_inline __u32 row_place(__u64 hash, __u32 n)
{
	__u64 at = (hash ^ n * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;

	return (at >> 32) * fsn_row_cnt >> 32;
}

/*
 * Returns the row of @key, with ROW_NEW for row_named(), or the row of others, or
 * ROW_LOST. For process @tgid, which started at @start and has its name at @comm. Two
 * CPUs may both claim a row for one key: readers add them up.
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

/* Not static, so that each is verified once. */
__noinline __u32 row_find_of(
	struct fsn_key *key, __u32 fn, __u32 tgid, __u64 start, __u64 comm)
{
	return key ? row_look(key, fn, tgid, start, comm) : FSN_NO_ROW;
}

/* The same for the current process. */
__noinline __u32 row_find(struct fsn_key *key, __u32 fn)
{
	struct task_struct *task = bpf_get_current_task_btf(), *leader = task->group_leader;

	if (!key)
		return FSN_NO_ROW;
	return row_look(key, fn, task->tgid, leader->start_boottime, as_number(leader->comm));
}

/* Retries, because another CPU may claim the free row first, more than once. */
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
 * The same, but tries the row of the last call of @fn on this CPU first: most calls are
 * like the previous one.
 */
static __always_inline __u32 row_again(struct fsn_key *key, __u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	struct task_struct *task = bpf_get_current_task_btf();
	struct fsn_row *row;
	__u64 seen;
	__u32 i;

	if (!stat)
		return FSN_NO_ROW;
	i = READ(stat->last_row) - 1;
	row = i < fsn_row_cnt ? row_at(i) : NULL;
	if (row) {
		seen = READ(row->tag);
		if (seen == row_tag(fn, task->tgid) &&
			READ(row[AFTER(seen, 0)].start) == task->group_leader->start_boottime &&
			key_is(AFTER(seen, i), key))
			return i;
	}
	i = row_of(key, fn);
	READ(stat->last_row) = (i & ~ROW_NEW) + 1;
	return i;
}

/*
 * Counts a call of @key in row @i as returned by row_of(). @i becomes the row's number,
 * or FSN_NO_ROW. @value is the expression of sum n, evaluated one by one, because there
 * is no stack for all of them.
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

/* Counts a call in its row. Returns its number, or FSN_NO_ROW. */
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
	i = row_again(&key, fn);
	row_called(i, keyed, &key);
	i = row_launched(ctx, i, keyed, &key);
	ROW_COUNT(i, keyed, &key, part_sum(ctx, &keyed->sum[n]));
	return i;
}

/* Records that the current thread ends the wait of the call in @slot, which began at @start. */
static __always_inline void waker_keep(__u32 slot, __u64 start)
{
	struct waker *waker = bpf_map_lookup_elem(&fsn_slot_wakers, &slot);

	if (!waker)
		return;
	bpf_get_current_comm(waker->comm, sizeof(waker->comm));
	waker->tid = (__u32)bpf_get_current_pid_tgid();
	waker->stack = fsn_waker_stacks ? stack_of_user(false) : 0;
	waker->start = start;
}

/*
 * Completes the key of the call in the locked @slot by the thread that ended its wait. A call with
 * an error was ended by a signal or a timer, or has not waited.
 */
static __noinline int key_woken(__u32 fn, __u32 slot, __u64 start, __u64 result)
{
	const struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	struct slot_key *kept = bpf_map_lookup_elem(&fsn_slot_keys, &slot);
	const struct waker *waker = bpf_map_lookup_elem(&fsn_slot_wakers, &slot);

	bool known = waker && waker->start == start && !result;

	if (!keyed || !kept)
		return 0;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++) {
		__u64 *to = &kept->key.word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)];

		if (keyed->key[n].what == FSN_BY_WAKER_TID)
			*to = known ? waker->tid : -1ULL;
		if (keyed->key[n].what == FSN_BY_WAKER_STACK)
			*to = known ? waker->stack : 0;
		if (fsn_key_wide && keyed->key[n].what == FSN_BY_WAKER && known)
			__builtin_memcpy(to, waker->comm, FSN_COMM_LEN);
	}
	return 0;
}

/* Saves key and sums of a call at its entry. */
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
 * What a call adds to a sum, now that its @result is known; @kept is known from its entry. A call
 * that failed has no amount.
 */
static __always_inline __u64 part_sum_late(
	const struct fsn_part *p, __u64 kept, __u64 result, int how)
{
	__u64 n = kept;

	if (p->what != FSN_BY_RESULT && p->what != FSN_BY_POINTED)
		return kept;
	if (how & FSN_CALL_FAILED)
		return 0;
	if (p->what == FSN_BY_RESULT)
		n = part_cut(p, result);
	else if (!word_at(kept, 1, &n)) {
		add(&ctl.lost_texts, 1);
		return 0;
	}
	return p->is_signed && (__s64)n < 0 ? 0 : n;
}

/*
 * Finds the row of the call in @slot once its result is known, and counts the call there.
 * Not static, so that it is verified once. The slot is locked, and its key is completed
 * in place, because the call chain has 512 bytes of stack.
 */
__noinline __u32 row_count_late(__u32 fn, __u32 slot, __u64 result, int how)
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
	ROW_COUNT(i, keyed, &kept->key, part_sum_late(&keyed->sum[n], kept->sum[n], result, how));
	return i;
}

/* Saves the stack of the call in @slot for end_in_row(). */
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

/* Copies the key of the call in @slot to a slow call. */
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

/* Counts a return after @net ns; @how has flags. */
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

/* Counts the return of the call in @slot in the row found at its entry, or by its result. */
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
		*kept = i = row_count_late(fn, slot, result, how);
	row = row_at(i);
	/* The row of an exited process may have been reused. */
	if (row && i < fsn_row_cnt && READ(row->tag) != row_tag(fn, tgid))
		row = row_at(fsn_row_cnt + fn);
	if (!row)
		return;
	row_ends(row, net, how);
	if (split)
		SPLIT_ADD(*row, split, net);
}
