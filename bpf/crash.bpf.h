/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that die: by a signal, or with an exit status other than 0. The programs here copy calls
 * in progress, registers and the stack into a record. A call only keeps its argument registers.
 *
 * Recursion: each call is a record of its own. longjmp, exceptions: calls below the stack pointer
 * are left out. Threads: the first one that gets here makes the record, which is the one that took
 * the signal or has called exit. exec: other threads end without a record, calls on stacks that are
 * gone are left out. fork: the child has no calls. Fibers: calls on all stacks of the thread are in progress.
 */
#pragma once

#include "filter.bpf.h"
#include "hold.bpf.h"
#include "stacks.bpf.h"
#include "stream.bpf.h"

#define SIGNAL_GROUP_EXIT 4    /* include/linux/sched/signal.h */
#define SIGNAL_UNKILLABLE 64   /* the first process of a PID namespace */
#define PF_IO_WORKER 0x00000010U /* include/linux/sched.h: it has no registers of its own */

#if defined(__TARGET_ARCH_x86)
#define NR_EXIT_GROUP 231
#elif defined(__TARGET_ARCH_arm64)
#define NR_EXIT_GROUP 94
#endif

#define CRASH_BLOCK 16 /* words that are read at once: a page has whole blocks */
#define CRASH_LOOKS 256 /* maximum number of searches for a mapping: interrupts are off */
#define CRASH_ADDRESS_BITS 56 /* of a user address, at most */

/*
 * Processes with a record: 1 + its number, by dying_key(). None is removed, because two threads can
 * both find that they are the last one.
 */
MAP(fsn_dying, LRU_HASH, __u64, __u64, 1024);

/* The process of @task, also if its number was used before. */
static __always_inline __u64 dying_key(const struct task_struct *task)
{
	return task->group_leader->start_boottime << 22 | (__u32)task->tgid;
}

/* For the record at the same index. */
struct crash_work {
	struct mapping mapping;
	__u64 seq; /* of the record, while it is being written; else 0 */
	__u64 low; /* no mapping of interest is below */
	__u64 looks;
};

MAP(fsn_crash_work, ARRAY, __u32, struct crash_work, FSN_CRASHES);

/* --- calls in progress -------------------------------------------------------------------------- */

struct crash_seek {
	__u64 now, start; /* of the process */
	__u64 below, sp;  /* calls in between were left */
	__u32 i;          /* the record */
	__u32 tgid, tid;
	__u32 all; /* threads of the process */
	__u32 found;
};

/*
 * The functions here are not static, so that each is verified once, on its own.
 *
 * The place for a call that began at @start: free, or of the oldest one; FSN_CRASH_CALLS: none.
 */
__noinline __u32 crash_place(struct fsn_crash *c, __u64 start)
{
	__u64 other, oldest = start * FSN_CRASH_CALLS;
	__u32 cnt;

	if (!c)
		return FSN_CRASH_CALLS;
	cnt = c->call_cnt++;
	if (cnt < FSN_CRASH_CALLS)
		return cnt;
	/* Time and place are one number, as in slot_claim_ghost(). */
	for (__u32 n = 0; n < FSN_CRASH_CALLS; n++) {
		other = c->call[n].start * FSN_CRASH_CALLS + n;
		if (other < oldest)
			oldest = other;
	}
	return oldest < start * FSN_CRASH_CALLS ? oldest % FSN_CRASH_CALLS : FSN_CRASH_CALLS;
}

/* Copies what was kept of the call in @slot, or else reads it now. Returns 1 if there is some. */
__noinline int crash_more(struct fsn_crash_call *call, __u32 to, __u32 slot, __u32 is_kept)
{
	struct fsn_more *more = bpf_map_lookup_elem(&fsn_more, &slot);
	struct fsn_more *kept = bpf_map_lookup_elem(&fsn_crash_more, &to);
	struct fsn_conf *conf;
	__u32 fn;

	if (!call || !more || !kept)
		return 0;
	if (is_kept) {
		more_copy(kept, more);
		return 1;
	}
	fn = call->fn;
	conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	if (!conf || !CURRENT_READ(mm) || call->where >> CRASH_ADDRESS_BITS)
		return 0;
	more_read(conf, &call->args, kept, call->where);
	return 1;
}

static __always_inline struct fsn_crash *crash_at(__u32 i)
{
	return bpf_map_lookup_elem(&fsn_crashes, &i);
}

/*
 * Copies the call in @slot, which had @key. Other threads continue: it may end meanwhile, or have
 * started after @now.
 */
__noinline int crash_call(__u32 i, __u32 slot, __u64 now, __u64 key)
{
	struct fsn_args *args = bpf_map_lookup_elem(&fsn_args, &slot);
	struct fsn_crash *c = crash_at(i);
	__u32 index = slot / FSN_WAYS, place;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &index);
	struct fsn_crash_call *to;
	struct fsn_call *call;

	if (!c || !args || !set)
		return 0;
	call = &set->call[slot % FSN_WAYS];
	place = crash_place(c, call->start);
	if (place >= FSN_CRASH_CALLS)
		return 0;
	to = &c->call[place];
	to->start = call->start;
	to->where = call->where;
	to->age_ns = now > to->start ? unpaused(slot, now - to->start) : 0;
	to->fn = (key & FSN_KEY_FN_MASK) - 1;
	to->tid = call->tid;
	to->has_args = call->proc & (FSN_HAS_ARGS | FSN_HAS_REGS);
	to->has_more = 0;
	__builtin_memcpy(&to->args, args, sizeof(*args));
	if (fsn_has_more && to->has_args)
		to->has_more = crash_more(to, i * FSN_CRASH_CALLS + place, slot, call->proc & FSN_HAS_ARGS);
	if (__sync_fetch_and_add(&set->key[slot % FSN_WAYS], 0) != key)
		to->fn = FSN_CRASH_NO_FN;
	return 0;
}

/* Calls below the stack pointer, on the same stack, were left by longjmp. */
static long crash_set(void *map, __u32 *index, struct fsn_set *set, struct crash_seek *s)
{
	const struct fsn_call *call;
	__u64 key;

	for (__u32 way = 0; way < FSN_WAYS; way++) {
		key = READ(set->key[way]);
		call = &set->call[way];
		if ((key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT != s->tgid || key & FSN_KEY_GHOST)
			continue;
		if (call->tid == s->tid ? call->where >= s->below && call->where < s->sp : !s->all)
			continue;
		crash_call(s->i, *index * FSN_WAYS + way, s->now, key);
	}
	return 0;
}

/* Drops call @n of record @i if execve() has replaced the stack that it was on. Returns 1 after the last. */
__noinline int crash_drop_replaced(__u32 i, __u32 n)
{
	struct crash_work *work = bpf_map_lookup_elem(&fsn_crash_work, &i);
	struct fsn_crash *c = crash_at(i);
	struct mapping *m;
	__u64 where;

	if (!c || !work || n >= FSN_CRASH_CALLS || n >= c->call_cnt)
		return 1;
	where = c->call[n].where;
	if (where >> CRASH_ADDRESS_BITS) /* of an event */
		return 0;
	m = &work->mapping;
	m->start = m->end = 0;
	if (mapping_find(m, where) == FSN_WALK_NOWHERE && !m->end)
		c->call[n].fn = FSN_CRASH_NO_FN;
	return 0;
}

/* --- the stack ---------------------------------------------------------------------------------- */

/* Keeps the mapping that @at points to, unless it is known. */
__noinline int crash_word(struct fsn_crash *c, struct crash_work *work, __u64 at)
{
	struct fsn_crash_map *to;
	struct mapping *m;
	bool is_code;
	__u32 cnt;

	if (!c || !work || at < work->low || at >> CRASH_ADDRESS_BITS)
		return 0;
	cnt = c->map_cnt;
	if (cnt >= FSN_CRASH_MAPS || work->looks >= CRASH_LOOKS)
		return 0;
	for (__u32 i = 0; i < FSN_CRASH_MAPS && i < cnt; i++)
		if (at - c->map[i].start < c->map[i].end - c->map[i].start)
			return 0;
	/* Read again: the verifier would check what follows for each number that the loop ends with. */
	cnt = READ(c->map_cnt);
	if (cnt >= FSN_CRASH_MAPS)
		return 0;
	m = &work->mapping;
	work->looks++;
	m->start = m->end = 0;
	is_code = !mapping_find(m, at) && m->id.ino;
	if (!m->end)
		return 0;
	to = &c->map[cnt];
	to->start = m->start;
	to->end = m->end;
	to->offset = m->offset - (at - m->start);
	to->id.dev = is_code ? m->id.dev : 0;
	to->id.version = is_code ? m->id.version : 0;
	to->id.ino = is_code ? m->id.ino : 0;
	c->map_cnt = cnt + 1;
	return is_code ? mapping_name(m) : 0;
}

/*
 * Copies a block of the stack, from word @n on, and keeps the mappings that its words point to.
 * Returns 1 if it can't be read.
 */
__noinline int crash_block(__u32 i, __u32 n)
{
	struct crash_work *work = bpf_map_lookup_elem(&fsn_crash_work, &i);
	struct fsn_crash *c = crash_at(i);

	if (!c || !work || n > FSN_CRASH_WORDS - CRASH_BLOCK ||
		bpf_probe_read_user(&c->stack[n], CRASH_BLOCK * 8, (void *)(c->stack_at + n * 8)))
		return 1;
	c->word_cnt = n + CRASH_BLOCK;
	for (__u32 k = 0; k < CRASH_BLOCK; k++)
		crash_word(c, work, c->stack[n + k]);
	return 0;
}

/*
 * Copies the stack from the block on in which the stack pointer is, to where it can't be read. If
 * the pointer is below the stack, after an overflow: from the next page on. Keeps the mappings of the
 * stack and of the code.
 */
__noinline int crash_stack(__u32 i)
{
	struct crash_work *work = bpf_map_lookup_elem(&fsn_crash_work, &i);
	struct mm_struct *mm = CURRENT_READ(mm);
	__u64 code = BPF_CORE_READ(mm, start_code), mmap = BPF_CORE_READ(mm, mmap_base);
	struct fsn_crash *c = crash_at(i);

	if (!c || !work)
		return 0;
	c->stack_at = c->at.sp & ~(CRASH_BLOCK * 8ULL - 1);
	if (bpf_probe_read_user(c->stack, CRASH_BLOCK * 8, (void *)c->stack_at))
		c->stack_at = ((c->at.sp >> fsn_page_shift) + 1) << fsn_page_shift;
	/* Libraries are below the program if the size of the stack is not limited. */
	work->low = code < mmap ? code : mmap;
	work->looks = 0;
	crash_word(c, work, c->stack_at);
	c->stack_start = c->map_cnt ? c->map[0].start : 0;
	crash_word(c, work, c->at.pc);
	for (int n = 0; n < FSN_RETURNS_MAX; n++)
		crash_word(c, work, c->at.to[n]);
	for (__u32 n = 0; n < FSN_CRASH_WORDS; n += CRASH_BLOCK)
		if (crash_block(i, n))
			break;
	return 0;
}

/* --- a record ----------------------------------------------------------------------------------- */

const volatile struct fsn_thread fsn_no_thread = {};

__noinline int crash_fill(__u32 i)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fsn_crash *c = crash_at(i);

	if (!c)
		return 0;
	c->start = CURRENT_READ(group_leader, start_boottime);
	c->time_ns = bpf_ktime_get_ns();
	bpf_get_current_comm(c->comm, sizeof(c->comm));
	c->call_cnt = c->map_cnt = c->word_cnt = 0;
	c->stack_start = 0;
	c->at = *(const struct fsn_thread *)&fsn_no_thread;
	thread_fill(&c->at, task);
	return 0;
}

/*
 * The process ends now: by @signal, or 0, with @status. @all: by no fault of this thread, so that
 * the calls of all threads are of interest. Returns the number of the record, or -1.
 */
__noinline int crash_keep(__u32 signal, __u32 status, __u32 all)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct crash_seek s = { .tgid = task->tgid, .tid = task->pid, .all = all };
	struct crash_work *work;
	struct fsn_crash *c;
	__u64 seq = 0, key = dying_key(task);

	if (bpf_map_update_elem(&fsn_dying, &key, &seq, BPF_NOEXIST))
		return -1;
	seq = __sync_fetch_and_add(&ctl.crashes, 1);
	s.i = seq++ % FSN_CRASHES;
	c = crash_at(s.i);
	work = bpf_map_lookup_elem(&fsn_crash_work, &s.i);
	/* More processes than there are records may die at once: this one then has none. */
	if (!c || !work || bpf_map_update_elem(&fsn_dying, &key, &seq, BPF_ANY) ||
		!swap(&work->seq, 0, seq))
		return -1;
	(void)__sync_lock_test_and_set(&c->seq, 0);
	c->signal = signal;
	c->status = status;
	c->flags = signal == SIGKILL ? FSN_CRASH_PENDING : 0;
	crash_fill(s.i);
	/* At an exit it is gone before 6.16. */
	if (CURRENT_READ(mm))
		crash_stack(s.i);
	s.now = c->time_ns;
	s.sp = c->at.sp;
	s.below = c->stack_start ? c->stack_start : s.sp;
	bpf_for_each_map_elem(&fsn_slots, crash_set, &s, 0);
	for (__u32 n = 0; CURRENT_READ(mm) && n < FSN_CRASH_CALLS; n++)
		if (crash_drop_replaced(s.i, n))
			break;
	return s.i;
}

static __always_inline void crash_publish(__u32 i)
{
	struct crash_work *work = bpf_map_lookup_elem(&fsn_crash_work, &i);
	struct fsn_crash *c = crash_at(i);

	if (!c || !work)
		return;
	(void)__sync_lock_test_and_set(&c->seq, work->seq);
	(void)__sync_lock_test_and_set(&work->seq, 0);
}

/* --- whose ends are reported -------------------------------------------------------------------- */

static long crash_proc(void *map, __u32 *index, struct fsn_proc *proc, struct crash_seek *s)
{
	__u64 key = READ(proc->key);

	s->found = (__u32)(key >> FSN_PROC_TGID_SHIFT & ((1U << 22) - 1)) == s->tgid &&
		   proc->start == s->start;
	return s->found;
}

/* Whether the group has counted a call of the current process. */
__noinline int crash_has_called(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct crash_seek s = { .tgid = task->tgid,
		.start = CURRENT_READ(group_leader, start_boottime) };

	if (!fsn_processes || !called_is_possible(s.start))
		return 0;
	bpf_for_each_map_elem(&fsn_procs, crash_proc, &s, 0);
	return s.found;
}

/* A process without calls is reported only if it was selected, and a signal ends it. */
__noinline int crash_is_wanted(__u32 signal)
{
	__u32 on = READ(ctl.on), pid = bpf_get_current_pid_tgid() >> 32;

	if (!(on & FSN_ON) || (on & FSN_FILTER_UNTIL && is_over()))
		return 0;
	if (on & FSN_FILTER_PID) {
		if (!bpf_map_lookup_elem(&fsn_pids, &pid))
			return 0;
		if (signal || !fsn_processes)
			return 1;
	}
	return crash_has_called();
}

/* --- signals ------------------------------------------------------------------------------------ */

/*
 * The signal that ends the process as @sig is delivered, or 0. A signal that ends it without a core
 * reaches all threads as SIGKILL, and .group_exit_code has its number. SIGKILL alone is an exec, or
 * a dump of the core, whose signal was seen before.
 */
static __always_inline __u32 signal_that_ends(
	const struct task_struct *task, __u32 sig, struct k_sigaction *action)
{
	__u32 flags = task->signal->flags;

	if (flags & SIGNAL_GROUP_EXIT)
		return task->signal->group_exit_code & 127;
	if (sig == SIGKILL || sig > 64 || BPF_CORE_READ(action, sa.sa_handler) ||
		flags & SIGNAL_UNKILLABLE)
		return 0;
	return signal_passes(sig) ? 0 : sig;
}

static __always_inline bool is_pending(const struct sigpending *pending, __u32 sig)
{
	return pending->signal.sig[0] >> ((sig - 1) & 63) & 1;
}

/*
 * A signal that ends the process without a core stays pending where it was sent to: in this thread,
 * or in the process. Otherwise another thread took it, and makes the record. SIGKILL is not kept.
 */
static __always_inline bool was_sent_elsewhere(const struct task_struct *task, __u32 sig)
{
	return task->signal->flags & SIGNAL_GROUP_EXIT && sig != SIGKILL &&
	       !is_pending(&task->pending, sig) &&
	       !is_pending(&task->signal->shared_pending, sig);
}

/* SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV: of those that the kernel sends itself. */
#define HAS_ADDRESS(sig) ((sig) < 32 && 1U << (sig) & (1U << 4 | 1U << 5 | 1U << 7 | 1U << 8 | 1U << 11))
#define SI_KERNEL 128 /* it does not know which: include/uapi/asm-generic/siginfo.h */

/* Called by the thread that takes it, unless a tracer has withheld it (get_signal(), kernel/signal.c). */
SEC("tp_btf/signal_deliver")
int fsn_crash_signal(__u64 *ctx)
{
	struct task_struct *task = current_for_reading();
	__u32 sig = ctx[0], ends = signal_that_ends(task, sig, (void *)ctx[2]);
	struct kernel_siginfo *info = (void *)ctx[1];
	struct fsn_crash *c;
	__u64 key;
	int code, i;

	if (!ends || task->flags & (PF_KTHREAD | PF_IO_WORKER) || was_sent_elsewhere(task, ends))
		return 0;
	/* First, because each thread of the process gets here. */
	key = dying_key(task);
	if (bpf_map_lookup_elem(&fsn_dying, &key) || !crash_is_wanted(ends))
		return 0;
	i = crash_keep(ends, 0, sig == SIGKILL && !is_pending(&task->pending, ends));
	c = i < 0 ? NULL : crash_at(i);
	if (!c)
		return 0;
	code = BPF_CORE_READ(info, si_code);
	if (HAS_ADDRESS(sig) && code > 0 && code != SI_KERNEL) {
		c->addr = (__u64)BPF_CORE_READ(info, _sifields._sigfault._addr);
		c->flags |= FSN_CRASH_HAS_ADDR;
	}
	crash_publish(i);
	return 0;
}

/* --- exits -------------------------------------------------------------------------------------- */

/* The status of the process, as waitpid(2) has it; 0 if another thread reports it. */
static __always_inline __u32 exit_code_of(const struct task_struct *task, bool last)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	if (!last && (!(task->signal->flags & SIGNAL_GROUP_EXIT) ||
			     SYSCALL_NR(regs) != NR_EXIT_GROUP))
		return 0;
	return task->signal->flags & SIGNAL_GROUP_EXIT ? task->signal->group_exit_code
						       : task->group_leader->exit_code;
}

/* Called by each thread, counted down before. */
SEC("tp_btf/sched_process_exit")
int fsn_crash_exit(__u64 *ctx)
{
	struct task_struct *task = current_for_reading();
	bool last = !task->signal->live.counter;
	__u32 code = exit_code_of(task, last);
	__u64 key, *seq;
	struct fsn_crash *c;
	int i;

	/* Most threads and processes of the machine end here. */
	if (!code || task->flags & PF_KTHREAD)
		return 0;
	key = dying_key(task);
	if (!bpf_map_lookup_elem(&fsn_dying, &key) && crash_is_wanted(code & 127)) {
		i = crash_keep(code & 127, code >> 8 & 255, code & 127);
		if (i >= 0)
			crash_publish(i);
	}
	if (!last)
		return 0;
	seq = bpf_map_lookup_elem(&fsn_dying, &key);
	c = seq && *seq ? crash_at((*seq - 1) % FSN_CRASHES) : NULL;
	if (c && READ(c->seq) == *seq) {
		if (c->flags & FSN_CRASH_PENDING && task->signal->oom_mm)
			c->flags |= FSN_CRASH_OOM;
		c->flags &= ~FSN_CRASH_PENDING;
	}
	return 0;
}
