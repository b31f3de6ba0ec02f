/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks the user stack from a call outwards.
 *
 * The rule for an address in a process is cached in a table of fixed size. If it is not
 * cached, the walk finds the file mapped at the address, and the row of the file's unwind
 * table (lib/unwind) that covers the address. Frames are a file's number and an offset in
 * it, so that they are the same in all processes and can be named after these have
 * exited.
 *
 * BPF programs can be preempted, so the state of a walk is claimed by
 * compare-and-exchange and released. A read of memory does not cross a page, because the
 * next page may not be in memory, and BPF cannot wait for it.
 *
 * Recursion needs no special case. Frames left by longjmp and exceptions are below the
 * stack pointer and are not read. Each cached rule has a stamp, which changes when
 * anything is unmapped: then the rule is looked up again, because another file may be
 * mapped at the address.
 */
#pragma once

#include <bpf/bpf_core_read.h>

#include "counters.bpf.h"
#include "filter.bpf.h"
#include "hold.bpf.h"
#include "mapping.bpf.h"
#include "maps.bpf.h"
#include "pages.bpf.h"
#include "cfi.bpf.h"

/* Python frames replace those of an interpreter */
const volatile bool fsn_walks_python = false;
/* stops a process until its unwind table is built, if that is safe */
const volatile bool fsn_stack_holds = false;

#define WINDOW_WORDS 256 /* 2 KiB */

#define PYTHON_WORDS 32

/* Next step of a walk in an interpreter's frame: bpf/python.bpf.h. */
enum python_step {
	PYTHON_BEGIN = 1, /* start at the interpreter's frame */
	PYTHON_FIND,      /* find the thread state */
	PYTHON_CALL,      /* find the frames of this call */
	PYTHON_FRAME,     /* read a frame */
	PYTHON_PUSH,
	/* a new code object: */
	PYTHON_NAME,
	PYTHON_FILE,
	PYTHON_HASH,
	PYTHON_KEEP,
	PYTHON_WRITE,
	PYTHON_FAIL, /* keep the interpreter's frame */
};

struct python {
	__u32 step, cnt;    /* .cnt: frames of the walk including the interpreter's */
	__u64 at, low;      /* address of that frame, and its stack pointer */
	__u64 hash, with;   /* hash of the walk without and with that frame */
	__u64 native;       /* that frame */
	__u64 base, state;  /* load address of its file; thread state */
	__u64 frame, cframe; /* next ones */
	__u64 first;        /* the first one of the call */
	__u64 last;         /* 1: the last one of the call */
	__u64 code, instruction, number, stamp;
	__u64 name, file, lines; /* addresses of the code object's members */
	__u64 text_len, text_kind, text_bytes; /* of the name or the file name */
	__u64 hashed;
	/* FSN_PYTHON_COUNT: calls of the interpreter, and those among the walk's frames; */
	__u32 calls, shown;
	__u32 done;       /* number of the latter that were replaced or lost */
	__u32 beyond;     /* frames that were only counted */
	__u32 guessed;    /* frames may be missing: one was found by the frame pointer */
	__u32 total, end; /* frames of the walk, and its end; .total 0: not at its end */
	__u8 place[FSN_FRAMES_MAX + 1]; /* indices of these calls */
	struct fsn_python p;
	__u64 words[PYTHON_WORDS];
	struct fsn_python_code made;
};

/* Registers at the start of the user stack, after .cnt kernel frames. */
struct walk_start {
	__u64 pc, sp, fp;
	__u32 exact, cnt;
};

/* A walk in progress. */
struct walk {
	__u32 busy, cnt;
	__u32 exact; /* .pc is the next instruction, not a return address */
	__u32 met;   /* a file was met for the first time */
	__u64 pc, sp, fp;
	__u64 ident; /* of the process and its current program */
	__u64 stamp; /* of its mappings, at the start of the walk */
	__u64 known, known_row; /* cached .frame and .row with another stamp */
	__u64 trampoline, instance; /* uretprobe trampoline; the next return instance */
	__u64 from, bytes; /* part of the stack in .window */
	__u64 hash;
	__u64 frame, row; /* of the current address */
	struct mapping mapping; /* the mapping that contains it */
	__u64 frames[FSN_FRAMES_MAX + 1];
	__u64 window[WINDOW_WORDS];
	struct python py;
	struct walk_start start;
	__u64 at;          /* address of the frame, also that of .cfi */
	__u64 tag;         /* of .cfi's row in fsn_cfi_rows */
	__u32 made;        /* rows built in this walk */
	__u32 have;        /* result of .cfi: HAVE_... */
	struct cfi cfi;
};
enum { HAVE_NOTHING, HAVE_ROW, HAVE_END };

/* A cached rule of an address; .at is RULE_LOCKED during a write. */
struct rule {
	__u64 at, ident, stamp, frame, row;
};
#define RULE_LOCKED 1

/* No command reads them. */
MAP(fsn_walks, ARRAY, __u32, struct walk, 1);
MAP(fsn_rules, ARRAY, __u32, struct rule, 1);

/* Rows of files without an unwind table, of all processes; .tag is RULE_LOCKED during a write. */
struct cfi_kept {
	__u64 tag, row;
};

struct cfi_file_kept {
	__u64 tag;
	struct cfi_file file;
};

MAP(fsn_cfi_rows, ARRAY, __u32, struct cfi_kept, 1);
MAP(fsn_cfi_files, ARRAY, __u32, struct cfi_file_kept, 1);

/* --- rules -------------------------------------------------------------------------- */

#define ROW_HOW(row) ((row) >> 32 & FSN_UNWIND_HOW)
#define ROW_IS_PYTHON(row) ((row) >> 32 & FSN_UNWIND_PYTHON)
#define ROW_FP(row)  ((__s64)((row) << 16) >> 56)
#define ROW_CFA(row) ((row) >> 48)

/* The row of @file that covers @offset, as a word. */
static __always_inline __u64 row_search(__u32 file, __u64 offset)
{
	struct fsn_unwind_row *row;
	__u32 none = 0, low = 0, high, mid;
	void *table, *head;

	table = bpf_map_lookup_elem(&fsn_tables, &file);
	if (!table)
		return 0;
	/* The first row has the number of rows. */
	head = bpf_map_lookup_elem(table, &none);
	if (!head)
		return 0;
	high = ((struct fsn_unwind_row *)head)->offset;
	/* [low, high) narrows down to the first row that starts after it. */
	for (int i = 0; i < 25; i++) {
		if (low >= high)
			break;
		mid = low + (high - low) / 2;
		none = mid + 1;
		row = bpf_map_lookup_elem(table, &none);
		if (!row)
			return 0;
		if (row->offset <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	row = bpf_map_lookup_elem(table, &low);
	return row && low ? *(__u64 *)row : 0;
}

/*
 * Stops the process until a command has built the table, if it runs its own code: the signal would
 * interrupt a system call of another thread. A thread about to sleep is in a system call, and the
 * signal would be sent after the switch, by another process.
 */
static __noinline int hold_for_table(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fsn_hold *hold;
	__u32 pid = task->tgid;

	if (task->__state || task->signal->live.counter != 1 || task->pid != task->tgid)
		return 0;
	/* Without a record of the stop's duration, it is not stopped. */
	if (hold_of(pid) && stop_make(pid))
		hold_signal(pid, &hold);
	return 0;
}

/*
 * Records a file without an unwind table, so that the next command can build it. True if
 * the file is new.
 */
static __always_inline bool want_file(const struct fsn_file_id *id, __u64 at)
{
	struct fsn_file_ref ref = { .pid = bpf_get_current_pid_tgid() >> 32, .at = at };

	if (bpf_map_update_elem(&fsn_file_of, id, &ref, BPF_NOEXIST))
		return false;
	add(&ctl.met, 1);
	return true;
}

/*
 * A number that changes when code that was on a stack is unmapped. Since 6.4, it counts
 * write locks of the whole address space, and changes before the lock is released
 * (vma_end_write_all()). Otherwise, on x86-64, it counts TLB flushes (inc_mm_tlb_gen()),
 * which happen before other code can be mapped there.
 */
static __always_inline __u64 mappings_stamp(const struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct mm_struct___now *now = (void *)mm;

	if (bpf_core_field_exists(now->mm_lock_seq.sequence))
		return now->mm_lock_seq.sequence;
	if (bpf_core_field_exists(mm->mm_lock_seq))
		return (__u32)mm->mm_lock_seq;
	if (bpf_core_field_exists(mm->context.tlb_gen.counter))
		return mm->context.tlb_gen.counter;
	return 0;
}

static __always_inline struct rule *rule_place(__u64 at, __u64 ident)
{
	__u32 i = (at ^ ident << 20 ^ ident >> 12) * 0x9e3779b97f4a7c15ULL >> 50 & (FSN_RULES - 1);

	return bpf_map_lookup_elem(&fsn_rules, &i);
}

/* Caches a rule; replaces that of another address. */
static __always_inline void rule_keep(__u64 at, const struct walk *w)
{
	struct rule *rule = rule_place(at, w->ident);
	__u64 seen;

	if (!rule)
		return;
	seen = READ(rule->at);
	if (seen == RULE_LOCKED || !swap(&rule->at, seen, RULE_LOCKED))
		return;
	rule->ident = w->ident;
	rule->stamp = w->stamp;
	rule->frame = w->frame;
	rule->row = w->row;
	publish(&rule->at, at);
}

/*
 * Finds the number of the file that mapping_find() has found, for rule_complete().
 * Returns 0 or the enum fsn_walk_end.
 */
__noinline int rule_find(struct walk *w, __u64 at)
{
	struct fsn_file_ref *ref;
	struct fsn_file_id id;

	if (!fsn_walks_stacks || !w)
		return FSN_WALK_LOST;
	w->row = 0;
	w->frame = at & FSN_FRAME_OFFSET;
	id = w->mapping.id; /* 6.1 does not accept a map value as a key */
	if (mapping_is_vdso(&w->mapping))
		id = (struct fsn_file_id) {};
	else if (!id.ino)
		return 0;
	ref = bpf_map_lookup_elem(&fsn_file_of, &id);
	if (!ref && !id.ino)
		return 0;
	if (!ref || !ref->file) {
		if (!ref && want_file(&id, at))
			w->met = 1;
		if (w->mapping.offset <= FSN_MET_OFFSET)
			w->frame = met_frame(&id, w->mapping.offset);
		return FSN_WALK_NO_TABLE;
	}
	w->frame = (__u64)ref->file << FSN_FRAME_SHIFT | (w->mapping.offset & FSN_FRAME_OFFSET);
	return 0;
}

/*
 * Finds the row for the address and caches the rule. Separate from rule_find(), because
 * the call chain has 512 bytes of stack.
 */
__noinline int rule_complete(struct walk *w, __u64 at)
{
	__u32 file;

	if (!fsn_walks_stacks || !w)
		return 0;
	file = w->frame >> FSN_FRAME_SHIFT;
	if (file && w->known == w->frame)
		w->row = w->known_row;
	else if (file)
		w->row = row_search(file, w->frame & FSN_FRAME_OFFSET);
	rule_keep(at, w);
	return 0;
}

/*
 * True if the rule of @at is cached; .frame and .row are then set. A rule with another
 * stamp is stored in .known and .known_row.
 */
static __always_inline bool rule_known(struct walk *w, __u64 at)
{
	struct rule *rule = rule_place(at, w->ident);
	__u64 frame, row, seen, stamp;

	w->known = 0;
	if (!rule || READ(rule->at) != at)
		return false;
	seen = READ(rule[AFTER(at, 0)].ident);
	stamp = READ(rule[AFTER(seen, 0)].stamp);
	frame = READ(rule[AFTER(stamp, 0)].frame);
	row = READ(rule[AFTER(frame, 0)].row);
	if (seen != w->ident || READ(rule[AFTER(row, 0)].at) != at ||
		READ(rule[AFTER(row, 0)].ident) != seen)
		return false;
	if (stamp != w->stamp) {
		w->known = frame;
		w->known_row = row;
		return false;
	}
	w->frame = frame;
	w->row = row;
	return true;
}

/* --- the stack -------------------------------------------------------------------------------- */

/* Reads the stack from @addr to the end of its page at most. */
__noinline int window_move(struct walk *w, __u64 addr)
{
	__u64 bytes = 4096 - (addr & 4095);

	if (!fsn_walks_stacks || !w)
		return -1;
	if (bytes > WINDOW_WORDS * 8)
		bytes = WINDOW_WORDS * 8;
	w->bytes = 0;
	if (bpf_probe_read_user(w->window, bytes, (void *)addr))
		return -1;
	w->from = addr;
	w->bytes = bytes;
	return 0;
}

static __always_inline int word_read(struct walk *w, __u64 addr, __u64 *ret)
{
	if (addr & 7)
		return -1;
	if (addr - w->from >= w->bytes && window_move(w, addr))
		return -1;
	*ret = w->window[(addr - w->from) >> 3 & (WINDOW_WORDS - 1)];
	return 0;
}

/*
 * Sets .pc to the original return address of the call whose return address is, or would
 * be, at @place: the kernel has replaced it by that of its trampoline.
 */
__noinline int walk_return(struct walk *w, __u64 place)
{
	struct return_instance *ri;
	__u64 stack = 0, to = 0, next = 0;

	if (!fsn_walks_stacks || !w)
		return -1;
	for (int i = 0; i < 80; i++) {
		ri = (void *)w->instance;
		if (!ri || bpf_core_read(&stack, sizeof(stack), &ri->stack) ||
			bpf_core_read(&to, sizeof(to), &ri->orig_ret_vaddr) ||
			bpf_core_read(&next, sizeof(next), &ri->next))
			return -1;
		if (stack >= place) {
			w->pc = to;
			return 0;
		}
		w->instance = next;
	}
	return -1;
}

/*
 * Finds the caller's registers by the frame pointer, for code without a rule. Returns 0
 * or the enum fsn_walk_end.
 */
static __always_inline int step_by_fp(struct walk *w)
{
	__u64 fp = w->fp, pc, next;

	if (!fp)
		return FSN_WALK_OUTERMOST;
	/* In code without frame pointers, the register has any value. */
	if (fp < w->sp || fp - w->sp > (1 << 20) || word_read(w, fp, &next) ||
		word_read(w, fp + 8, &pc))
		return FSN_WALK_NO_RULE;
	w->pc = pc;
	w->sp = fp + 16;
	w->fp = next;
	return 0;
}

#if defined(__TARGET_ARCH_x86)
static __always_inline int step_signal(struct walk *w)
{
	__u64 pc, sp, fp;

	/* struct rt_sigframe after its first word, arch/x86/include/asm/sigframe.h */
	if (word_read(w, w->sp + 0x78, &fp) || word_read(w, w->sp + 0xa0, &sp) ||
		word_read(w, w->sp + 0xa8, &pc))
		return FSN_WALK_NO_MEMORY;
	w->pc = pc;
	w->sp = sp;
	w->fp = fp;
	w->exact = 1;
	return 0;
}

/* Finds the caller's registers by the row. Returns 0 or the enum fsn_walk_end. */
static __always_inline int step_by_row(struct walk *w, __u64 row)
{
	__u64 how = ROW_HOW(row), cfa, fp = w->fp, pc;
	__s64 at = ROW_FP(row);

	if (how == FSN_UNWIND_DEREF) {
		if (word_read(w, w->fp - 8 * ROW_CFA(row), &cfa) || word_read(w, w->fp, &fp))
			return FSN_WALK_NO_MEMORY;
	} else {
		cfa = (how == FSN_UNWIND_FP ? w->fp : w->sp) + 8 * ROW_CFA(row);
		if (at && word_read(w, cfa + 8 * at, &fp))
			return FSN_WALK_NO_MEMORY;
	}
	/* The stack grows downwards, so the caller's frame must be above. */
	if (cfa <= w->sp)
		return FSN_WALK_LOST;
	if (word_read(w, cfa - 8, &pc))
		return FSN_WALK_NO_MEMORY;
	w->pc = pc;
	w->sp = cfa;
	w->fp = fp;
	return 0;
}

/* Moves to the caller's frame. Returns 0 or the enum fsn_walk_end. */
static __always_inline int step_out(struct walk *w, __u64 row)
{
	switch (ROW_HOW(row)) {
	case FSN_UNWIND_NONE:
		return step_by_fp(w);
	case FSN_UNWIND_SIGNAL:
		return step_signal(w);
	case FSN_UNWIND_END:
		return FSN_WALK_OUTERMOST;
	case FSN_UNWIND_LOST:
		return FSN_WALK_LOST;
	default:
		return step_by_row(w, row);
	}
}

/* Address of the return address of the frame that was just left. */
#define WALK_PLACE(w) ((w)->sp - 8)
/* Start of a frame on the stack; it ends at the start of its caller's. */
#define WALK_BEGIN(w) ((w)->sp)
#define CODE_ADDR(pc) (pc)

#elif defined(__TARGET_ARCH_arm64)
static __always_inline int step_out(struct walk *w, __u64 row)
{
	return step_by_fp(w);
}

#define WALK_PLACE(w) ((w)->sp)
/* The frame record is the lowest part of a frame. */
#define WALK_BEGIN(w) ((w)->fp)
/* Without the bits of pointer authentication. */
#define CODE_ADDR(pc) ((pc) & FSN_FRAME_OFFSET)
#endif

/* --- rows built from .eh_frame ------------------------------------------------------ */

/*
 * Limits of one walk: number of rows built, and batches of CFI_OPS instructions. A walk
 * that reaches a limit ends with FSN_WALK_BOUND. The next walk starts with the rows that
 * this one has cached.
 */
#define WALK_ROWS 64
#define WALK_RUNS 384

/*
 * A hash of file and offset with 63 bits: among a million entries, two collide by chance
 * once in 2^24 machines. Never 0 or RULE_LOCKED.
 */
static __always_inline __u64 cfi_tag(const struct fsn_file_id *id, __u64 off)
{
	__u64 tag = (id->ino * 0x9e3779b97f4a7c15ULL ^ ((__u64)id->dev << 32 | id->version)) *
		0xbf58476d1ce4e5b9ULL;

	tag = (tag ^ tag >> 31 ^ off) * 0x94d049bb133111ebULL;
	return (tag ^ tag >> 29) | 2;
}

static __always_inline struct cfi_kept *cfi_row_place(__u64 tag)
{
	__u32 i = tag >> 40 & (FSN_CFI_ROWS - 1);

	return bpf_map_lookup_elem(&fsn_cfi_rows, &i);
}

static __always_inline struct cfi_file_kept *cfi_file_place(__u64 tag)
{
	__u32 i = tag >> 40 & (FSN_CFI_FILES - 1);

	return bpf_map_lookup_elem(&fsn_cfi_files, &i);
}

/* The tag of the file itself uses an offset that no row has. */
#define CFI_FILE_OFF (~0ULL)

static __always_inline bool cfi_row_known(struct walk *w)
{
	struct cfi_kept *kept = cfi_row_place(w->tag);
	__u64 row;

	if (!kept || READ(kept->tag) != w->tag)
		return false;
	row = READ(kept->row);
	if (READ(kept[AFTER(row, 0)].tag) != w->tag)
		return false;
	w->cfi.row = row;
	return true;
}

static __always_inline void cfi_row_keep(const struct walk *w)
{
	struct cfi_kept *kept = cfi_row_place(w->tag);
	__u64 seen = kept ? READ(kept->tag) : RULE_LOCKED;

	if (!kept || seen == RULE_LOCKED || !swap(&kept->tag, seen, RULE_LOCKED))
		return;
	kept->row = w->cfi.row;
	publish(&kept->tag, w->tag);
}

/* True if the data of the file's program headers is cached; .cfi.file is then set. */
static __always_inline bool cfi_file_known(struct walk *w, __u64 tag)
{
	struct cfi_file_kept *kept = cfi_file_place(tag);

	w->cfi.file.state = 0;
	if (!kept || READ(kept->tag) != tag)
		return false;
	__builtin_memcpy(&w->cfi.file, &kept->file, sizeof(kept->file));
	if (READ(kept[AFTER(w->cfi.file.state, 0)].tag) == tag &&
		(w->cfi.file.state == CFI_FILE_NO_HDR ||
			w->cfi.off - w->cfi.file.start < w->cfi.file.end - w->cfi.file.start))
		return true;
	w->cfi.file.state = 0;
	return false;
}

static __always_inline void cfi_file_keep(const struct walk *w)
{
	__u64 tag = cfi_tag(&w->mapping.id, CFI_FILE_OFF);
	struct cfi_file_kept *kept = cfi_file_place(tag);
	__u64 seen = kept ? READ(kept->tag) : RULE_LOCKED;

	if (!kept || seen == tag || seen == RULE_LOCKED || !swap(&kept->tag, seen, RULE_LOCKED))
		return;
	__builtin_memcpy(&kept->file, &w->cfi.file, sizeof(kept->file));
	publish(&kept->tag, tag);
}

/* CFI_LOOK: finds a cached row, or starts to build it. */
static __always_inline int row_look_up(struct walk *w)
{
	struct file___space *file = (void *)w->mapping.file;
	__u64 space = 0;

	w->cfi.why = CFI_OK;
	w->cfi.off = w->mapping.offset;
	w->tag = cfi_tag(&w->mapping.id, w->cfi.off);
	if (cfi_row_known(w)) {
		w->cfi.step = CFI_IDLE;
		w->have = HAVE_ROW;
		return 0;
	}
	if (w->made++ >= WALK_ROWS) {
		cfi_fail(&w->cfi, CFI_LONG);
		return 0;
	}
	if (bpf_core_read(&space, sizeof(space), &file->f_mapping))
		space = 0;
	if (space != w->cfi.pages.space)
		w->cfi.pages.page = 0;
	w->cfi.pages.space = space;
	if (!space)
		cfi_fail(&w->cfi, CFI_NO_PAGE);
	else if (!cfi_file_known(w, cfi_tag(&w->mapping.id, CFI_FILE_OFF)))
		w->cfi.step = CFI_ELF;
	else if (w->cfi.file.state == CFI_FILE_NO_HDR)
		cfi_fail(&w->cfi, CFI_NO_HDR);
	else
		w->cfi.step = CFI_SEARCHES;
	return 0;
}

/* Runs before and after the steps of cfi.bpf.h. */
__noinline int row_step(struct walk *w)
{
	if (!fsn_cfi || !w)
		return 0;
	if (w->cfi.step == CFI_LOOK)
		return row_look_up(w);
	if (w->cfi.step == CFI_SEARCHES || (w->cfi.step == CFI_FAILED && w->cfi.why == CFI_NO_HDR))
		cfi_file_keep(w);
	if (w->cfi.step == CFI_MADE) {
		cfi_row_keep(w);
		w->have = HAVE_ROW;
		w->cfi.step = CFI_IDLE;
	} else if (w->cfi.step == CFI_FAILED) {
		w->have = HAVE_END;
		w->cfi.step = CFI_IDLE;
	} else if (w->cfi.total >= WALK_RUNS) {
		cfi_fail(&w->cfi, CFI_LONG);
	}
	return 0;
}

/* The enum fsn_walk_end at a file of which no row could be built. */
static __always_inline int row_end(const struct walk *w)
{
	switch (w->cfi.why) {
	case CFI_NO_PAGE:
		return FSN_WALK_NO_PAGE;
	case CFI_BAD:
		return FSN_WALK_BAD_FRAMES;
	case CFI_LONG:
		return FSN_WALK_BOUND;
	default:
		return FSN_WALK_NO_TABLE;
	}
}

/* --- one frame ---------------------------------------------------------------------------------- */

/*
 * Finds the rule of @at. Returns 0, or the enum fsn_walk_end after that frame; negative:
 * before that frame.
 */
static __always_inline int frame_find(struct walk *w, __u64 at)
{
	int end = mapping_find(&w->mapping, at);

	if (!end)
		end = rule_find(w, at);
	if (end && end != FSN_WALK_NO_TABLE)
		return -end;
	if (!end)
		rule_complete(w, at);
	/* Not in rule_find(), because the call chain has 512 bytes of stack. */
	if (w->met)
		mapping_name(&w->mapping);
	if (fsn_stack_holds && w->met)
		hold_for_table();
	w->met = 0;
	/* A frame without a file number gets no row. */
	if (fsn_cfi && end == FSN_WALK_NO_TABLE && w->frame >> FSN_FRAME_SHIFT)
		w->cfi.step = CFI_LOOK;
	return end;
}

/* Maximum number of frames that are only counted. */
#define WALK_BEYOND 3072

/* True if the walk goes on without storing frames, to count all calls of the interpreter. */
static __always_inline bool walk_counts(struct walk *w)
{
	return fsn_walks_python && w->py.calls && w->py.beyond++ < WALK_BEYOND;
}

/* Counts the call of the last frame, an interpreter's. */
static __always_inline void eval_count(struct walk *w)
{
	w->py.calls++;
	if (!w->py.beyond)
		w->py.place[w->py.shown++ & FSN_FRAMES_MAX] = w->cnt - 1;
}

/* True if the memory that the registers belong to may be gone: execve(2) has replaced it. */
static __always_inline bool is_in_exec(const struct walk *w)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return w->cnt && w->cnt == w->start.cnt && BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

/* Stores one frame and moves to its caller. Returns 0 or the enum fsn_walk_end. */
static __always_inline int walk_frame(struct walk *w)
{
	int end = 0;

	if (fsn_cfi && w->have) {
		end = w->have == HAVE_END ? row_end(w) : 0;
		w->have = HAVE_NOTHING;
		w->row = w->cfi.row;
		if (!end)
			rule_keep(w->at, w);
	} else {
		if (w->cnt >= FSN_FRAMES_MAX && !walk_counts(w))
			return FSN_WALK_DEEP;
		w->at = CODE_ADDR(w->pc) - !w->exact;
		w->exact = 0;
		if (w->pc < 4096)
			return FSN_WALK_OUTERMOST;
		if (!rule_known(w, w->at)) {
			end = frame_find(w, w->at);
			if (end < 0)
				return end == -FSN_WALK_NOWHERE && is_in_exec(w) ? FSN_WALK_OUTERMOST : -end;
			if (fsn_cfi && w->cfi.step)
				return 0;
		}
	}
	if (fsn_walks_python) {
		w->py.low = WALK_BEGIN(w);
		w->py.hash = w->hash;
	}
	if (w->cnt < FSN_FRAMES_MAX) {
		w->frames[w->cnt++ & FSN_FRAMES_MAX] = w->frame;
		w->hash = ((w->hash ^ w->hash >> 32) ^ w->frame) * 0x9e3779b97f4a7c15ULL;
	}
	if (end)
		return end;
	end = step_out(w, w->row);
	if (end)
		return end;
	if (fsn_walks_python && ROW_HOW(w->row) == FSN_UNWIND_NONE)
		w->py.guessed = 1;
	if (w->pc == w->trampoline && walk_return(w, WALK_PLACE(w)))
		return FSN_WALK_LOST;
	if (fsn_walks_python && ROW_IS_PYTHON(w->row)) {
		w->py.at = w->at;
		if (w->py.calls && w->at - (w->frame & FSN_FRAME_OFFSET) == w->py.base)
			eval_count(w);
		else
			w->py.step = PYTHON_BEGIN;
	}
	return 0;
}

#define WALK_FRAMES 32

static __always_inline bool walk_has_turn(const struct walk *w)
{
	return !(fsn_cfi && w->cfi.step) && !(fsn_walks_python && w->py.step);
}

/* The end of a walk: now calls of the interpreter that were counted are replaced. */
static __always_inline int walk_end(struct walk *w, int end)
{
	if (!fsn_walks_python || !w->py.calls)
		return end;
	w->py.total = w->cnt;
	w->py.end = w->py.beyond ? FSN_WALK_DEEP : end;
	w->py.step = PYTHON_CALL;
	/* A missing call could hide that the innermost one, without callees, is starting. */
	if (end == FSN_WALK_OUTERMOST && !(w->py.guessed && w->py.place[0] == w->start.cnt))
		w->py.step = PYTHON_FIND;
	return 0;
}

/* Some frames, while it is the walk's turn: 0, or how it ends. */
__noinline int walk_step(struct walk *w)
{
	int end;

	if (!fsn_walks_stacks || !w)
		return FSN_WALK_LOST;
	for (int i = 0; i < WALK_FRAMES; i++) {
		if (!walk_has_turn(w))
			return 0;
		end = walk_frame(w);
		if (end)
			return walk_end(w, end);
	}
	return 0;
}
