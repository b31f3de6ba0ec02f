/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slots of calls in progress. A slot is free, locked by a reader or writer, a call, or a
 * ghost (an abandoned call).
 *
 *	free -> locked -> call		an entry (slot_claim, slot_publish)
 *	call, ghost -> locked -> free	a return (slot_take, slot_publish)
 *	call -> ghost			abandoned by a later entry here or by a sweep, which
 *					counts it as abandoned
 *	ghost -> locked			an entry that finds no free slot
 *	call -> locked			the same, if the call's thread is dead (slot_claim_over)
 *	call, ghost -> free		abandoned, and no return may match it (slot_clear)
 *	call -> locked -> call		it leaves through a tracked tail call (slot_leaves)
 *
 * Each transition from an unlocked state is a compare-and-exchange of the key, which
 * increments the generation; only the winner counts it. The rest of the slot is read
 * after the key. It therefore belongs to this key or to a later one, and then the
 * exchange fails.
 *
 * Ghosts exist because it is never certain that a call cannot return any more. A fiber
 * continues in another thread when its thread has exited. Coroutines that copy their
 * stacks have many calls at one stack address: the first return takes the call and each
 * later one a ghost, so that the sum of their times is right even if the pairs are not. A
 * return takes a ghost only if no call matches. The entry of an untracked call clears
 * older ghosts (slot_clear()).
 *
 * A return counts "revived" before it counts as a return, and readers read it last. A
 * reader that misses one of the two sees a call in progress, never a call that returned
 * twice. "Abandoned" is counted after the exchange, so "revived" may be larger for a
 * moment.
 */
#pragma once

#include "counters.bpf.h"
#include "mapping.bpf.h"

const volatile bool fsn_zero_frees = false; /* some function has fsn_conf.zero */

const volatile __u32 fsn_set_shift = 63; /* 64 - bits of a set's number */
const volatile __s32 fsn_held_max = 0, fsn_held_many = 0;

static __always_inline __u32 set_index(__u32 tgid, __u64 where)
{
	return ((where ^ (__u64)tgid << 40) * 0x9e3779b97f4a7c15ULL) >> fsn_set_shift;
}

static __always_inline __u64 call_key(__u32 fn, __u32 tgid)
{
	return (fn + 1) | (__u64)tgid << FSN_KEY_TGID_SHIFT;
}

static __always_inline __u64 next_gen(__u64 key)
{
	return (key & FSN_KEY_GEN_MASK) + FSN_KEY_GEN;
}

static __always_inline struct fsn_stat *stat_of_key(__u64 key)
{
	return stat_of((key & FSN_KEY_FN_MASK) - 1, bpf_get_smp_processor_id());
}

/* Counts the call of @key as lost in the streams that select it (stream.bpf.h). */
int stream_unseen(__u64 key);

/* Counts an abandoned call. While its link is replaced, its return may have come unseen. */
__noinline int count_abandoned(__u64 key)
{
	struct fsn_stat *stat = stat_of_key(key);
	__u32 turn = READ(ctl.turn);

	if (!stat)
		return 0;
	if (!turn || !((key >> FSN_KEY_TURN_SHIFT ^ turn) & 1)) {
		add(&stat->n.abandoned, 1);
		return 0;
	}
	add(&stat->n.unseen, 1);
	return stream_unseen(key);
}

static __noinline int count_revived(__u64 key)
{
	struct fsn_stat *stat = stat_of_key(key);

	if (stat)
		add(&stat->n.revived, 1);
	return 0;
}

/* True if the slot with key @seen is of the process of @key and at stack address @where. */
static __always_inline bool is_here(
	const struct fsn_set *set, int way, __u64 seen, __u64 key, __u64 where)
{
	return !((seen ^ key) & FSN_KEY_TGID_MASK) &&
	       READ(set->call[AFTER(seen, way)].where) == where;
}

/* --- calls of goroutines ------------------------------------------------------------ */

/*
 * fsn_call.where of a call of goroutine @g with the return address at @sp. It is @sp if
 * that is not on the goroutine's stack, as in a signal handler. struct runtime.g starts
 * with the limits of the stack (Go's src/runtime/runtime2.go). Not static, so that it is
 * verified once.
 */
__noinline __u64 goroutine_place(__u64 g, __u64 sp)
{
	__u64 stack[2], frame;

	if (bpf_probe_read_user(stack, sizeof(stack), (void *)g) || sp < stack[0])
		return sp;
	frame = (stack[1] - sp) / sizeof(sp);
	if (frame >= FSN_G_FRAMES)
		return sp;
	return FSN_GOROUTINE | ((g >> FSN_G_SHIFT) * FSN_G_FRAMES + frame) % FSN_GOROUTINE;
}

/* fsn_call.where of a call with the return address at @sp. */
static __always_inline __u64 call_place(const struct pt_regs *ctx, __u64 cookie, __u64 sp)
{
	if (!fsn_goroutines || !(cookie >> FSN_COOKIE_GO_SHIFT & 1))
		return sp;
	return goroutine_place(REG_GOROUTINE(ctx), sp);
}

/*
 * True if the call at @where is of a goroutine. Other threads may continue it, so neither
 * nesting nor CPU times are tracked, which belong to a thread.
 */
static __always_inline bool is_of_goroutine(__u64 where)
{
	return fsn_goroutines && where & FSN_GOROUTINE && (__s64)where > 0;
}

/* --- slots per process -------------------------------------------------------------- */

/*
 * Limits the slots of one process. Only slots after the first of a set are counted. Most
 * calls get a first one, which costs nothing here.
 */
static __always_inline __u32 *held_by(__u64 key)
{
	__u32 none = 0;
	struct fsn_held *held = bpf_map_lookup_elem(&fsn_held, &none);

	if (!held)
		return NULL;
	return &held->cnt[(key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT & (FSN_HELD_CNT - 1)];
}

__noinline int held_add(__u64 key, int way, __u32 n)
{
	__u32 *held = way ? held_by(key) : NULL;

	if (held)
		add(held, n);
	return 0;
}

/*
 * Number of a set's slots that a process may use. A process with many slots leaves the
 * last one to others, because its calls can fill some sets long before it has its share
 * of the table.
 */
static __always_inline int ways_for(__u64 key)
{
	__u32 *held = held_by(key);
	__s32 cnt = held ? READ(*held) : 0;
	__u64 ways = cnt >= fsn_held_max ? 1 : cnt >= fsn_held_many ? FSN_WAYS - 1 : FSN_WAYS;

	/*
	 * A no-op that hides the value from the verifier, which would otherwise check
	 * each value separately.
	 */
	asm volatile("%0 ^= %1; %0 ^= %1" : "+r"(ways) : "r"(key));
	return ways;
}

/* --- calls that left through a tail call ------------------------------------------------------ */

/* The return address of the call whose stack pointer is @where, or 0. */
static __always_inline __u64 return_address(__u64 where, __u64 link)
{
#if defined(__TARGET_ARCH_x86)
	if (bpf_probe_read_user(&link, sizeof(link), (void *)where))
		return 0;
#endif
	return link;
}

static __always_inline struct fsn_mark *mark_of(__u32 set_no, int way)
{
	__u32 i = set_no * FSN_WAYS + way;

	return bpf_map_lookup_elem(&fsn_marks, &i);
}

/*
 * True if the call left through a tail call and did not reach its target: another file's function
 * did.
 */
static __always_inline bool is_astray(struct fsn_set *set, int way, __u64 seen)
{
	__u64 where = READ(set->call[AFTER(seen, way)].where);
	struct fsn_mark *mark;

	mark = mark_of(set_index((seen & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT, where), way);
	return mark && mark->waits == FSN_MARK_WAITS;
}

/*
 * True if the call has left its file, and returns to a probed place at the address @back: others with
 * that address are of functions that it has led to.
 */
static __always_inline bool is_behind(const struct fsn_mark *mark, __u64 seen, __u64 back)
{
	return seen & FSN_KEY_LEFT && mark && mark->waits == FSN_MARK_BEHIND && mark->back == back;
}

/* True if the call is a wait of a thread; see wait.bpf.h. */
static __always_inline bool is_wait(__u64 key)
{
	__u32 fn = key & FSN_KEY_FN_MASK;

	return fsn_waits && (fn == fsn_off_cpu || fn == fsn_run_queue);
}

/*
 * Abandons a call. A call that left through a tail call leaves no ghost. Nor does a wait, because
 * its end could not be distinguished from that of the thread's next one.
 */
__noinline int slot_drop(struct fsn_set *set, int way, __u64 seen)
{
	__u64 next = next_gen(seen);
	struct fsn_stat *stat;
	bool astray = false;

	if (!set)
		return 0;
	way &= FSN_WAYS - 1;
	if (seen & FSN_KEY_LEFT)
		astray = is_astray(set, way, seen);
	else if (!is_wait(seen))
		next |= (seen & FSN_KEY_USED_MASK) | FSN_KEY_GHOST;
	if (!swap(&set->key[way], seen, next))
		return 0;
	held_add(seen, way, -1);
	if (!astray)
		return count_abandoned(seen);
	stat = stat_of_key(seen);
	if (stat)
		add(&stat->n.jumped, 1);
	return 0;
}

#define ARRIVED     1 /* some call continues here */
#define ARRIVED_OWN 2 /* an outer call of the same function does */

/*
 * Handles the entry of a tail call's target. Calls that left through a tail call to it
 * continue here. All other calls that left at this stack address are abandoned, also
 * those that arrived here before. Returns a mask of ARRIVED and ARRIVED_OWN.
 */
__noinline int slots_arrive(struct fsn_set *set, __u64 key, __u64 where, __u64 link)
{
	__u32 no = set_index((key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT, where);
	__u64 seen, back = 0;
	struct fsn_mark *mark;
	int arrived = 0;

	if (!set)
		return 0;
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!(seen & FSN_KEY_LEFT) || !is_here(set, i, seen, key, where))
			continue;
		if (!back)
			back = return_address(where, link);
		mark = mark_of(no, i);
		if ((seen ^ key) & FSN_KEY_FN_MASK && is_behind(mark, seen, back))
			continue;
		if (!mark || mark->to + 1 != (key & FSN_KEY_FN_MASK) ||
			mark->waits != FSN_MARK_WAITS || mark->back != back) {
			slot_drop(set, i, seen);
			continue;
		}
		mark->waits = 0;
		if (mark->to >= fsn_fn_cnt)
			mark->hits++;
		arrived |= (seen ^ key) & FSN_KEY_FN_MASK ? ARRIVED : ARRIVED | ARRIVED_OWN;
	}
	return arrived;
}

/* --- slots of calls that cannot return ---------------------------------------------- */

/*
 * True if the thread of a call has exited. Its task_struct may have been freed and
 * reused, so it is read as untrusted memory, and all of its identity must match.
 */
static __always_inline bool is_dead(const struct fsn_call *call, __u64 key)
{
	struct task_struct *task = (struct task_struct *)call->task;
	__u32 tgid = (key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT;
	__u64 begun = 0;
	__u32 id = 0;

	if (bpf_probe_read_kernel(&id, sizeof(id), &task->tgid) || id != tgid)
		return true;
	if (bpf_probe_read_kernel(&id, sizeof(id), &task->pid) || id != call->tid)
		return true;
	if (bpf_probe_read_kernel(&id, sizeof(id), &task->exit_state) || id)
		return true;
	return bpf_probe_read_kernel(&begun, sizeof(begun), &task->start_time) ||
		begun > call->start;
}

/* Minimum distance from the stack to the mappings below it (MIN_GAP, arch/.../mmap.c). */
#define FIRST_STACK (128ULL << 20)

/*
 * Start address of the stack of the process's first thread if @task is that thread, else
 * 0.
 */
static __always_inline __u64 first_stack(const struct task_struct *task)
{
	return task->pid == task->tgid && task->mm ? task->mm->start_stack : 0;
}

/*
 * True if the call was left: it is below @where, the stack pointer of a new call, and both are on
 * the stack of the process's first thread, which starts at @top and is current. Boundaries between
 * stacks of other threads and fibers are not known.
 */
static __always_inline bool is_left(
	struct task_struct *task, const struct fsn_call *call, __u64 where, __u64 top)
{
	return call->task == (__u64)task && call->where < where && where <= top &&
	       call->where > top - FIRST_STACK;
}

/* Claims the slot of a call that cannot return any more. Returns the way or -1. */
__noinline int slot_claim_over(struct fsn_set *set, __u64 key, __u64 where)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 seen, top = first_stack(task);
	struct fsn_call *call;

	if (!set)
		return -1;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		call = &set->call[AFTER(seen, i)];
		if (!(seen & FSN_KEY_TGID_MASK) || seen & FSN_KEY_GHOST)
			continue;
		if (!is_left(task, call, where, top) && !is_dead(call, seen))
			continue;
		if (!swap(&set->key[i], seen, next_gen(seen) | FSN_KEY_LOCKED))
			continue;
		count_abandoned(seen);
		held_add(seen, i, -1);
		held_add(key, i, 1);
		return i;
	}
	return -1;
}

/*
 * Claims the slot of the oldest ghost in the first @ways. Returns the way or -1. Time and
 * way are one number, so that the verifier does not check each way separately.
 */
__noinline int slot_claim_ghost(struct fsn_set *set, int ways)
{
	__u64 seen, start, key = 0, oldest = ~0ULL;
	__u32 way;

	if (!set)
		return -1;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		start = READ(set->call[AFTER(seen, i)].start) * FSN_WAYS + i;
		if (i < ways && seen & FSN_KEY_GHOST && start < oldest) {
			oldest = start;
			key = seen;
		}
	}
	way = oldest % FSN_WAYS;
	if (!(key & FSN_KEY_GHOST) || !swap(&set->key[way], key, next_gen(key) | FSN_KEY_LOCKED))
		return -1;
	return way;
}

#define SLOT_CROWD (-2)
#define SLOT_INNER (-3)
#define SLOT_OTHER_STACK (-4) /* no slot: its return must not be traced */
#define SLOT_PAUSED (-5)      /* no slot: a hold is about to stop its process */
/* no slot: the thread has the maximum number of pending return probes */
#define SLOT_TOO_DEEP (-6)

/*
 * Claims a slot of the set for a call and leaves it locked. Abandons older calls at the same stack
 * pointer that cannot be live any more. Returns the way, -1, SLOT_CROWD, or SLOT_INNER if the call
 * is part of another one. Global, so that the verifier checks it once.
 */
__noinline int slot_claim(struct fsn_set *set, __u64 key, __u64 where, __u64 link)
{
	__u64 seen;
	int mine = -1, ways = ways_for(key);

	if (!set)
		return -1;
	if (fsn_follows && slots_arrive(set, key, where, link) & ARRIVED_OWN)
		return SLOT_INNER;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!(seen & FSN_KEY_USED_MASK) || seen & (FSN_KEY_GHOST | FSN_KEY_LEFT) ||
			!is_here(set, i, seen, key, where))
			continue;
		if (!((seen ^ key) & FSN_KEY_FN_MASK) || seen & FSN_KEY_BYRET)
			slot_drop(set, i, seen);
	}
#pragma unroll
	for (int i = 0; i < FSN_WAYS && mine < 0; i++) {
		seen = READ(set->key[i]);
		if (i < ways && !(seen & FSN_KEY_USED_MASK) &&
			swap(&set->key[i], seen, next_gen(seen) | FSN_KEY_LOCKED))
			mine = i;
	}
	if (mine < 0)
		mine = slot_claim_ghost(set, ways);
	if (mine >= 0) {
		held_add(key, mine, 1);
		return mine;
	}
	mine = slot_claim_over(set, key, where);
	return mine < 0 && ways < FSN_WAYS ? SLOT_CROWD : mine;
}

/* The most recent ghost with this key. Returns the way or -1. */
__noinline int slot_find_ghost(struct fsn_set *set, __u64 key, __u64 where)
{
	__u64 seen, start, youngest = 0;
	int way = -1;

	if (!set)
		return -1;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!(seen & FSN_KEY_GHOST) || ((seen ^ key) & FSN_KEY_FN_MASK) ||
			!is_here(set, i, seen, key, where))
			continue;
		start = READ(set->call[AFTER(seen, i)].start);
		if (start >= youngest) {
			youngest = start;
			way = i;
		}
	}
	return way;
}

/*
 * Locks the slot of a call at this stack address, or else of a ghost. Its contents stay
 * until slot_publish(). Returns the way, or -1 if there is none.
 */
__noinline int slot_take(struct fsn_set *set, __u64 key, __u64 where)
{
	__u64 seen;
	int way;

	if (!set)
		return -1;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if ((seen ^ key) & (FSN_KEY_FN_MASK | FSN_KEY_GHOST | FSN_KEY_LEFT) ||
			!is_here(set, i, seen, key, where))
			continue;
		if (swap(&set->key[i], seen, next_gen(seen) | FSN_KEY_LOCKED)) {
			held_add(seen, i, -1);
			return i;
		}
	}
	way = slot_find_ghost(set, key, where);
	if (way < 0)
		return -1;
	way &= FSN_WAYS - 1;
	seen = READ(set->key[way]);
	if (!(seen & FSN_KEY_GHOST) || ((seen ^ key) & FSN_KEY_FN_MASK) ||
		!is_here(set, way, seen, key, where) ||
		!swap(&set->key[way], seen, next_gen(seen) | FSN_KEY_LOCKED))
		return -1;
	count_revived(seen);
	return way;
}

/* True if the set has a call or a ghost. For most returns of uncounted calls it has neither. */
static __always_inline bool set_is_used(const struct fsn_set *set)
{
	__u64 used = 0;

#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++)
		used |= READ(set->key[i]);
	return used & FSN_KEY_USED_MASK;
}

/* Fast path: the set is empty, so there is no call to abandon and the first way is free. */
static __always_inline int slot_claim_first(
	struct fsn_set *set, __u64 key, __u64 where, __u64 link)
{
	__u64 first = READ(set->key[0]), used = first;

#pragma unroll
	for (int i = 1; i < FSN_WAYS; i++)
		used |= READ(set->key[i]);
	if (!(used & FSN_KEY_USED_MASK) &&
		swap(&set->key[0], first, next_gen(first) | FSN_KEY_LOCKED))
		return 0;
	return slot_claim(set, key, where, link);
}

/* Fast path of slot_take(): the call is in the first way. */
static __always_inline int slot_take_first(struct fsn_set *set, __u64 key, __u64 where)
{
	__u64 seen = READ(set->key[0]);

	if (!((seen ^ key) & (FSN_KEY_CALL_MASK | FSN_KEY_GHOST | FSN_KEY_LEFT)) &&
		READ(set->call[AFTER(seen, 0)].where) == where &&
		swap(&set->key[0], seen, next_gen(seen) | FSN_KEY_LOCKED))
		return 0;
	return slot_take(set, key, where);
}

/* The way of the call under @key, or -1. Not static, so that it is verified once. */
__noinline int slot_find(struct fsn_set *set, __u64 key, __u64 where)
{
	__u64 seen;
	int way = -1;

	if (!set)
		return -1;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!((seen ^ key) & (FSN_KEY_CALL_MASK | FSN_KEY_GHOST)) &&
			READ(set->call[AFTER(seen, i)].where) == where)
			way = i;
	}
	return way;
}

/*
 * Abandons the call or ghost under the key of an untracked call. The return of the untracked call
 * may still be traced, and would be matched with the older call. The second pass covers slots that
 * a sweep has changed meanwhile.
 */
__noinline int slot_clear(struct fsn_set *set, __u64 key, __u64 where)
{
	__u64 seen;
	int way;

	if (!set)
		return 0;
#pragma unroll
	for (int i = 0; i < FSN_WAYS * 2; i++) {
		way = i % FSN_WAYS;
		seen = READ(set->key[way]);
		if (((seen ^ key) & FSN_KEY_FN_MASK) || !is_here(set, way, seen, key, where))
			continue;
		if (!swap(&set->key[way], seen, next_gen(seen)) || seen & FSN_KEY_GHOST)
			continue;
		count_abandoned(seen);
		held_add(seen, way, -1);
	}
	return 0;
}

/* Unlocks a slot and sets its key, 0 for a free slot. The generation is unchanged. */
static __always_inline void slot_publish(struct fsn_set *set, int way, __u64 key)
{
	publish(&set->key[way], (set->key[way] & FSN_KEY_GEN_MASK) | key);
}

/* True if the entry of the call in @slot found a size of 0. */
static __always_inline bool slot_of_zero(__u32 slot)
{
	__u32 index = slot / FSN_WAYS;
	struct fsn_set *set;

	if (!fsn_zero_frees)
		return false;
	set = bpf_map_lookup_elem(&fsn_slots, &index);
	return set && set->call[slot % FSN_WAYS].proc & FSN_OF_ZERO;
}

/* Returns FSN_CALL_... flags of a call whose slot is locked. */
static __noinline __u32 slot_flags(__u32 slot)
{
	__u32 index = slot / FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &index);
	struct fsn_split *split;
	struct fsn_call *call;
	__u32 flags = 0;

	if (!set)
		return FSN_CALL_NO_ARGS;
	call = &set->call[slot % FSN_WAYS];
	if (!(call->proc & FSN_HAS_ARGS))
		flags |= FSN_CALL_NO_ARGS;
	split = fsn_split ? bpf_map_lookup_elem(&fsn_splits, &slot) : NULL;
	if (split && split->known && !is_of_goroutine(call->where))
		flags |= FSN_CALL_SPLIT;
	return flags;
}

/*
 * Decides whether a call may have a return probe.
 *
 * The kernel keeps a list of the return addresses that it has replaced, for each thread. It takes
 * the thread's stack for one piece of memory: an entry below the stack pointer of a later call is
 * dropped (cleanup_return_instances(), kernel/events/uprobes.c), and the thread is killed if that
 * call returns after all. So a call on another stack than the thread's own has no return probe:
 * fibers and coroutines run there, whether they switch by themselves or in a signal handler. A
 * handler on an alternate signal stack may have return probes unless it interrupts a call that has
 * one. The list has at most 64 entries.
 */

#define MAX_RETURNS 64 /* MAX_URETPROBE_DEPTH, include/linux/uprobes.h */

/* The link that replaces the return address of a tracked call. */
enum hijack {
	HIJACK_NONE,    /* its return is traced in another way */
	HIJACK_SESSION, /* a session program, which can skip the return of a call */
	HIJACK_ALWAYS,  /* a return probe */
};

#define OWN_STACK_TAG ((1ULL << 28) - 1)

/*
 * True if @where is on the stack that the current thread, which is not the first one, was
 * created with: in the mapping of its thread pointer, below that pointer. Caches the
 * lowest page of the mapping by a hash of the thread and its address space. Page and low
 * bits of the hash are one word, so that they are written at once. Not static, so that it
 * is verified once.
 */
__noinline int is_on_thread_stack(__u64 where)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 pointer = thread_pointer(task), hash, known, start;
	volatile __u64 *word;
	__u32 none = 0;
	struct fsn_held *held = bpf_map_lookup_elem(&fsn_held, &none);

	if (!held || where >= pointer)
		return 0;
	hash = (pointer ^ as_number(task->mm) << 8 ^ task->start_time << 20) *
	       0x9e3779b97f4a7c15ULL;
	word = &held->own_stack[hash >> 32 & (FSN_OWN_STACKS - 1)];
	known = *word;
	if (known && !((known ^ hash) & OWN_STACK_TAG))
		return where >= known >> 28 << 12;
	/* Try again, because mappings may have been changing. */
	if (!mapping_at(pointer, &start) && !mapping_at(pointer, &start))
		return 0;
	*word = start >> 12 << 28 | (hash & OWN_STACK_TAG);
	return where >= start;
}

/* Returns 0 if a return probe is safe, else the error of slot_claim(). */
static __always_inline int return_is_unsafe(
	struct task_struct *task, __u64 where, enum hijack hijack)
{
	__u64 top;

	if (hijack == HIJACK_NONE)
		return 0;
	if (task->utask && task->utask->depth >= MAX_RETURNS)
		return SLOT_TOO_DEEP;
	if (hijack != HIJACK_SESSION)
		return 0;
	if (where - task->sas_ss_sp < task->sas_ss_size)
		return task->utask && task->utask->return_instances ? SLOT_OTHER_STACK : 0;
	/*
	 * The first thread's thread pointer is in another mapping, which can grow by
	 * mappings below it, such as stacks of fibers.
	 */
	top = first_stack(task);
	if (top ? top - where < FIRST_STACK : is_on_thread_stack(where))
		return 0;
	return SLOT_OTHER_STACK;
}
