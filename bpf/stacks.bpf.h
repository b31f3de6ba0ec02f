/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Call stacks: each distinct stack is stored once, and calls have its number. Also the
 * kernel's identification of the files on them.
 */
#pragma once

#include "python.bpf.h"

/* N: walk the stack of one of N calls; 0: all */
const volatile __u32 fsn_walk_one_of = 0;
/* only for slow and failed calls, when they return */
const volatile bool fsn_walks_late = false;
const volatile bool fsn_walks_alone = false; /* and the stack is the only key */
const volatile __u32 fsn_walk_cnt = 1;    /* maximum number of concurrent walks */
const volatile __u32 fsn_stack_cnt = 1;
const volatile __u32 fsn_frames_cnt = 1;
const volatile int fsn_self = 0; /* for fsn_maps: the requesting process */

/* --- stacks ------------------------------------------------------------------------------------- */

static __always_inline struct fsn_frames *piece_at(__u32 i)
{
	return bpf_map_lookup_elem(&fsn_frames, &i);
}

/* Copies the frames of @w to a new stack. If fsn_frames is full, its .cnt remains 0. */
static __always_inline void stack_fill(struct fsn_stack *to, const struct walk *w, int end)
{
	__u32 pieces = (w->cnt + FSN_FRAMES_PIECE - 1) / FSN_FRAMES_PIECE, first;
	struct fsn_frames *piece;

	to->end = end;
	first = __sync_fetch_and_add(&ctl.frames, pieces);
	if (first + pieces > fsn_frames_cnt)
		return;
	for (__u32 i = 0; i < (FSN_FRAMES_MAX + 1) / FSN_FRAMES_PIECE; i++) {
		if (i >= pieces)
			break;
		piece = piece_at(first + i);
		if (!piece)
			break;
		__builtin_memcpy(piece, &w->frames[i * FSN_FRAMES_PIECE], sizeof(*piece));
	}
	to->first = first;
	(void)__sync_lock_test_and_set(&to->cnt, w->cnt);
}

/*
 * Stores the stack in @w if it is new. Returns its number, from 1 on, or 0 if no slot is free for its
 * hash.
 */
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

/* Claims one of the CPU's walks, or returns NULL if all are in use by preempted BPF programs. */
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

static __always_inline void walk_release(struct walk *w)
{
#if defined(__TARGET_ARCH_x86)
	asm volatile("" ::: "memory"); /* stores are executed in program order */
	*(volatile __u32 *)&w->busy = 0;
#else
	(void)__sync_lock_test_and_set(&w->busy, 0);
#endif
}

/* Starts a walk at the given registers. */
static __always_inline void walk_begin(struct walk *w, __u64 pc, __u64 sp, __u64 fp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;

	w->cnt = 0;
	w->exact = 0;
	w->pc = pc;
	w->sp = sp;
	w->fp = fp;
	w->hash = 0;
	w->bytes = 0;
	w->py.step = 0;
	w->py.base = w->py.state = w->py.frame = 0;
	w->py.calls = w->py.shown = w->py.done = w->py.beyond = w->py.total = 0;
	w->py.guessed = 0;
	w->made = 0;
	w->have = HAVE_NOTHING;
	w->cfi.step = CFI_IDLE;
	w->cfi.total = 0;
	w->cfi.pages.page = 0;
	w->ident = (__u64)task->tgid << 32 | (__u32)task->self_exec_id;
	/* Cached rules are looked up again after a command has built unwind tables. */
	w->stamp = mappings_stamp(task) + ((__u64)READ(ctl.tables) << 40);
	w->mapping.end = 0;
	w->trampoline = mm->uprobes_state.xol_area->vaddr;
	if (!w->trampoline)
		w->trampoline = ~0ULL; /* no uprobes: no return address matches */
	w->instance = task->utask ? (__u64)task->utask->return_instances : 0;
}

/* Maximum number of kernel frames; they come first. */
#define KERNEL_FRAMES 48

/* The first @cnt frames are already stored. */
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
 * The same if rows are built from .eh_frame. Each function returns at once unless it is
 * its turn, and the bound is constant: 6.1 rejects a loop whose calls depend on
 * conditions ("back-edge").
 */
static __always_inline int walk_out_cfi(struct walk *w, int end)
{
	for (int i = 0; i < WALK_STEPS_CFI; i++) {
		if (end)
			break;
		end = walk_step(w);
		if (end)
			break;
		if (fsn_walks_python)
			end = python_step(w);
		cfi_run(&w->cfi);
		cfi_step(&w->cfi);
		row_step(w);
	}
	if (fsn_walks_python && w->py.calls)
		end = python_done(w);
	if (end)
		return end;
	return w->cfi.step ? FSN_WALK_BOUND : FSN_WALK_DEEP;
}

/* Continues the walk to its end or to the frame limit. Returns the enum fsn_walk_end. */
static __always_inline int walk_out(struct walk *w, int end)
{
	if (fsn_cfi)
		return walk_out_cfi(w, end);
	for (int i = 0; i < WALK_STEPS && !end; i++)
		end = fsn_walks_python && w->py.step ? python_step(w) : walk_step(w);
	if (fsn_walks_python && w->py.calls)
		end = python_done(w);
	return end ? end : FSN_WALK_DEEP;
}

/* --- repeated walks ----------------------------------------------------------------- */

/*
 * A walk that needs a page of .eh_frame which is not in memory is repeated by the thread
 * itself, just before it returns to user mode (bpf_task_work, 6.18): BPF programs can
 * sleep there, so the page is read in. The call is counted at once, with its own number
 * for the stack up to that page; the complete stack, found later, replaces it (.instead).
 * If the thread exits before that, the call is counted and its stack is marked.
 *
 * Only in groups without times, because the read delays the call. Only for files on block
 * devices: a FUSE or network server that does not answer would block the thread, and with
 * it every detach.
 */

const volatile bool fsn_cold = false;

#define COLD_PROBES 8  /* maximum number of walks to be repeated per thread */
#define COLD_READS  64 /* maximum number of pages read for one walk */
/* maximum number of stack numbers used for this */
#define COLD_STACKS (fsn_stack_cnt / 4)

/* Stored in a piece of fsn_frames, because the BPF programs cannot use another map. */
struct cold {
	__u32 number; /* number of the stack */
	__u32 failed; /* its page cannot be read: this walk is the last */
	__u64 ident;  /* as in struct walk */
	struct walk_start start;
	struct fsn_file_id id; /* the file with the page */
};

/*
 * The kernel finds this struct by its name, in a map that is also referenced outside of
 * the BPF programs.
 */
struct bpf_task_work {
	__u64 opaque;
} __attribute__((aligned(8)));

struct work {
	struct bpf_task_work work;
	__u32 cold, pad; /* 1 + the piece; 0: free */
};

MAP(fsn_works, ARRAY, __u32, struct work, 1);

#define FS_REQUIRES_DEV  1 /* include/linux/fs.h */
#define FUSE_SUPER_MAGIC 0x65735546

/* True if reading the file of @m only depends on a block device. */
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
	return (struct cold *)piece_at(i);
}

static __always_inline bool cold_put(__u32 n, __u64 left)
{
	return !READ(ctl.cold[n]) && swap(&ctl.cold[n], 0, left);
}

/*
 * Passes piece @i to cold_send() in the current BPF program. Not a loop: 6.1 rejects those whose
 * end the compiler puts before their beginning.
 */
static __always_inline void cold_leave(__u64 tid, __u32 i)
{
	const __u64 left = tid << 32 | i;

	_Static_assert(FSN_COLD_LEFT == 8, "places");
	(void)(cold_put(0, left) || cold_put(1, left) || cold_put(2, left) || cold_put(3, left) ||
		cold_put(4, left) || cold_put(5, left) || cold_put(6, left) || cold_put(7, left));
}

/*
 * Prepares a repetition of walk @w, which has reached a page that is not in memory.
 * Returns the number of its stack so far, which the complete one will replace; 0: no
 * repetition. Not static, so that it is verified once.
 */
__noinline __u32 cold_keep(struct walk *w)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fsn_file_ref *ref;
	struct fsn_file_id id;
	struct cold *cold;
	__u32 number, i;
	__u64 own;

	if (!fsn_cold || !w || !task->mm || READ(ctl.cold_stacks) >= COLD_STACKS ||
		READ(ctl.lost_stacks) || !cold_is_local(&w->mapping))
		return 0;
	id = w->mapping.id; /* 6.1 does not accept a map value as a key */
	ref = bpf_map_lookup_elem(&fsn_file_of, &id);
	if (!ref || READ(ref->unread))
		return 0;
	/* A hash of its own, so that no other walk shares the number. */
	own = (bpf_ktime_get_ns() ^ (__u64)task->pid << 40) * 0xbf58476d1ce4e5b9ULL;
	w->hash ^= own;
	number = stack_find(w, FSN_WALK_NO_PAGE);
	if (!number) {
		w->hash ^= own;
		return 0;
	}
	add(&ctl.cold_stacks, 1);
	i = __sync_fetch_and_add(&ctl.frames, 1);
	cold = cold_at(i);
	if (!cold)
		return number;
	cold->number = number;
	cold->failed = 0;
	cold->ident = w->ident;
	cold->start = w->start;
	cold_leave(task->pid, i);
	return number;
}

/* Runs the prepared walk @w. Returns the stack's number, or 0 if the table is full. */
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
	walk_release(w);
	return number;
}

/* In an address of user space: the instruction there is hit, not returned to. */
#define STACK_HIT (1ULL << 63)

/*
 * Walks the stack of a call at its entry, from the registers there. Returns its number,
 * or 0 if not known. @link is the return address; 0 on x86-64 if it is at @sp. Not
 * static, so that it is verified once.
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
	walk_begin(w, link & ~STACK_HIT, sp, fp);
	w->exact = link & STACK_HIT || (fsn_user_stacks && fsn_events); /* nor is a USDT probe called */
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
 * The same at the return of a call, where the caller's registers are unchanged except for
 * the stack pointer. After a return probe, the kernel's saved program counter is the
 * return address.
 */
__noinline __u32 stack_of_end(__u64 where)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs;
	__u64 link;

	/*
	 * arm64 does not use @where. Without this, the compiler would not pass it, and
	 * the verifier rejects that.
	 */
	asm volatile("" ::"r"(where));
	if (!fsn_walks_stacks)
		return 0;
	regs = (void *)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
	link = REG_SP(regs) == where || is_of_goroutine(where) ? 0 : REG_IP(regs);
#elif defined(__TARGET_ARCH_arm64)
	link = REG_LINK(regs);
	if (link == task->mm->uprobes_state.xol_area->vaddr)
		link = REG_IP(regs);
#endif
	return stack_of_call(REG_SP(regs), REG_FP(regs), link);
}

/* --- stacks of threads -------------------------------------------------------------- */

/*
 * The kernel executes a probed instruction, or the end of a return probe, in a page of its own: continues
 * at the instruction's place, or in the caller.
 */
static __noinline int walk_from_probe(struct walk *w)
{
	struct uprobe_task *utask = bpf_get_current_task_btf()->utask;
	__u64 place = WALK_PLACE(w), stack = 0;
	struct return_instance *ri;

	if (utask && utask->active_uprobe) {
		w->pc += utask->vaddr - utask->xol_vaddr;
	} else if (!walk_return(w, place)) {
		/* A system call there has registers on the stack. */
		ri = (void *)w->instance;
		bpf_core_read(&stack, sizeof(stack), &ri->stack);
		w->sp += stack - place;
		w->exact = 0;
	}
	return 0;
}

/*
 * Walks the user stack, with @user, after @bytes of kernel frames in the claimed @w. Returns as
 * stack_of_call().
 */
__noinline __u32 walk_thread(struct walk *w, __u32 bytes, bool user)
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
	if (task->mm && user)
		end = 0;
	if (w->pc - w->trampoline < 4096)
		walk_from_probe(w);
	return walk_finish(w, end);
}

/* Walks the current thread's stack: kernel frames, then user frames with @user. */
static __always_inline __u32 stack_of_thread_in(void *ctx, __u64 skip, bool user)
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
	return walk_thread(w, bytes > 0 ? bytes : 0, user);
}

static __always_inline __u32 stack_of_thread(void *ctx, __u64 skip)
{
	return stack_of_thread_in(ctx, skip, true);
}

/*
 * Walks the user stack from the thread's entry to the kernel, with @hit at an instruction that a probe
 * is on; 0 for a kernel thread.
 */
static __always_inline __u32 stack_of_user(bool hit)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

	return task->mm ? stack_of_call(REG_SP(regs), REG_FP(regs), REG_IP(regs) | (hit ? STACK_HIT : 0))
			: 0;
}

/* --- repeated walks, in the thread -------------------------------------------------- */

/* Copies the kernel frames of the stack of @cold. */
static __always_inline void cold_kernel(const struct cold *cold, struct walk *w)
{
	__u32 at = cold->number - 1;
	struct fsn_stack *stack = bpf_map_lookup_elem(&fsn_stacks, &at);
	struct fsn_frames *piece;

	if (!stack || !cold->start.cnt)
		return;
	for (__u32 i = 0; i < KERNEL_FRAMES / FSN_FRAMES_PIECE; i++) {
		piece = piece_at(stack->first + i);
		if (!piece)
			break;
		__builtin_memcpy(&w->frames[i * FSN_FRAMES_PIECE], piece, sizeof(*piece));
	}
	walk_kernel(w, cold->start.cnt);
}

#define COLD_PLACES 8

/*
 * The address at which the process maps the missing page of the file; 0: not known. By
 * the file's program headers, other segments than that of the code can have another
 * offset. For the page with these headers, that is not known yet.
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
 * Repeats walk @i. Returns the address of the page that it needs to continue, or 0 if it has
 * ended: its stack then replaces the first one, unless the process executes another program.
 */
__noinline __u64 cold_walk(__u32 i)
{
	struct cold *cold = cold_at(i);
	__u32 at = cold ? cold->number - 1 : 0;
	struct fsn_stack *stack = bpf_map_lookup_elem(&fsn_stacks, &at);
	struct walk *w;
	__u64 page = 0;
	int end;

	/*
	 * If the table of frames was full for the stack, there are no kernel frames
	 * either.
	 */
	if (!fsn_cold || !cold || !stack || !READ(stack->cnt) || !bpf_get_current_task_btf()->mm)
		return 0;
	w = walk_claim();
	if (!w)
		return 0;
	walk_begin(w, cold->start.pc, cold->start.sp, cold->start.fp);
	if (w->ident == cold->ident) {
		w->exact = cold->start.exact;
		w->start.cnt = cold->start.cnt;
		cold_kernel(cold, w);
		end = walk_out(w, 0);
		if (end == FSN_WALK_NO_PAGE && !cold->failed) {
			cold->id = w->mapping.id;
			page = cold_place(cold, w);
		}
		if (!page)
			stack->instead = stack_find(w, end);
	}
	walk_release(w);
	return page;
}

/* The file has a page that cannot be read: no walk is repeated for it any more. */
static __always_inline void cold_fail(struct cold *cold)
{
	struct fsn_file_id id = cold->id;
	struct fsn_file_ref *ref = bpf_map_lookup_elem(&fsn_file_of, &id);

	cold->failed = 1;
	if (ref)
		ref->unread = 1;
}

/*
 * Runs in the thread before it returns to user mode: reads the missing pages and repeats the walk.
 */
static int cold_read(void *map, void *key, struct work *work)
{
	__u32 i = work->cold - 1;
	struct cold *cold = cold_at(i);
	__u64 page, last = 0;
	__u8 byte;

	for (int n = 0; cold && n < COLD_READS; n++) {
		page = cold_walk(i);
		if (!page)
			break;
		/* A page that was read and is still missing is not the one in the page cache. */
		if (page == last || bpf_copy_from_user(&byte, sizeof(byte), (void *)page))
			cold_fail(cold);
		last = page;
	}
	(void)__sync_lock_test_and_set(&work->cold, 0);
	return 0;
}

/*
 * Placeholder for bpf_task_work_schedule_resume(), whose number lib/kernel/trace.c
 * inserts: old kernels reject a program that names it, even in dead code.
 */
static long (*const task_work_resume)(struct task_struct *task, struct work *work, void *map,
	void *callback, void *unused) = (void *)FSN_TASK_WORK;

/* Claims an entry of fsn_works for thread @tid and piece @cold, or returns NULL. */
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
 * Schedules the repetition of this program's walks. Inlined in BPF programs themselves: a
 * function that names a sleepable callback counts as sleepable and cannot be called by
 * them.
 */
static __always_inline void cold_send(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct work *work;
	__u64 left;

	if (!fsn_cold || !READ(ctl.cold_stacks))
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

/* --- identification of files -------------------------------------------------------- */

struct bpf_iter_meta {
	struct seq_file *seq;
} __core;

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
} __core;

/*
 * Lists the mappings of the requesting process with the kernel's identification of their
 * files, which can differ from stat(2).
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

/* --- sleeping threads --------------------------------------------------------------- */

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __core;

/* Stores the registers of @task at its entry to the kernel, and its return probes. */
static __always_inline void thread_fill(struct fsn_thread *at, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct return_instance *ri = NULL;

	at->pid = task->tgid;
	at->tid = task->pid;
	at->switches = task->nvcsw + task->nivcsw;
	at->pc = REG_IP(regs);
	at->sp = REG_SP(regs);
	at->fp = REG_FP(regs);
	at->trampoline = mm->uprobes_state.xol_area->vaddr;
	if (task->utask)
		ri = task->utask->return_instances;
#pragma unroll
	for (int i = 0; i < FSN_RETURNS_MAX; i++) {
		if (!ri || bpf_core_read(&at->place[i], sizeof(at->place[i]), &ri->stack) ||
			bpf_core_read(&at->to[i], sizeof(at->to[i]), &ri->orig_ret_vaddr) ||
			bpf_core_read(&ri, sizeof(ri), &ri->next))
			break;
	}
}

#define SCHED_FIFO	1
#define SCHED_RR	2
#define SCHED_IDLE	5

/*
 * How long @task has slept. Run queues have a clock of their own: now is when the command got its CPU.
 * Other classes of the scheduler do not note how long a task had run before.
 */
static __always_inline __u64 slept_ns(struct task_struct *task)
{
	__u64 since, now;

	if (!bpf_core_field_exists(task->sched_info.last_arrival) || task->policy == SCHED_FIFO ||
		task->policy == SCHED_RR || task->policy > SCHED_IDLE)
		return 0;
	since = task->sched_info.last_arrival + task->se.sum_exec_runtime -
		task->se.prev_sum_exec_runtime;
	now = bpf_get_current_task_btf()->sched_info.last_arrival;
	return now > since ? now - since : FSN_SLEPT_LESS;
}

/* Lists all threads; those that run with .pc 0. */
SEC("iter/task")
int fsn_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct fsn_thread at = {};

	if (!task || !task->mm)
		return 0;
	/* One that goes to sleep has its state before it gives up its CPU. */
	if (task->__state && !task->on_cpu) {
		thread_fill(&at, task);
		at.slept_ns = slept_ns(task);
	} else {
		at.tid = task->pid;
		at.trampoline = task->mm->uprobes_state.xol_area->vaddr;
	}
	bpf_seq_write(ctx->meta->seq, &at, sizeof(at));
	return 0;
}
