/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Planning: where a function's entry probe goes and how the end of a call is seen. Pure:
 * bytes, symbols and ranges in, a plan with its reasons out. Nothing is opened or read.
 */
#ifndef FUNCSNOOP_CODE_PLAN_H
#define FUNCSNOOP_CODE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "elf/elf_file.h"

enum plan_exit {
	PLAN_EXIT_NONE,   /* only counted */
	PLAN_EXIT_RETURN, /* session or uretprobe */
	PLAN_EXIT_RET,    /* probes on every ret and on every jump that leaves */
	PLAN_EXIT_EARLY,  /* the same, with instructions that the kernel emulates, and that
			     lead to a ret and nothing else, in the place of all rets */
};

enum plan_exit_mode {
	PLAN_MODE_AUTO,
	PLAN_MODE_RETURN,
	PLAN_MODE_EARLY, /* as AUTO, but return probes never */
	PLAN_MODE_RET,
	PLAN_MODE_NONE,
};

/* What this kernel and the target allow; from experiments, not from versions. */
struct plan_rules {
	enum plan_exit_mode exit; /* --exit */
	bool site_entry;          /* --site entry: never move the probe off the entry */
	bool count_only;          /* --count: argument registers may be written before */
	bool keep_args;           /* even so they are looked at: they may not, and the
				     stack pointer is the entry's */
	bool nop5_unsafe;         /* kernel turns a probed 5-byte nop into a call */
	bool multinop_emulated;   /* kernel emulates multi-byte nops (6.16 and later) */
	bool call_unsafe;         /* shadow stacks can be in use: don't land on a call */
	bool return_unsafe;       /* return probes are unsafe on this kernel */
	bool prove; /* return probes where they are proved safe, and nothing is cheaper */
	bool kprobes; /* functions of the kernel by these, not by trampolines */
	bool leave_jumps;         /* jumps that leave are not followed to where they lead */
};

struct plan_request {
	const char *name; /* a name of the function, or NULL; for the list of names that
			      are never followed (unwinder, setjmp, vfork, ...) */
	uint64_t addr;    /* its first instruction */
	uint64_t size;    /* of its symbol; 0: unknown, taken from .eh_frame or the next
			      symbol */
	const char
		*return_why; /* why return probes are safe for it ("preset cuda declares
				   nothrow"), or NULL when nobody vouches */
	const char
		*no_return_why; /* why it must have no return probe, whoever vouches for one; or
				   NULL. Not for --exit return. */
	const char
		*alone_why; /* of an executable: why its functions meet no code that unwinds,
				   switches stacks or is loaded later, so that unknown callees
				   are allowed; or NULL */
	bool stack_args; /* arguments are looked for above the stack pointer */
};

enum plan_exit_kind {
	PLAN_END_RET,     /* a ret instruction */
	PLAN_END_JMP,     /* an unconditional jump that leaves the function */
	PLAN_END_JCC,     /* a conditional jump that leaves when its condition holds */
	PLAN_END_JMP_REG, /* jmp *%reg or br: leaves when the target is outside ranges[] */
	PLAN_END_EARLY,   /* a nop, push or jump from which control goes to a ret alone */
	PLAN_END_EARLY_JCC, /* a conditional jump that goes to a ret alone when .cond holds,
			       be that its target or what is behind it */
};

/*
 * Early ends, before the instruction has run: where the return address lies, and what the
 * result will be. They are written so that all zeros are a ret's.
 */
struct plan_place {
	int32_t offset; /* to be added to the stack pointer, or to the frame pointer */
	bool from_fp;
};

struct plan_value {
	bool is_number;
	int8_t number; /* PLAN_NUMBER_MIN to _MAX: the result itself, sign-extended */
	uint8_t reg;   /* else the register that will become it, by number */
	uint8_t cut;   /* how often its 64 bits are halved; zeros above what is left */
};

/* Calls go on elsewhere, if they take it. */
static inline bool plan_end_leaves(enum plan_exit_kind kind)
{
	return kind != PLAN_END_RET && kind < PLAN_END_EARLY;
}

#define PLAN_NUMBER_MIN (-32)
#define PLAN_NUMBER_MAX 31

/* A place at which a call of the function ends. */
struct plan_end {
	uint64_t addr;
	uint64_t target; /* where a jump leads, also through a stub of the linkage table or
			    a word that the linker fills; 0: that is not known */
	uint64_t word; /* not 0: it leads there only while this word has that address, as
			  another file's function may stand in for it */
	enum plan_exit_kind kind;
	/*
	 * PLAN_END_JCC: the condition. x86-64: the low 4 bits of the opcode (0 o .. 15 g),
	 * or PLAN_COND_CXZ (jrcxz) / PLAN_COND_ECXZ. arm64: PLAN_COND_B + cond for b.cond,
	 * and the cbz family with reg, bit and width below.
	 */
	uint8_t cond;
	uint8_t reg; /* JMP_REG: x86-64 hardware number (0 rax .. 15 r15), arm64 0..30;
			  arm64 cbz/tbz: the register tested */
	uint8_t bit; /* arm64 tbz/tbnz: bit; cbz/cbnz: 32 or 64 is the width in .width */
	uint8_t width; /* arm64 cbz/cbnz: 32 or 64 */
	bool stepped; /* the kernel does not emulate it */
	bool restart; /* a jump to the function's own entry after its frame was taken down:
			  an end and a new call (the entry probe sees that one) */
	struct plan_place place;
	struct plan_value value;
};

#define PLAN_COND_CXZ  16
#define PLAN_COND_ECXZ 17
#define PLAN_COND_CBZ  18 /* arm64 from here */
#define PLAN_COND_CBNZ 19
#define PLAN_COND_TBZ  20
#define PLAN_COND_TBNZ 21
#define PLAN_COND_B    32 /* + condition 0..15 */

#define PLAN_INSN_LEN 64
#define PLAN_WHY_LEN  160

struct plan {
	char refused[PLAN_WHY_LEN]; /* why it can't be probed at all, or "" */
	uint64_t addr, size;        /* as found; size without cold parts */
	uint64_t site;              /* where the entry probe goes */
	char site_why[PLAN_WHY_LEN];
	char insn[PLAN_INSN_LEN]; /* the instruction at the site, AT&T syntax */
	bool site_emulated;       /* the kernel emulates it: no single step */
	int32_t site_depth;       /* bytes by which the stack pointer lies below the entry's
				     there; with a return probe none */
	bool args_written;        /* in front of it, registers that carry arguments may be */
	enum plan_exit exit;
	char exit_why[PLAN_WHY_LEN];
	struct plan_range *ranges; /* the function's own code: itself, then, when its
				      ends were looked for, its cold parts */
	size_t range_cnt;
	struct plan_end *ends; /* exit == PLAN_EXIT_RET, _EARLY: sorted by addr, unique */
	size_t end_cnt;
	bool site_is_end; /* entry site and end are one instruction (forwarder): a PLAN_END_RET
			     or PLAN_END_JMP, which is always taken, and is in ends[], too */
};

/* "return", "ret", "early" or "none". */
const char *plan_exit_text(enum plan_exit exit);

/*
 * Whether a probe on the instruction at @bytes, of which @len follow, is accepted by the
 * kernel and does the traced program no harm. Returns 0, -EILSEQ when no instruction is
 * there, -ENOTSUP when it must not be probed; all but 0 with the reason in @why
 * of @size bytes.
 */
int plan_insn_probe_ok(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules, char *why, size_t size);

/*
 * Whether no instruction of the file's code moves the stack pointer to another stack. False,
 * too, when it can't be told: something is no instruction, or there are more than @max_bytes.
 */
bool plan_stays_on_stack(const struct plan_image *img, size_t max_bytes);

/* Functions that are called: words of the linkage table with their addresses, and addresses. */
struct plan_calls {
	const uint64_t *words, *funcs;
	size_t word_cnt, func_cnt;
};

/*
 * Whether a signal handler of the file may leave the call that it interrupts: a function that is
 * handed to one of @install, and calls one of @leave; *@ret_handler is its address, 0: none is
 * found. x86-64 only.
 */
_must_check_ int plan_handler_leaves(const struct plan_image *img, const struct plan_calls *install,
	const struct plan_calls *leave, uint64_t *ret_handler);

struct planner;

/*
 * A planner for one image. -ENOTSUP when the disassembler lacks the
 * architecture. Close it with planner_free().
 */
int planner_new(const struct plan_image *img, const struct plan_rules *rules,
	struct planner **ret_planner, struct err *err);
void planner_free(struct planner *p);

/*
 * Plans one function. A function that can't be probed is no error: the plan says why in
 * .refused, and has no ranges and no ends. At an address that begins neither a symbol nor
 * an FDE the plan is a probe on that very instruction, which is only counted. Fails only with
 * End with plan_done(). One thread at a time uses a planner.
 */
int planner_plan(struct planner *p, const struct plan_request *req, struct plan *ret_plan,
	struct err *err);
void plan_done(struct plan *plan);

/*
 * Chooses PLAN_EXIT_RETURN for @plan, that of @req, if its returns are probed at ret and a return
 * probe is proven safe; see the rules. Otherwise says in .exit_why why it is not.
 */
int planner_prove(struct planner *p, const struct plan_request *req, struct plan *plan);

/* --- jumps out of functions ----------------------------------------------------------------- */

/*
 * Where the jumps lead by which calls leave functions of one file: to another of them, or to
 * code that is to be probed for their sake. Pure, as the planner.
 */

#define FOLLOW_LEVELS   4  /* jumps from a function of the group to a place */
#define FOLLOW_RETS_MAX 32 /* that a place may have */
#define FOLLOW_RETS_MIN 32 /* that all places of a file may have, whatever share that is */
#define FOLLOW_SHARE    10 /* or one for so many of the functions' own */

/* Code that calls are followed to, and that is no function of the group. */
struct follow_place {
	uint64_t addr;
	struct plan plan; /* .exit is PLAN_EXIT_RET or _EARLY */
	bool entry;       /* its entry is to be probed, too: plan.site */
};

/* A function of the file that is probed. */
struct follow_func {
	const struct plan *plan;
	uint32_t no;
	bool led; /* some jump that is followed leads here */
};

struct follow {
	struct follow_func *funcs; /* by plan->addr */
	size_t func_cnt;
	struct follow_place *places; /* in no order */
	size_t place_cnt;
	uint32_t first; /* the first place's number, behind all functions' */
};

/* What is known of a function that begins at @addr, in @req, which has the address. */
typedef void (*follow_request_fn)(void *arg, struct plan_request *req);

/*
 * Finds places for the jumps of f->funcs, functions of the file that @p plans for. Left alone
 * is a jump to what can't be followed itself, has more than FOLLOW_RETS_MAX ret, or would
 * make too many probes. End with follow_done(), which does not free .funcs.
 */
int follow_find(struct follow *f, struct planner *p, follow_request_fn request, void *arg,
	struct err *err);
void follow_done(struct follow *f);

/* Sets .led of all functions, and .first to @first. */
void follow_number(struct follow *f, uint32_t first);

/* Where a jump leads. */
struct follow_to {
	uint32_t no;
	bool entry; /* its entry is probed */
};

/* Whether the jump @end is followed. */
bool follow_end(const struct follow *f, const struct plan_end *end, struct follow_to *ret_to);

/* Whether some jump that is followed leads to the function of @plan. */
bool follow_leads_to(const struct follow *f, const struct plan *plan);

/* Whether @plan is of a function that is one jump, which is followed: its calls are timed. */
bool follow_forwards(const struct follow *f, const struct plan *plan);

/* Says in plan->exit_why what becomes of calls that leave by its jumps. */
void follow_explain(const struct follow *f, struct plan *plan);

/* How many of its jumps are not followed. */
size_t follow_lost(const struct follow *f, const struct plan *plan);

#endif
