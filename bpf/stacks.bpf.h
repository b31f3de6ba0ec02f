/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stacks that calls were made by: each is kept once, and calls have its number; and by which
 * numbers the kernel knows the files that lie on them.
 */
#ifndef FUNCSNOOP_STACKS_BPF_H
#define FUNCSNOOP_STACKS_BPF_H

#include "python.bpf.h"

const volatile __u32 fsn_walk_one_of = 0; /* one call of so many; 0: all */
const volatile bool fsn_walks_late = false;  /* only of slow and failed ones, when they end */
const volatile bool fsn_walks_alone = false; /* and they are told apart by nothing else */
const volatile __u32 fsn_walk_cnt = 1;    /* walks at once, at most */
const volatile __u32 fsn_stack_cnt = 1;
const volatile __u32 fsn_frames_cnt = 1;
const volatile int fsn_self = 0; /* of fsn_maps: the process that asks */

/* --- stacks ------------------------------------------------------------------------------------- */

static __always_inline void stack_fill(struct fsn_stack *to, const struct walk *w, int end)
{
	__u32 pieces = (w->cnt + FSN_FRAMES_PIECE - 1) / FSN_FRAMES_PIECE, first, at;
	struct fsn_frames *piece;

	to->end = end;
	first = __sync_fetch_and_add(&ctl.frames, pieces);
	if (first + pieces > fsn_frames_cnt)
		return;
	for (__u32 i = 0; i < (FSN_FRAMES_MAX + 1) / FSN_FRAMES_PIECE; i++) {
		if (i >= pieces)
			break;
		at = first + i;
		piece = bpf_map_lookup_elem(&fsn_frames, &at);
		if (!piece)
			break;
#pragma unroll
		for (__u32 n = 0; n < FSN_FRAMES_PIECE; n++)
			piece->frame[n] = w->frames[i * FSN_FRAMES_PIECE + n];
	}
	to->first = first;
	(void)__sync_lock_test_and_set(&to->cnt, w->cnt);
}

/* The number of the stack that @w has found, from 1 on, or 0 where there is no room. */
__noinline __u32 stack_find(const struct walk *w, int end)
{
	struct fsn_stack *stack;
	__u64 hash, seen;
	__u32 i;

	if (!fsn_walks_stacks || !w)
		return 0;
	hash = (w->hash ^ end) * 0x9e3779b97f4a7c15ULL;
	hash = (hash ^ hash >> 29) | 1;
	for (__u32 n = 0; n < FSN_STACK_PROBES; n++) {
		i = (__u64)((__u32)(hash >> 32) + n * ((__u32)hash | 1)) * fsn_stack_cnt >> 32;
		stack = bpf_map_lookup_elem(&fsn_stacks, &i);
		if (!stack)
			break;
		seen = READ(stack->hash);
		if (!seen && swap(&stack->hash, 0, hash)) {
			stack_fill(stack, w, end);
			return i + 1;
		}
		if (!seen)
			seen = READ(stack->hash);
		if (seen == hash)
			return i + 1;
	}
	add(&ctl.lost_stacks, 1);
	return 0;
}

static __always_inline struct walk *walk_claim(void)
{
	__u32 first = bpf_get_smp_processor_id() * FSN_WALKS_CPU, i;
	struct walk *w;

	for (__u32 n = 0; n < FSN_WALKS_CPU; n++) {
		i = (first + n) % fsn_walk_cnt;
		w = bpf_map_lookup_elem(&fsn_walks, &i);
		if (w && !READ(w->busy) && __sync_val_compare_and_swap(&w->busy, 0, 1) == 0)
			return w;
	}
	return NULL;
}

static __always_inline void walk_begin(struct walk *w, __u64 pc, __u64 sp, __u64 fp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct___walk *mm = (void *)task->mm;

	w->cnt = 0;
	w->exact = 0;
	w->pc = pc;
	w->sp = sp;
	w->fp = fp;
	w->hash = 0;
	w->bytes = 0;
	w->py.step = 0;
	w->py.base = w->py.state = 0;
	w->made = 0;
	w->have = HAVE_NOTHING;
	w->cfi.step = CFI_IDLE;
	w->cfi.total = 0;
	w->cfi.pages.page = 0;
	w->ident = (__u64)task->tgid << 32 | (__u32)task->self_exec_id;
	/* Rules that were kept before an unwind table was made are looked up again. */
	w->stamp = mappings_stamp(task) + ((__u64)READ(ctl.tables) << 40);
	w->mapping.end = 0;
	w->trampoline = mm->uprobes_state.xol_area->vaddr;
	if (!w->trampoline)
		w->trampoline = ~0ULL; /* there is none: a return address of 0 leads to no probe */
	w->instance = task->utask ? (__u64)task->utask->return_instances : 0;
}

#define WALK_STEPS     (fsn_walks_python ? 1024 : FSN_FRAMES_MAX + 1)
#define WALK_STEPS_CFI 2048

/*
 * The same where rows are made. Each function returns at once unless it is its turn, and the bound
 * is constant: 6.1 refuses a loop whose calls are chosen by conditions ("back-edge").
 */
static __always_inline int walk_out_cfi(struct walk *w, int end)
{
	for (int i = 0; i < WALK_STEPS_CFI; i++) {
		if (end)
			break;
		cfi_run(&w->cfi);
		cfi_step(&w->cfi);
		row_step(w);
		end = walk_step(w);
		if (end)
			break;
		if (fsn_walks_python)
			end = python_step(w);
	}
	if (end)
		return end;
	return w->cfi.step ? FSN_WALK_BOUND : FSN_WALK_DEEP;
}

/* From where it stands to its end, or that to which there was room for. */
static __always_inline int walk_out(struct walk *w, int end)
{
	if (fsn_cfi)
		return walk_out_cfi(w, end);
	for (int i = 0; i < WALK_STEPS && !end; i++)
		end = fsn_walks_python && w->py.step ? python_step(w) : walk_step(w);
	return end ? end : FSN_WALK_DEEP;
}

/*
 * The stack of a call at its entry, by registers there: its number, or 0 where it is not known.
 * @link is where it returns to, on x86-64 0 where that lies at @sp. Not static, so that it is
 * verified once, on its own.
 */
__noinline __u32 stack_of_call(__u64 sp, __u64 fp, __u64 link)
{
	struct walk *w;
	__u32 number;
	int end = 0;

	if (!fsn_walks_stacks)
		return 0;
	if (fsn_walk_one_of && bpf_get_prandom_u32() % fsn_walk_one_of)
		return 0;
	w = walk_claim();
	if (!w) {
		add(&ctl.lost_stacks, 1);
		return 0;
	}
	walk_begin(w, link, sp, fp);
	w->exact = fsn_user_stacks && fsn_events; /* a USDT probe is hit, not called */
#if defined(__TARGET_ARCH_x86)
	if (!link) {
		w->sp = sp + 8;
		if (word_read(w, sp, &w->pc))
			end = FSN_WALK_NO_MEMORY;
	}
#endif
	if (w->pc == w->trampoline && walk_return(w, WALK_PLACE(w)))
		end = FSN_WALK_LOST;
	end = walk_out(w, end);
	number = stack_find(w, end);
	(void)__sync_lock_test_and_set(&w->busy, 0);
	return number;
}

/*
 * The same at its end, where the caller's registers are as they were, but for the stack pointer:
 * behind a return probe the return address is where the kernel goes on.
 */
__noinline __u32 stack_of_end(__u64 where)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs;
	__u64 link;

	/* On arm64 nothing else needs it; whoever calls would leave it out, against the verifier. */
	asm volatile("" ::"r"(where));
	if (!fsn_walks_stacks)
		return 0;
	regs = (void *)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
	link = REG_SP(regs) == where ? 0 : REG_IP(regs);
#elif defined(__TARGET_ARCH_arm64)
	link = REG_LINK(regs);
	if (link == ((struct mm_struct___walk *)task->mm)->uprobes_state.xol_area->vaddr)
		link = REG_IP(regs);
#endif
	return stack_of_call(REG_SP(regs), REG_FP(regs), link);
}

/* --- of threads ------------------------------------------------------------------------------- */

/* At most so many of the kernel's: they come first. */
#define KERNEL_FRAMES 48

/* What is behind @bytes of the kernel's frames in @w, which is claimed: as for stack_of_call(). */
__noinline __u32 walk_thread(struct walk *w, int bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs;
	int end = FSN_WALK_OUTERMOST;
	__u32 number;

	if (!fsn_walks_stacks || !w)
		return 0;
	regs = (void *)bpf_task_pt_regs(task);
	walk_begin(w, REG_IP(regs), REG_SP(regs), REG_FP(regs));
	w->exact = 1;
	for (int i = 0; i < KERNEL_FRAMES && i < bytes / 8; i++) {
		w->hash = ((w->hash ^ w->hash >> 32) ^ w->frames[i]) * 0x9e3779b97f4a7c15ULL;
		w->cnt = i + 1;
	}
	if (task->mm)
		end = 0;
	end = walk_out(w, end);
	number = stack_find(w, end);
	(void)__sync_lock_test_and_set(&w->busy, 0);
	return number;
}

/* What the current thread does: the kernel's frames, then its own. */
static __always_inline __u32 stack_of_thread(void *ctx, __u64 skip)
{
	struct walk *w;
	long bytes;

	if (!fsn_walks_stacks || (fsn_walk_one_of && bpf_get_prandom_u32() % fsn_walk_one_of))
		return 0;
	w = walk_claim();
	if (!w) {
		add(&ctl.lost_stacks, 1);
		return 0;
	}
	bytes = bpf_get_stack(ctx, w->frames, KERNEL_FRAMES * sizeof(*w->frames), skip);
	return walk_thread(w, bytes > 0 ? bytes : 0);
}

/* Where the current thread went into the kernel; 0: it is one of the kernel's own. */
static __always_inline __u32 stack_of_user(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

	return task->mm ? stack_of_call(REG_SP(regs), REG_FP(regs), REG_IP(regs)) : 0;
}

/* --- what files are called here ------------------------------------------------------------------ */

struct bpf_iter_meta {
	struct seq_file *seq;
} __core;

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
} __core;

/*
 * What the process that asks has mapped: by which numbers walks will know those files, which is
 * not always what stat(2) says.
 */
SEC("iter/task_vma")
int fsn_maps(struct bpf_iter__task_vma *ctx)
{
	struct task_struct *task = ctx->task;
	struct vm_area_struct *vma = ctx->vma;
	struct fsn_mapped at = {};
	struct inode *inode;

	if (!task || !vma || (fsn_self && task->tgid != fsn_self) || !vma->vm_file)
		return 0;
	inode = vma->vm_file->f_inode;
	at.start = vma->vm_start;
	at.id.dev = inode->i_sb->s_dev;
	at.id.version = inode_version(inode);
	at.id.ino = inode->i_ino;
	bpf_seq_write(ctx->meta->seq, &at, sizeof(at));
	return 0;
}

/* --- where threads sleep ------------------------------------------------------------------------ */

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __core;

/* Registers of all threads that sleep, as they were when they went into the kernel. */
SEC("iter/task")
int fsn_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct fsn_thread at = {};
	struct return_instance *ri = NULL;
	struct mm_struct___walk *mm;
	struct pt_regs *regs;

	if (!task || !task->mm || !task->__state)
		return 0;
	mm = (void *)task->mm;
	regs = (void *)bpf_task_pt_regs(task);
	at.pid = task->tgid;
	at.tid = task->pid;
	at.switches = task->nvcsw + task->nivcsw;
	at.pc = REG_IP(regs);
	at.sp = REG_SP(regs);
	at.fp = REG_FP(regs);
	at.trampoline = mm->uprobes_state.xol_area->vaddr;
	if (task->utask)
		ri = task->utask->return_instances;
#pragma unroll
	for (int i = 0; i < FSN_RETURNS_MAX; i++) {
		if (!ri || bpf_core_read(&at.place[i], sizeof(at.place[i]), &ri->stack) ||
			bpf_core_read(&at.to[i], sizeof(at.to[i]), &ri->orig_ret_vaddr) ||
			bpf_core_read(&ri, sizeof(ri), &ri->next))
			break;
	}
	bpf_seq_write(ctx->meta->seq, &at, sizeof(at));
	return 0;
}

#endif
