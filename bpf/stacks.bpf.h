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

/* At most so many of the kernel's: they come first. */
#define KERNEL_FRAMES 48

/* The first @cnt frames are there. */
static __always_inline void walk_kernel(struct walk *w, __u32 cnt)
{
	for (__u32 i = 0; i < KERNEL_FRAMES && i < cnt; i++) {
		w->hash = ((w->hash ^ w->hash >> 32) ^ w->frames[i]) * 0x9e3779b97f4a7c15ULL;
		w->cnt = i + 1;
	}
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

/* --- walks that are repeated -------------------------------------------------------------------- */

/*
 * A walk that meets a page of .eh_frame which is not in memory is repeated by the thread itself,
 * just before it returns to user mode (bpf_task_work, 6.18): programs can sleep there, so that the
 * page is read. The call is counted at once, with a number of its own for the stack up to that page;
 * the complete stack, found later, takes its place (.instead). If the thread exits before, the call
 * is counted, and its stack is marked.
 *
 * Only in groups without times, since the read takes time; and only files on block devices: a server
 * of FUSE or of a network that does not answer would hold the thread, and with it every detach.
 */

const volatile bool fsn_cold = false;

#define COLD_PROBES 8  /* walks to be repeated of a thread, at most */
#define COLD_READS  64 /* pages read for one walk, at most */
#define COLD_STACKS (fsn_stack_cnt / 4) /* numbers that are used up by this, at most */

/* In a piece of fsn_frames, because programs have no room for another map. */
struct cold {
	__u32 number; /* of the stack */
	__u32 failed; /* its page can't be read: this walk is the last */
	__u64 ident;  /* as that of struct walk */
	struct walk_start start;
	struct fsn_file_id id; /* of the file with the page */
};

/* The kernel finds this by its name, in a map of which something but the programs has hold. */
struct bpf_task_work {
	__u64 opaque;
} __attribute__((aligned(8)));

struct work {
	struct bpf_task_work work;
	__u32 cold, pad; /* 1 + the piece; 0: free */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} fsn_works SEC(".maps");

#define FS_REQUIRES_DEV  1 /* include/linux/fs.h */
#define FUSE_SUPER_MAGIC 0x65735546

/* Reading the file of @m waits for nothing but a block device. */
static __always_inline bool cold_is_local(const struct mapping *m)
{
	struct file *file = (void *)m->file;
	struct file_system_type *type = NULL;
	struct super_block *sb = NULL;
	struct inode *inode = NULL;
	unsigned long magic = 0;
	int flags = 0;

	return !bpf_core_read(&inode, sizeof(inode), &file->f_inode) &&
		!bpf_core_read(&sb, sizeof(sb), &inode->i_sb) &&
		!bpf_core_read(&magic, sizeof(magic), &sb->s_magic) &&
		!bpf_core_read(&type, sizeof(type), &sb->s_type) &&
		!bpf_core_read(&flags, sizeof(flags), &type->fs_flags) &&
		flags & FS_REQUIRES_DEV && magic != FUSE_SUPER_MAGIC;
}

static __always_inline struct cold *cold_at(__u32 i)
{
	return (struct cold *)bpf_map_lookup_elem(&fsn_frames, &i);
}

/* Leaves piece @i to the program that runs, which sends it: cold_send(). */
static __always_inline bool cold_leave(__u64 tid, __u32 i)
{
	for (__u32 n = 0; n < FSN_COLD_LEFT; n++)
		if (!READ(ctl.cold[n]) && swap(&ctl.cold[n], 0, tid << 32 | i))
			return true;
	return false;
}

/*
 * The number of the stack that @w has found up to a page which is not in memory, and that is to
 * become the complete one; 0: it is not to be. Not static, so that it is verified once.
 */
__noinline __u32 cold_keep(struct walk *w)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fsn_file_ref *ref;
	struct fsn_file_id id;
	struct cold *cold;
	__u32 number, i;

	if (!fsn_cold || !w || !task->mm || READ(ctl.cold_stacks) >= COLD_STACKS ||
		!cold_is_local(&w->mapping))
		return 0;
	id = w->mapping.id; /* a key can't lie there on 6.1 */
	ref = bpf_map_lookup_elem(&fsn_file_of, &id);
	if (!ref || READ(ref->unread))
		return 0;
	i = __sync_fetch_and_add(&ctl.frames, 1);
	cold = cold_at(i);
	if (!cold)
		return 0;
	/* No other walk has this hash. */
	w->hash ^= (bpf_ktime_get_ns() ^ (__u64)task->pid << 40) * 0xbf58476d1ce4e5b9ULL;
	number = stack_find(w, FSN_WALK_NO_PAGE);
	if (!number)
		return 0;
	cold->number = number;
	cold->failed = 0;
	cold->ident = w->ident;
	cold->start = w->start;
	if (cold_leave(task->pid, i))
		add(&ctl.cold_stacks, 1);
	return number;
}

/* Ends the walk @w, which is where it began. The stack's number; 0: there is no room for it. */
static __always_inline __u32 walk_finish(struct walk *w, int end)
{
	__u32 number = 0;

	w->start.pc = w->pc;
	w->start.sp = w->sp;
	w->start.fp = w->fp;
	w->start.exact = w->exact;
	w->start.cnt = w->cnt;
	end = walk_out(w, end);
	if (fsn_cold && end == FSN_WALK_NO_PAGE)
		number = cold_keep(w);
	if (!number)
		number = stack_find(w, end);
	(void)__sync_lock_test_and_set(&w->busy, 0);
	return number;
}

/*
 * The stack of a call at its entry, by registers there: its number, or 0 where it is not known.
 * @link is where it returns to, on x86-64 0 where that lies at @sp. Not static, so that it is
 * verified once, on its own.
 */
__noinline __u32 stack_of_call(__u64 sp, __u64 fp, __u64 link)
{
	struct walk *w;
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
	return walk_finish(w, end);
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

/* What is behind @bytes of the kernel's frames in @w, which is claimed: as for stack_of_call(). */
__noinline __u32 walk_thread(struct walk *w, __u32 bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs;
	int end = FSN_WALK_OUTERMOST;

	if (!fsn_walks_stacks || !w)
		return 0;
	regs = (void *)bpf_task_pt_regs(task);
	walk_begin(w, REG_IP(regs), REG_SP(regs), REG_FP(regs));
	w->exact = 1;
	walk_kernel(w, bytes / 8);
	if (task->mm)
		end = 0;
	return walk_finish(w, end);
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

/* --- walks that are repeated, in the thread ----------------------------------------------------- */

/* The frames of the kernel that the stack of @cold begins with. */
static __always_inline void cold_kernel(const struct cold *cold, struct walk *w)
{
	__u32 at = cold->number - 1, first;
	struct fsn_stack *stack = bpf_map_lookup_elem(&fsn_stacks, &at);
	struct fsn_frames *piece;

	if (!stack || !cold->start.cnt)
		return;
	first = stack->first;
	for (__u32 i = 0; i < KERNEL_FRAMES / FSN_FRAMES_PIECE; i++) {
		at = first + i;
		piece = bpf_map_lookup_elem(&fsn_frames, &at);
		if (!piece)
			break;
#pragma unroll
		for (__u32 n = 0; n < FSN_FRAMES_PIECE; n++)
			w->frames[i * FSN_FRAMES_PIECE + n] = piece->frame[n];
	}
	walk_kernel(w, cold->start.cnt);
}

#define COLD_PLACES 8

/*
 * Where the process has the page of the file that @w has missed; 0: not known. Other segments than
 * that of the code may lie elsewhere, as the file's program headers say; of the page with those they
 * are not known yet.
 */
static __always_inline __u64 cold_place(const struct cold *cold, struct walk *w)
{
	__u64 off = w->cfi.pages.missing & ~4095ULL, begin = w->at - w->cfi.off, at;

	for (__u32 i = 0; i < COLD_PLACES; i++) {
		at = begin + off;
		if (i == 0)
			at += w->cfi.file.hdr_addr - w->cfi.file.hdr - w->cfi.file.delta;
		else if (i == 1)
			at += w->cfi.file.eh_delta - w->cfi.file.delta;
		else
			at -= (i - 2) * 4096;
		mapping_find(&w->mapping, at);
		if (w->mapping.id.ino == cold->id.ino && w->mapping.id.dev == cold->id.dev &&
			w->mapping.id.version == cold->id.version && w->mapping.offset == off &&
			cold_is_local(&w->mapping))
			return at;
	}
	return 0;
}

/*
 * Repeats walk @i. The address at which the process has the page that is needed to go on; 0: it is
 * over, and the stack that it has found is the one instead.
 */
__noinline __u64 cold_walk(__u32 i)
{
	struct cold *cold = cold_at(i);
	__u32 at = cold ? cold->number - 1 : 0;
	struct fsn_stack *stack = bpf_map_lookup_elem(&fsn_stacks, &at);
	struct walk *w;
	__u64 page = 0;
	int end;

	/* Without room for its frames there is none for those of the kernel, either. */
	if (!fsn_cold || !cold || !stack || !READ(stack->cnt) || !bpf_get_current_task_btf()->mm)
		return 0;
	w = walk_claim();
	if (!w)
		return 0;
	walk_begin(w, cold->start.pc, cold->start.sp, cold->start.fp);
	if (w->ident == cold->ident) {
		w->exact = cold->start.exact;
		cold_kernel(cold, w);
		end = walk_out(w, 0);
		if (end == FSN_WALK_NO_PAGE && !cold->failed) {
			cold->id = w->mapping.id;
			page = cold_place(cold, w);
		}
		if (!page)
			stack->instead = stack_find(w, end);
	}
	(void)__sync_lock_test_and_set(&w->busy, 0);
	return page;
}

/* The file has a page that can't be read: no walk waits for it any more. */
static __always_inline void cold_fail(struct cold *cold)
{
	struct fsn_file_id id = cold->id;
	struct fsn_file_ref *ref = bpf_map_lookup_elem(&fsn_file_of, &id);

	cold->failed = 1;
	if (ref)
		ref->unread = 1;
}

static int cold_read(void *map, void *key, struct work *work)
{
	__u32 i = work->cold - 1;
	struct cold *cold = cold_at(i);
	__u64 page;
	__u8 byte;

	for (int n = 0; cold && n < COLD_READS; n++) {
		page = cold_walk(i);
		if (!page)
			break;
		if (bpf_copy_from_user(&byte, sizeof(byte), (void *)page))
			cold_fail(cold);
	}
	(void)__sync_lock_test_and_set(&work->cold, 0);
	return 0;
}

/*
 * Stands for bpf_task_work_schedule_resume(), whose number lib/kernel/work.c puts here: old kernels
 * refuse a program that names it, even where it is never called.
 */
static long (*const task_work_resume)(struct task_struct *task, struct work *work, void *map,
	void *callback, void *unused) = (void *)FSN_TASK_WORK;

static __always_inline struct work *work_claim(__u32 tid, __u32 cold)
{
	struct work *work;
	__u32 i;

	for (__u32 n = 0; n < COLD_PROBES; n++) {
		i = (tid + n) & (FSN_COLD - 1);
		work = bpf_map_lookup_elem(&fsn_works, &i);
		if (work && !READ(work->cold) && !__sync_val_compare_and_swap(&work->cold, 0, cold + 1))
			return work;
	}
	return NULL;
}

/*
 * Walks that this program has left are repeated later. To stand in programs themselves: who names a
 * callback that sleeps counts as one that sleeps, and can't be called by them.
 */
static __always_inline void cold_send(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct work *work;
	__u64 left;

	if (!fsn_cold)
		return;
	for (__u32 n = 0; n < FSN_COLD_LEFT; n++) {
		left = READ(ctl.cold[n]);
		if (!left || left >> 32 != (__u32)task->pid || !swap(&ctl.cold[n], left, 0))
			continue;
		work = work_claim(task->pid, left);
		if (work && task_work_resume(task, work, &fsn_works, cold_read, NULL))
			(void)__sync_lock_test_and_set(&work->cold, 0);
	}
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
