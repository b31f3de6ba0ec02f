/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Nesting: the call in which another one was made, and the time spent in inner calls.
 *
 * A thread's word identifies its innermost open call, and .parent of that the enclosing
 * one. The stack shows which of them are over. An open call that is not above a new
 * call's stack address was left by an exception or a longjmp; so was a call that is still
 * open inside of one that returns. One at the same stack address has tail-called the new
 * call, if it is not known to be over (tails.bpf.h): it encloses the new call, although
 * it may return after it.
 *
 * A call that was left cannot be distinguished from a live one until a call starts above
 * it. A fiber that continues in another thread, or a thread that switches fibers
 * directly, finds the word of other calls: its calls have no parent, or the one that was
 * opened last.
 *
 * A call's time excludes the probes inside of it: the part of each inner call's measured
 * time that is not the call's own, the calibrated rest of its probes, and all of the
 * probes that measure nothing. So a caller's self time, its time less that of inner
 * calls, is right even if a probe's calibrated time is not: an inner call's time and its
 * probes' add up to the measured time.
 *
 * A thread that loses its CPU while a probe runs waits in the run queue, for
 * milliseconds, within the measured time of its call. The probes' share of the wait is
 * not known: it is divided in the proportion of the call's own code and the probes on a
 * CPU. Kernels without sched_info do not report how long the wait was.
 *
 * Only the thread itself writes its word, so no atomic exchange is needed here.
 */
#pragma once

#include "counters.bpf.h"
#include "filter.bpf.h"
#include "hold.bpf.h"
#include "slots.bpf.h"

const volatile bool fsn_nesting = false;
const volatile __u32 fsn_slot_cnt = 1;

#define NEST_STEPS 128

#define NTH_MASK   (FSN_OPEN_CALL_MASK >> FSN_OPEN_NTH_SHIFT)

/*
 * Flag in the word of an enclosing call: it has tail-called the inner one, at the same
 * stack address.
 */
#define NEST_JUMPED (1ULL << FSN_OPEN_EXEC_SHIFT)

static __always_inline struct fsn_nest *nest_at(__u32 i)
{
	i &= FSN_OPEN_SLOT_MASK;
	return bpf_map_lookup_elem(&fsn_nests, &i);
}

/* The word of a thread. */
static __always_inline __u64 *nest_word(const struct task_struct *task)
{
	__u32 tid = task->pid, i = fsn_slot_cnt + tid % FSN_THREADS / FSN_THREADS_EACH;
	__u64 *words = bpf_map_lookup_elem(&fsn_nests, &i);

	return words ? words + tid % FSN_THREADS_EACH : NULL;
}

/* Identity of a thread's word: after an exec, the stack is another one. */
static __always_inline __u64 word_owner(const struct task_struct *task)
{
	return (__u64)task->pid << FSN_OPEN_TID_SHIFT |
		(task->self_exec_id << FSN_OPEN_EXEC_SHIFT & FSN_OPEN_EXEC_MASK);
}

/* The innermost call of a thread that may be open, or 0. */
static __always_inline __u64 nest_top(const struct task_struct *task)
{
	const __u64 *mine = nest_word(task);
	__u64 word = mine ? READ(*mine) : 0;

	return (word ^ word_owner(task)) & ~FSN_OPEN_CALL_MASK
		? 0
		: word & FSN_OPEN_CALL_MASK;
}

/* The call that @word identifies, and its key, or NULL if it is over. */
static __always_inline struct fsn_call *nest_call(__u64 word, __u64 *ret_key)
{
	__u32 i = (word & FSN_OPEN_SLOT_MASK) / FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);
	const struct fsn_nest *nest = nest_at(word);
	__u64 key;

	if (!set || !nest || !word)
		return NULL;
	key = READ(set->key[word % FSN_WAYS]);
	*ret_key = key;
	if (!(key & FSN_KEY_TGID_MASK) || key & FSN_KEY_GHOST ||
		(READ(nest->nth) ^ word >> FSN_OPEN_NTH_SHIFT) & NTH_MASK)
		return NULL;
	return &set->call[AFTER(key, word % FSN_WAYS)];
}

/*
 * The nesting of the call that @word identifies, or NULL if it has returned. The call may
 * be abandoned: then its sums belong to the enclosing call.
 */
static __always_inline struct fsn_nest *nest_of(__u64 word)
{
	struct fsn_nest *nest = nest_at(word);

	if (!nest || !word || (READ(nest->nth) ^ word >> FSN_OPEN_NTH_SHIFT) & NTH_MASK)
		return NULL;
	return nest;
}

const volatile bool fsn_kernel = false; /* some target is a function of the kernel */

#define KERNEL_STACK 65536 /* maximum; it is aligned to its size */

/*
 * True if a kernel function or system call at @outer is still open at the start of a call
 * at @where. A system call's address is that of its task_struct. An interrupt runs on
 * another stack than the thread's.
 */
static __always_inline bool encloses_kernel(__u64 outer, __u64 where)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 stack = (__u64)task->stack;

	if ((__s64)where >= 0)
		return false;
	if (outer == bpf_get_current_task())
		return true;
	if ((outer - stack < KERNEL_STACK) == (where - stack < KERNEL_STACK))
		return outer > where;
	return outer - stack < KERNEL_STACK;
}

/*
 * @word, with NEST_JUMPED for a tail call, if a call of @fn at @where is made in that
 * call; else 0. A call in the kernel, with an address below 0, does not enclose user
 * code: it has returned.
 */
static __always_inline __u64 encloses(
	__u64 word, const struct fsn_call *call, __u64 key, __u32 fn, __u64 where)
{
	if ((__s64)READ(call->where) < 0)
		return fsn_kernel && encloses_kernel(READ(call->where), where) ? word : 0;
	if (fsn_kernel && (__s64)where < 0)
		return word;
	if (READ(call->where) > where)
		return word;
	if (READ(call->where) == where &&
		(!(key & FSN_KEY_BYRET) || key & FSN_KEY_LEFT) &&
		((key & FSN_KEY_FN_MASK) ^ (fn + 1)))
		return word | NEST_JUMPED;
	return 0;
}

/* Parts of a call's time that are not its own: as in struct fsn_nest. */
struct nest_parts {
	__u64 inner_ns, probes_ns;
};

/* .inner_delay and .inner_lost in one word, which needs less stack. */
#define NEST_DELAYS(delay, lost) ((__u32)(delay) | (__u64)(lost) << 32)

static __always_inline __u64 nest_delays(const struct fsn_nest *nest)
{
	return NEST_DELAYS(READ(nest->inner_delay), READ(nest->inner_lost));
}

/* Adds to the sums of a call. @delays: NEST_DELAYS(). Only the calling thread adds to it. */
static __always_inline void nest_add(
	struct fsn_nest *nest, const struct nest_parts *parts, __u64 delays)
{
	READ(nest->inner_ns) += parts->inner_ns;
	READ(nest->probes_ns) += parts->probes_ns;
	READ(nest->inner_delay) += (__u32)delays;
	READ(nest->inner_lost) += delays >> 32;
}

/* Adds the sums of a call that has no time of its own, and @probes_ns of its probes. */
static __always_inline void nest_collect(
	struct nest_parts *parts, const struct fsn_nest *nest, __u64 probes_ns)
{
	parts->inner_ns += READ(nest->inner_ns);
	parts->probes_ns += READ(nest->probes_ns) + probes_ns;
}

/* The function of a call by its path, which stays when the call is over. */
static __always_inline __u32 nest_fn(const struct fsn_nest *nest)
{
	__u32 path = READ(nest->path);
	const __u64 *key = bpf_map_lookup_elem(&fsn_paths, &path);

	return key ? (READ(*key) & FSN_FN_MASK) - 1 : ~0U;
}

/*
 * One step outwards; a separate function, so that it is verified once. Returns @word with
 * NEST_FOUND if a call of @fn at @where is made in that call. Else that call was left;
 * returns the next outer one, or 0.
 */
#define NEST_FOUND (NEST_JUMPED << 1)
__noinline __u64 nest_step_out(__u64 word, __u32 fn, __u64 where)
{
	const struct fsn_nest *nest = nest_of(word);
	struct fsn_call *call;
	__u64 key, found = 0;

	call = nest_call(word, &key);
	if (!nest)
		return 0;
	if (call)
		found = encloses(word, call, key, fn, where);
	return found ? found | NEST_FOUND : READ(nest->parent);
}

/* Adds the sums of a call that was left to the call @to. Returns the next outer one, or 0. */
__noinline __u64 nest_hand_up(__u64 word, __u64 to)
{
	const struct fsn_nest *nest = nest_of(word);
	struct fsn_nest *outer = nest_of(to);
	const struct fsn_conf *conf;
	struct nest_parts parts = {};
	__u32 fn;

	if (!nest || !outer)
		return 0;
	fn = nest_fn(nest);
	conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	nest_collect(&parts, nest, conf ? conf->entry_ns : 0);
	nest_add(outer, &parts, nest_delays(nest));
	return READ(nest->parent);
}

/*
 * Searches outwards from @word for the call that encloses a call of @fn at @where.
 * Returns it, or 0. With @take, adds the sums of calls that were left to it.
 */
__noinline __u64 nest_enclosing(__u64 word, __u32 fn, __u64 where, int take)
{
	__u64 left = word;

	for (__u32 i = 0; i < NEST_STEPS && word && !(word & NEST_FOUND); i++)
		word = nest_step_out(word, fn, where);
	if (!(word & NEST_FOUND))
		return 0;
	for (__u32 i = 0; take && i < NEST_STEPS && (left ^ word) & FSN_OPEN_CALL_MASK; i++)
		left = nest_hand_up(left, word);
	return word & ~NEST_FOUND;
}

/*
 * The call that encloses a new call of @fn at @where, or 0. Must be called before a slot
 * is claimed, because that abandons calls that were left there.
 */
static __always_inline __u64 nest_parent(
	const struct task_struct *task, __u32 fn, __u64 where)
{
	__u64 word = nest_top(task), key, found;
	struct fsn_call *call = nest_call(word, &key);

	if (!call)
		return nest_enclosing(word, fn, where, 1);
	found = encloses(word, call, key, fn, where);
	return found ? found : nest_enclosing(word, fn, where, 1);
}

/* @word with NEST_FOUND if it identifies a call of @fn, else the next outer one, or 0. */
__noinline __u64 nest_up(__u64 word, __u32 fn)
{
	struct fsn_nest *nest = nest_at(word);
	__u64 key;

	if (!nest || !nest_call(word, &key))
		return 0;
	return (key & FSN_KEY_FN_MASK) == fn + 1 ? word | NEST_FOUND : READ(nest->parent);
}

/* The innermost call of @fn, from @word outwards, or 0. */
__noinline __u64 nest_find(__u64 word, __u32 fn)
{
	for (__u32 i = 0; i < NEST_STEPS && word && !(word & NEST_FOUND); i++)
		word = nest_up(word, fn);
	return word & NEST_FOUND ? word & FSN_OPEN_CALL_MASK : 0;
}

/* --- call paths --------------------------------------------------------------------- */

static __always_inline __u32 path_first(__u64 key)
{
	return (key * 0x9e3779b97f4a7c15ULL >> 32) & fsn_path_mask;
}

/*
 * Returns the path of a function under another path; claims it if necessary. Probes with
 * growing distances, as in counters.bpf.h. If the table is full, returns the last path,
 * also for all paths under that.
 */
__noinline __u32 path_find(__u32 fn, __u32 under)
{
	__u64 key = (fn + 1) | (__u64)under << FSN_PATH_UNDER_SHIFT, seen, *place;
	__u32 at = path_first(key), i;

	if (under > fsn_path_mask + 1)
		return fsn_path_mask + 1;
	for (__u32 n = 0; n < FSN_PATH_PROBES; at += ++n) {
		i = at & fsn_path_mask;
		place = bpf_map_lookup_elem(&fsn_paths, &i);
		if (!place)
			break;
		seen = READ(*place);
		if (!seen)
			seen = __sync_val_compare_and_swap(place, 0, key);
		if (!seen || seen == key)
			return i;
	}
	return fsn_path_mask + 1;
}

static __always_inline __u32 path_of(__u32 fn, __u32 under)
{
	__u64 key = (fn + 1) | (__u64)under << FSN_PATH_UNDER_SHIFT, *place;
	__u32 i = path_first(key);

	place = bpf_map_lookup_elem(&fsn_paths, &i);
	return place && READ(*place) == key ? i : path_find(fn, under);
}

static __always_inline struct fsn_path *path_stat(__u32 path)
{
	__u32 i = (bpf_get_smp_processor_id() & fsn_path_shards) * (fsn_path_mask + 2) + path;

	return bpf_map_lookup_elem(&fsn_path_stats, &i);
}

/*
 * Starts a call of @fn under path @under. @again: the outer call of the same function, or
 * 0.
 */
static __always_inline void path_begin(
	struct fsn_nest *nest, __u32 fn, __u32 under, __u64 again)
{
	__u32 path = path_of(fn, under);
	struct fsn_path *stat = path_stat(path);
	const struct fsn_nest *outer = nest_at(again);

	nest->path = path;
	nest->under = again && outer ? READ(outer->under) : path + 1;
	if (stat)
		add(&stat->calls, 1);
}

/* Counts an untracked call of @fn at @where. */
static __always_inline void path_count(__u32 fn, __u64 where)
{
	__u64 word = nest_top(bpf_get_current_task_btf());
	const struct fsn_nest *outer;
	struct fsn_path *stat;

	word = nest_enclosing(word, fn, where, 0) & FSN_OPEN_CALL_MASK;
	outer = nest_at(word);
	stat = path_stat(path_of(fn, word && outer ? READ(outer->under) : 0));
	if (stat)
		add(&stat->calls, 1);
}

static __always_inline void path_end(const struct fsn_nest *nest, __s64 net)
{
	struct fsn_path *stat = path_stat(nest->path);

	if (stat)
		add(&stat->self_ns, net - nest->inner_ns);
}

/*
 * Opens the call of @fn in the locked @slot, which starts at @where. @parent was found
 * before the slot was claimed. True if the parent has tail-called it.
 */
static __always_inline bool nest_open(
	const struct task_struct *task, __u32 fn, __u32 slot, __u64 parent, __u64 where)
{
	struct fsn_nest *nest = nest_at(slot), *outer = nest_at(parent);
	__u64 *mine = nest_word(task);
	__u32 open = 1U << (fn & 31), outer_open = 0, under = 0;
	__u64 again = 0, key;
	bool jumped;

	if (!nest || !mine || !outer)
		return false;
	/*
	 * The claim has abandoned the parent if it did not tail-call this one; the slot
	 * may have been the parent's.
	 */
	if (parent & NEST_JUMPED && !nest_call(parent, &key)) {
		parent = nest_enclosing(parent, fn, where, 1);
		outer = nest_at(parent);
	}
	jumped = parent & NEST_JUMPED;
	parent &= FSN_OPEN_CALL_MASK;
	if (parent && outer) {
		outer_open = READ(outer->open);
		under = READ(outer->under);
	}
	if (outer_open & open)
		again = nest_find(parent, fn);
	nest->parent = parent;
	nest->inner_ns = nest->probes_ns = 0;
	nest->inner_delay = nest->inner_lost = 0;
	nest->delay = delay_of(task) >> FSN_DELAY_SHIFT; /* unless pause_keep() sets it */
	nest->preempted = task->nivcsw;
	nest->open = outer_open | open;
	nest->flags = again ? FSN_NEST_AGAIN : 0;
	path_begin(nest, fn, under, again);
	nest->nth++;
	*mine = word_owner(task) | (nest->nth & NTH_MASK) << FSN_OPEN_NTH_SHIFT | slot;
	return jumped;
}

/* Adds @parts to the call that @word identifies, if it is not over. */
static __always_inline void nest_take_off(
	__u64 word, const struct nest_parts *parts, __u64 delays)
{
	struct fsn_nest *nest = nest_at(word);
	__u64 key;

	if (nest && nest_call(word, &key))
		nest_add(nest, parts, delays);
}

/* A return, and the state of the search for its call. */
struct nest_passed {
	__u64 where, now;
	__u64 last; /* the outermost call with this stack address that continues, or 0 */
	struct nest_parts left; /* sums of calls that were left, and their NEST_DELAYS() */
	__u64 delays;
};

/*
 * Handles a call that continues after its enclosing call has returned; @took of its time
 * is part of the enclosing call's. The exit probe is not in that part, because the same
 * probe traces both returns.
 */
static __always_inline void nest_continue(
	struct fsn_nest *outer, const struct fsn_nest *nest, const struct fsn_conf *conf, __s64 took)
{
	struct nest_parts parts = {};

	nest_collect(&parts, nest, conf ? conf->overhead_ns : 0);
	parts.inner_ns = (took > 0 ? took : 0) - parts.probes_ns;
	parts.probes_ns += conf ? conf->entry_ns : 0;
	nest_add(outer, &parts, NEST_DELAYS((delay_unpaused() >> FSN_DELAY_SHIFT) - nest->delay,
		READ(nest->inner_lost)));
}

/* One step outwards from @word. Returns the next call, or 0. */
__noinline __u64 nest_pass(__u64 word, struct nest_passed *passed)
{
	struct fsn_nest *nest = nest_of(word), *outer;
	const struct fsn_conf *conf;
	struct fsn_call *call;
	__s64 took;
	__u64 key;
	__u32 fn;

	call = nest_call(word, &key);
	if (!nest || !passed || (call && READ(call->where) > passed->where))
		return 0;
	fn = nest_fn(nest);
	conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	if (!call || READ(call->where) < passed->where) {
		nest_collect(&passed->left, nest, conf ? conf->entry_ns : 0);
		passed->delays += nest_delays(nest);
		return READ(nest->parent);
	}
	passed->last = word;
	outer = nest_at(nest->parent);
	if (outer && !(nest->flags & FSN_NEST_TAKEN)) {
		took = passed->now - READ(call->start);
		if (fsn_may_pause)
			took -= pause_in(word & FSN_OPEN_SLOT_MASK);
		nest_continue(outer, nest, conf, took);
	}
	nest->flags |= FSN_NEST_TAKEN;
	return READ(nest->parent);
}

/*
 * Removes the returning call in the locked @slot, which is not the innermost one; that is
 * @word. An inner call was either left, or has the same stack address, because it was
 * tail-called. The latter continues: its time so far is subtracted now, and its parent
 * becomes that of the returning call. True if there is such a call.
 */
__noinline int nest_unlink(__u64 word, __u32 slot, __u64 now)
{
	__u32 i = slot / FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);
	struct nest_passed passed = { .now = now };
	struct fsn_nest *nest, *mine;

	if (!set)
		return 0;
	passed.where = set->call[slot % FSN_WAYS].where;
	for (i = 0; i < NEST_STEPS; i++) {
		if ((word & FSN_OPEN_SLOT_MASK) == slot)
			goto found;
		word = nest_pass(word, &passed);
		if (!word)
			return 0;
	}
	return 0;
found:
	mine = nest_at(slot);
	if (!mine)
		return 0;
	nest_add(mine, &passed.left, passed.delays);
	nest = passed.last ? nest_at(passed.last) : NULL;
	if (nest)
		nest->parent = mine->parent;
	return nest != NULL;
}

/*
 * Closes the returning call in the locked @slot: its parent is the innermost call again.
 * Returns its nesting, valid until the slot is freed.
 */
static __always_inline struct fsn_nest *nest_close(
	const struct task_struct *task, __u32 slot, __u64 now)
{
	struct fsn_nest *nest = nest_at(slot);
	__u64 word = nest_top(task), *mine = nest_word(task);

	if (!nest || !mine)
		return NULL;
	if (!word || (word & FSN_OPEN_SLOT_MASK) == slot || !nest_unlink(word, slot, now))
		*mine = word_owner(task) | nest->parent;
	nest->nth++; /* no word identifies it any more */
	return nest;
}

#define NEST_SHARE 1024 /* parts of a whole; times have 48 bits */

/*
 * Maximum that a context switch adds to a call's time, by interrupts or other virtual
 * machines.
 */
#define NEST_SWITCH_NS 1000000

/*
 * Returns the part of @delay_ns that was lost in probes, which took @probes_ns; 0 if @probes_ns is 0.
 * @delay_ns is run-queue latency in a call of @fn, without that in calls inside. The call's own code
 * took @own_ns on a CPU. A call that was switched out takes longer for it: the average of the
 * function counts unless the call took far longer. All was lost if that is within the noise of the
 * correction. Not static, so that it is verified once.
 */
__noinline __u64 nest_lost(__u32 fn, __s64 own_ns, __u64 probes_ns, __u64 delay_ns)
{
	const struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	__u64 own = own_ns > 0 ? own_ns : 0, lost, returns, mean = own;
	__s64 all;

	if (!conf || !stat)
		return 0;
	returns = READ(stat->n.returns);
	all = READ(stat->n.total_ns) - READ(stat->n.inner_ns) - READ(stat->n.waited_ns);
	if (returns)
		mean = all > 0 ? (__u64)all / returns : 0;
	if (own > mean + NEST_SWITCH_NS)
		mean = own;
	if (own > mean)
		own = mean;
	lost = delay_ns * (probes_ns * NEST_SHARE / (own + probes_ns + 1)) / NEST_SHARE;
	if (probes_ns && mean < conf->noise_ns)
		lost = delay_ns;
	add(&stat->n.waited_ns, delay_ns - lost);
	return lost;
}

/*
 * Subtracts latency that was lost in probes of a call, @lost, and of its inner calls from @split, unless
 * NULL. Returns NEST_DELAYS() of the call, with @delay.
 */
static __noinline __u64 nest_loses(
	const struct fsn_nest *nest, struct fsn_split *split, __u32 delay, __u64 lost)
{
	lost += (__u64)READ(nest->inner_lost) << FSN_DELAY_SHIFT;
	if (split)
		split->queued -= lost < split->queued ? lost : split->queued;
	return NEST_DELAYS(delay, lost >> FSN_DELAY_SHIFT);
}

/*
 * Completes a call that returns after @ns in the thread that started it; @net is its time
 * without its own probes. Returns its time without inner probes and without run-queue
 * latency lost in them, which is also subtracted from @split (unless NULL). Adds it to
 * the enclosing call.
 */
static __always_inline __s64 nest_ends(
	const struct task_struct *task, const struct fsn_nest *nest, __u32 fn,
	const struct fsn_conf *conf, __s64 net, __u64 ns, struct fsn_split *split)
{
	struct nest_parts parts = {};
	__u64 total = fsn_may_pause ? delay_unpaused() : delay_of(task);
	__u32 delay = (__u32)(total >> FSN_DELAY_SHIFT) - nest->delay;
	__u64 lost = (__u64)(delay - nest->inner_delay) << FSN_DELAY_SHIFT, probes_ns = 0, delays;

	net -= nest->probes_ns;
	if (delay && lost) {
		/* It may have started before the call. */
		lost = lost < ns ? lost : ns;
		/* Latency after a sleep is the call's: a probe is preempted. */
		if ((__u32)task->nivcsw != nest->preempted)
			probes_ns = ns - net;
		lost = nest_lost(fn, net - nest->inner_ns - lost, probes_ns, lost);
		net -= lost;
	} else {
		lost = 0;
	}
	delays = nest_loses(nest, split, delay, lost);
	if (!nest->parent || nest->flags & FSN_NEST_TAKEN)
		return net;
	parts.inner_ns = net;
	parts.probes_ns = ns - net + (conf ? conf->rest_ns : 0);
	nest_take_off(nest->parent, &parts, delays);
	return net;
}

/*
 * Closes the call of @fn in the locked @slot, whose return is not traced: only its inner
 * calls are known.
 */
static __always_inline void nest_left(__u32 fn, __u32 slot, __u64 now)
{
	const struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	struct fsn_nest *nest = nest_close(bpf_get_current_task_btf(), slot, now);
	struct nest_parts parts = {};

	if (!nest || !conf || !nest->parent || nest->flags & FSN_NEST_TAKEN)
		return;
	nest_collect(&parts, nest, conf->left_ns);
	nest_take_off(nest->parent, &parts, nest_delays(nest));
}

/* @word with NEST_FOUND if its call is not over, else the next outer one, or 0. */
__noinline __u64 nest_skip_over(__u64 word)
{
	struct fsn_nest *nest = nest_of(word);
	__u64 key;

	if (nest_call(word, &key))
		return word | NEST_FOUND;
	return nest ? READ(nest->parent) : 0;
}

/* The innermost call that is not over, from @word outwards; 0: not known. */
__noinline __u64 nest_alive(__u64 word)
{
	for (__u32 i = 0; i < NEST_STEPS && word && !(word & NEST_FOUND); i++)
		word = nest_skip_over(word);
	return word & ~NEST_FOUND;
}

/* Adds @ns of a probe that measures nothing to the call that @word identifies. */
static __always_inline void nest_probe(__u64 word, __u64 ns)
{
	struct nest_parts parts = { .probes_ns = ns };

	nest_take_off(word, &parts, 0);
}

/* The same for the call in which the call in the locked @slot was made. */
__noinline int nest_outer_probe(__u32 slot, __u64 ns)
{
	struct fsn_nest *nest = nest_at(slot);

	if (nest)
		nest_probe(nest->parent, ns);
	return 0;
}

/* The same for the innermost open call of the thread, if a call at @where is made in it. */
__noinline int nest_stray(__u64 where, __u64 ns)
{
	__u64 word = nest_alive(nest_top(bpf_get_current_task_btf())), key;
	struct fsn_call *call = nest_call(word, &key);

	if (call && READ(call->where) >= where)
		nest_probe(word, ns);
	return 0;
}

/* Handles a hit that measures nothing, of a probe of @fn or of a tail call's target. */
enum nest_hit { HIT_ENTRY, HIT_END, HIT_PASSED, HIT_NONE };
__noinline int nest_hit(__u32 fn, __u64 where, int what)
{
	__u32 i = fn < fsn_fn_cnt ? fn : 0;
	const struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &i);
	__u64 word = nest_alive(nest_top(bpf_get_current_task_btf())), key;
	struct fsn_call *call = nest_call(word, &key);

	if (what == HIT_ENTRY)
		path_count(fn, where);
	if (!conf || !call || READ(call->where) < where)
		return 0;
	nest_probe(word,
		what == HIT_ENTRY         ? conf->entry_ns
			: what == HIT_END ? conf->end_ns
					  : conf->passed_ns);
	return 0;
}

/*
 * Time of a call split into on-CPU, runnable and blocked.
 *
 * Whenever the scheduler updates a task's runtime, and when it gives the task a CPU, it
 * sets exec_start to that moment. So between two moments at which the task runs
 *
 *	off the CPU = growth of exec_start - growth of sum_exec_runtime
 *
 * is exact in the run queue's clock, although neither is alone: both may be a tick old.
 * The runnable part of it is in run_delay, and the rest is blocked. A task without a
 * context switch was on the CPU all the time.
 *
 * The task clock stops while interrupts or a hypervisor have the CPU; the time of a call
 * does not. The lost time is divided in proportion, because the part during which the
 * task was off the CPU is not known. If the task moved to another CPU, the lag differs,
 * and all of the difference counts as time off the CPU.
 */

static __always_inline __u64 switches_of(const struct task_struct *task)
{
	return READ(task->nvcsw) + READ(task->nivcsw);
}

/* Lag of the CPU's task clock to its clock. */
static __always_inline __u64 clock_lag(struct task_struct *task)
{
	struct rq *rq;

	if (!bpf_core_field_exists(task->se.cfs_rq) ||
		!bpf_core_field_exists(task->se.cfs_rq->rq))
		return 0;
	rq = task->se.cfs_rq->rq;
	return rq->clock - rq->clock_task;
}

/* Saves the scheduler's totals of the thread at the start of the call in @slot. */
static __noinline int split_begin(__u32 slot)
{
	struct fsn_split *split = bpf_map_lookup_elem(&fsn_splits, &slot);
	struct task_struct *task = bpf_get_current_task_btf();

	if (!split)
		return 0;
	split->switches = switches_of(task);
	split->start = task->se.exec_start;
	split->ran = task->se.sum_exec_runtime;
	split->delay = delay_unpaused();
	split->behind = clock_lag(task);
	split->cpu = bpf_get_smp_processor_id();
	split->known = 0;
	split->slept = 0;
	return 0;
}

#define SHARE 1024 /* parts of a whole; times have 48 bits */

/* Splits the time of a call whose thread was switched out. */
static __noinline int split_off(struct fsn_split *split, __u32 slot, __u64 ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ran = task->se.sum_exec_runtime - split->ran;
	__s64 off, behind, queued, most = ns;

	off = task->se.exec_start - split->start - ran;
	behind = clock_lag(task) - split->behind;
	if (split->cpu != bpf_get_smp_processor_id())
		off += behind;
	else if (off > 0 && behind > 0)
		off += (__u64)behind * ((__u64)off * SHARE / (off + ran)) / SHARE;
	if (fsn_may_pause)
		off -= pause_in(slot);
	queued = delay_unpaused() - split->delay;
	if (off < 0)
		off = 0;
	if (off > most)
		off = most;
	if (queued > off)
		queued = off;
	split->queued = queued;
	split->blocked = off - queued;
	return 0;
}

/*
 * Splits the duration @ns of the call in the locked @slot. Returns NULL if it returned in
 * another thread than it started in, or if times are not split.
 */
static __always_inline struct fsn_split *split_ends(
	const struct fsn_call *call, __u32 slot, __u64 ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fsn_split *split = bpf_map_lookup_elem(&fsn_splits, &slot);

	if (!split)
		return NULL;
	split->known = call->task == (__u64)task && call->tid == (__u32)task->pid;
	if (!split->known)
		return NULL;
	split->queued = split->blocked = 0;
	if (split->switches != switches_of(task))
		split_off(split, slot, ns);
	return split;
}

/* The rest was on the CPU; @net is the call's time. */
#define SPLIT_ADD(n, split, net)                                               \
	do {                                                                   \
		add(&(n).on_cpu_ns, (net) - (split)->queued - (split)->blocked); \
		if ((split)->queued)                                           \
			add(&(n).queued_ns, (split)->queued);                  \
		if ((split)->blocked)                                          \
			add(&(n).blocked_ns, (split)->blocked);                \
	} while (0)
