/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In which call another was made, and what of its time was spent in others.
 *
 * A thread's word names the innermost of its open calls; beside each slot stands the one
 * in which its call was made. The stack says which of them are over: one whose place is
 * not above that of a call which begins was left by an exception or a longjmp, and so was
 * what is still open inside of a call that ends. One at the same place has left by a jump
 * to what begins, if it is not known to be over (tails.bpf.h): that is made in it, too,
 * though it may end after it.
 *
 * By its place a call that was left can't be told from a live one while nothing has begun
 * above it. A fiber that another thread takes over, or one that switches to a fiber
 * directly, takes the word as it finds it: its calls are made in none, or in the one that
 * was open last.
 *
 * A call's time excludes the probes inside of it: the part of each inner call's measured time that
 * is not the call's own, the calibrated rest of its probes, and all of the probes that measure
 * nothing. So a caller's self time, its time less that of inner calls, is right even if a probe's
 * calibrated time is not: an inner call's time and its probes' add up to what was measured.
 *
 * A thread that loses its CPU while a probe runs waits in the run queue, for milliseconds, within
 * the measured time of its call. The probes' share of the wait is not known: it is divided in the
 * proportion of the call's own code and the probes on a CPU. Kernels without sched_info do not say
 * how long the wait was.
 *
 * Only the thread itself writes its word: nothing here needs an exchange.
 */
#ifndef FUNCSNOOP_NEST_BPF_H
#define FUNCSNOOP_NEST_BPF_H

#include "counters.bpf.h"
#include "filter.bpf.h"
#include "hold.bpf.h"
#include "slots.bpf.h"

const volatile bool fsn_nesting = false;
const volatile __u32 fsn_slot_cnt = 1;

#define NEST_STEPS 128

#define NTH_MASK   (FSN_OPEN_CALL_MASK >> FSN_OPEN_NTH_SHIFT)

/* Beside a call that encloses another: that was jumped to, at the same place. */
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

/* Whose word it is: after an exec the stacks are others. */
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

/* The call that @word names, and its key, or NULL when it is over. */
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

const volatile bool fsn_kernel = false; /* some target is a function of the kernel */

#define KERNEL_STACK 65536 /* at most; it is aligned to its size */

/*
 * Whether what began in the kernel at @outer is still there for what begins at @where. A system
 * call has its thread's address. What an interrupt makes is on another stack than the thread's.
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
 * @word, with NEST_JUMPED if so, if a call of @fn at @where is made in that; else 0. What
 * happens in the kernel, at addresses below 0, encloses no call of a program: that is back from
 * it.
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

/* @delay: run-queue latency in it, as in struct fsn_nest. Only the thread that calls there adds to it. */
static __always_inline void nest_add(
	struct fsn_nest *nest, const struct nest_parts *parts, __u32 delay)
{
	READ(nest->inner_ns) += parts->inner_ns;
	READ(nest->probes_ns) += parts->probes_ns;
	READ(nest->inner_delay) += delay;
}

/*
 * Adds those of a call which has no time of its own: what was inside, and @probes_ns of its probes. Its
 * run-queue latency is left to the call around it: the stacks of programs are full.
 */
static __always_inline void nest_collect(
	struct nest_parts *parts, const struct fsn_nest *nest, __u64 probes_ns)
{
	parts->inner_ns += READ(nest->inner_ns);
	parts->probes_ns += READ(nest->probes_ns) + probes_ns;
}

/*
 * A step outwards, by itself: verified once, not for each of the steps. Returns @word with
 * NEST_FOUND if a call of @fn at @where is made in that; else the next one outwards, after the
 * parts of the call that was left are added to @left; or 0.
 */
#define NEST_FOUND (NEST_JUMPED << 1)
__noinline __u64 nest_out(__u64 word, __u32 fn, __u64 where, struct nest_parts *left)
{
	struct fsn_nest *nest = nest_at(word);
	const struct fsn_conf *conf;
	struct fsn_call *call;
	__u64 key, found;

	call = nest_call(word, &key);
	if (!call || !nest || !left)
		return 0;
	found = encloses(word, call, key, fn, where);
	if (found)
		return found | NEST_FOUND;
	fn = (key & FSN_KEY_FN_MASK) - 1;
	conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	nest_collect(left, nest, conf ? conf->entry_ns : 0);
	return READ(nest->parent);
}

/*
 * Goes out from @word to the call in which one of @fn at @where is made: that, or 0. With @take
 * what was left on the way is taken off that.
 */
__noinline __u64 nest_enclosing(__u64 word, __u32 fn, __u64 where, int take)
{
	struct nest_parts left = {};
	struct fsn_nest *nest;

	for (__u32 i = 0; i < NEST_STEPS && word && !(word & NEST_FOUND); i++)
		word = nest_out(word, fn, where, &left);
	if (!(word & NEST_FOUND))
		return 0;
	nest = nest_at(word);
	if (take && nest)
		nest_add(nest, &left, 0);
	return word & ~NEST_FOUND;
}

/*
 * The call in which one of @fn is made that begins at @where, or 0: to be asked before a
 * slot is claimed for it, which gives up what was left there.
 */
static __always_inline __u64 nest_parent(
	const struct task_struct *task, __u32 fn, __u64 where)
{
	__u64 word = nest_top(task), key, found;
	struct fsn_call *call = nest_call(word, &key);

	if (!call)
		return 0;
	found = encloses(word, call, key, fn, where);
	return found ? found : nest_enclosing(word, fn, where, 1);
}

/* @word with NEST_FOUND if it names a call of @fn, else the next one outwards, or 0. */
__noinline __u64 nest_up(__u64 word, __u32 fn)
{
	struct fsn_nest *nest = nest_at(word);
	__u64 key;

	if (!nest || !nest_call(word, &key))
		return 0;
	return (key & FSN_KEY_FN_MASK) == fn + 1 ? word | NEST_FOUND : READ(nest->parent);
}

/* The innermost call of @fn from @word outwards, or 0. */
__noinline __u64 nest_find(__u64 word, __u32 fn)
{
	for (__u32 i = 0; i < NEST_STEPS && word && !(word & NEST_FOUND); i++)
		word = nest_up(word, fn);
	return word & NEST_FOUND ? word & FSN_OPEN_CALL_MASK : 0;
}

/* --- who called whom -------------------------------------------------------------------- */

static __always_inline __u32 path_first(__u64 key)
{
	return (key * 0x9e3779b97f4a7c15ULL >> 32) & fsn_path_mask;
}

/*
 * The path of a function under another, which is claimed if there is none: in steps that
 * grow, as in counters.bpf.h. Where there is no place, and under that, the last one.
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

/* A call of @fn begins under @under, inside of @again of the same function, if not 0. */
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

/* A call of @fn at @where that is counted, and no more. */
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
 * The call of @fn in the locked @slot begins at @where, in @parent as far as that was
 * known before the slot was claimed. Whether that has jumped to it.
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
	/* The claim has given up what has not come here; the slot may be that one's. */
	if (parent & NEST_JUMPED && !nest_call(parent & FSN_OPEN_CALL_MASK, &key)) {
		parent = nest_enclosing(READ(outer->parent), fn, where, 1);
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
	nest->inner_delay = 0;
	nest->delay = delay_of(task) >> FSN_DELAY_SHIFT; /* or as pause_keep() has it */
	nest->preempted = task->nivcsw;
	nest->open = outer_open | open;
	nest->flags = again ? FSN_NEST_AGAIN : 0;
	path_begin(nest, fn, under, again);
	nest->nth++;
	*mine = word_owner(task) | (nest->nth & NTH_MASK) << FSN_OPEN_NTH_SHIFT | slot;
	return jumped;
}

/* Adds @parts to the call that @word names, if it is not over. */
static __always_inline void nest_take_off(
	__u64 word, const struct nest_parts *parts, __u32 delay)
{
	struct fsn_nest *nest = nest_at(word);
	__u64 key;

	if (nest && nest_call(word, &key))
		nest_add(nest, parts, delay);
}

/* The call that is over, and what is met on the way to it. */
struct nest_passed {
	__u64 where, now;
	__u64 last; /* the outermost that has its place and goes on, or 0 */
	struct nest_parts left; /* of calls that were left */
};

/*
 * A call that continues has taken @took, a part of the time of the call in which it was made. The
 * exit probe is not in that part, because the same probe ends both calls.
 */
static __always_inline void nest_goes_on(
	struct fsn_nest *outer, const struct fsn_nest *nest, const struct fsn_conf *conf, __s64 took)
{
	struct nest_parts parts = {};

	nest_collect(&parts, nest, conf ? conf->overhead_ns : 0);
	parts.inner_ns = (took > 0 ? took : 0) - parts.probes_ns;
	parts.probes_ns += conf ? conf->entry_ns : 0;
	nest_add(outer, &parts, (__u32)(delay_unpaused() >> FSN_DELAY_SHIFT) - nest->delay);
}

/* A step outwards from @word. Returns the next one, or 0. */
__noinline __u64 nest_pass(__u64 word, struct nest_passed *passed)
{
	struct fsn_nest *nest = nest_at(word), *outer;
	const struct fsn_conf *conf;
	struct fsn_call *call;
	__s64 took;
	__u64 key;
	__u32 fn;

	call = nest_call(word, &key);
	if (!nest || !call || !passed || READ(call->where) > passed->where)
		return 0;
	fn = (key & FSN_KEY_FN_MASK) - 1;
	conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	if (READ(call->where) < passed->where) {
		nest_collect(&passed->left, nest, conf ? conf->entry_ns : 0);
		return READ(nest->parent);
	}
	passed->last = word;
	outer = nest_at(nest->parent);
	if (outer && !(nest->flags & FSN_NEST_TAKEN)) {
		took = passed->now - READ(call->start);
		if (fsn_may_pause)
			took -= pause_in(word & FSN_OPEN_SLOT_MASK);
		nest_goes_on(outer, nest, conf, took);
	}
	nest->flags |= FSN_NEST_TAKEN;
	return READ(nest->parent);
}

/*
 * The call in the locked @slot is over, and not the innermost, which @word names. What is
 * inside of it was left, or is at the same place, since it has jumped there: that goes on,
 * is taken off now, and is made from now on in what this one was made in. Returns whether
 * there is such a call.
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
	nest_add(mine, &passed.left, 0);
	nest = passed.last ? nest_at(passed.last) : NULL;
	if (nest)
		nest->parent = mine->parent;
	return nest != NULL;
}

/*
 * The call in the locked @slot is over: the thread is again where that was made. Returns
 * what is known of it, until the slot is given back.
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
	return nest;
}

#define NEST_SHARE 1024 /* parts of a whole; times have 48 bits */

/* The most that a switch adds to a call's time: interrupts, other virtual machines. */
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
 * It ends after @ns, in the thread that has begun it, and took @net without its own probes. Returns its
 * time without the probes inside, and what was lost in them, which @split (or NULL) loses, too; tells
 * the call that it was made in.
 */
static __always_inline __s64 nest_ends(
	const struct task_struct *task, const struct fsn_nest *nest, __u32 fn,
	const struct fsn_conf *conf, __s64 net, __u64 ns, struct fsn_split *split)
{
	struct nest_parts parts = {};
	__u32 delay = (__u32)(delay_unpaused() >> FSN_DELAY_SHIFT) - nest->delay;
	__u64 lost = (__u64)(delay - nest->inner_delay) << FSN_DELAY_SHIFT, probes_ns = 0;

	net -= nest->probes_ns;
	if (delay && lost) {
		/* It may have begun before the call did. */
		lost = lost < ns ? lost : ns;
		/* Latency after a sleep is the call's: a probe is preempted. */
		if ((__u32)task->nivcsw != nest->preempted)
			probes_ns = ns - net;
		lost = nest_lost(fn, net - nest->inner_ns - lost, probes_ns, lost);
		net -= lost;
		if (split)
			split->queued -= lost < split->queued ? lost : split->queued;
	}
	if (!nest->parent || nest->flags & FSN_NEST_TAKEN)
		return net;
	parts.inner_ns = net;
	parts.probes_ns = ns - net + (conf ? conf->rest_ns : 0);
	nest_take_off(nest->parent, &parts, delay);
	return net;
}

/* The call of @fn in the locked @slot goes on unseen: what it called is known, no more. */
static __always_inline void nest_left(__u32 fn, __u32 slot, __u64 now)
{
	const struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	struct fsn_nest *nest = nest_close(bpf_get_current_task_btf(), slot, now);
	struct nest_parts parts = {};

	if (!nest || !conf || !nest->parent || nest->flags & FSN_NEST_TAKEN)
		return;
	nest_collect(&parts, nest, conf->left_ns);
	nest_take_off(nest->parent, &parts, READ(nest->inner_delay));
}

/* A probe that measures nothing has taken @ns of the call that @word names. */
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
	__u64 word = nest_top(bpf_get_current_task_btf()), key;
	struct fsn_call *call = nest_call(word, &key);

	if (call && READ(call->where) >= where)
		nest_probe(word, ns);
	return 0;
}

/* A probe of @fn, or of a place that calls jump to, measures nothing. */
enum nest_hit { HIT_ENTRY, HIT_END, HIT_PASSED, HIT_NONE };
__noinline int nest_hit(__u32 fn, __u64 where, int what)
{
	__u32 i = fn < fsn_fn_cnt ? fn : 0;
	const struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &i);
	__u64 word = nest_top(bpf_get_current_task_btf()), key;
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
 * Where the time of a call went: on the CPU, runnable without one, asleep.
 *
 * Whenever the scheduler adds to a task's runtime it sets exec_start to that moment, and also
 * when it gives the task a CPU. So between two moments at which the task runs
 *
 *	off the CPU = what exec_start has grown by - what sum_exec_runtime has
 *
 * is exact in the run queue's clock, though neither alone is: both may be a tick old. What was
 * queued of it is in run_delay; the rest, it was asleep. A task that was never switched out
 * was on the CPU all the time.
 *
 * That clock of tasks stands still while interrupts or a hypervisor have the CPU, and the time of
 * a call does not. What is lost so is shared out in proportion: how much of it the task slept
 * through, and how much it lost itself, is not known. Where it went on on another CPU, what is
 * behind is more there, or less, so that all of it is taken for time off the CPU.
 */

static __always_inline __u64 switches_of(const struct task_struct *task)
{
	return READ(task->nvcsw) + READ(task->nivcsw);
}

/* What the clock that tasks are measured with is behind by, on the CPU that this one runs on. */
static __always_inline __u64 clock_behind(struct task_struct *task)
{
	struct rq *rq;

	if (!bpf_core_field_exists(task->se.cfs_rq) ||
		!bpf_core_field_exists(task->se.cfs_rq->rq))
		return 0;
	rq = task->se.cfs_rq->rq;
	return rq->clock - rq->clock_task;
}

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
	split->behind = clock_behind(task);
	split->cpu = bpf_get_smp_processor_id();
	split->known = 0;
	split->slept = 0;
	return 0;
}

#define SHARE 1024 /* parts of a whole; times have 48 bits */

/* It was switched out. */
static __noinline int split_off(struct fsn_split *split, __u32 slot, __u64 ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ran = task->se.sum_exec_runtime - split->ran;
	__s64 off, behind, queued, most = ns;

	off = task->se.exec_start - split->start - ran;
	behind = clock_behind(task) - split->behind;
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
 * How the @ns of the call in the locked @slot, which @task began and now ends, are divided;
 * NULL when it has been in another thread's hands, or that is not asked for.
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

/* What is left is the CPU's: net, as the call's time is. */
#define SPLIT_ADD(n, split, net)                                               \
	do {                                                                   \
		add(&(n).on_cpu_ns, (net) - (split)->queued - (split)->blocked); \
		if ((split)->queued)                                           \
			add(&(n).queued_ns, (split)->queued);                  \
		if ((split)->blocked)                                          \
			add(&(n).blocked_ns, (split)->blocked);                \
	} while (0)

#endif
