/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plans the probes of a function: where the entry probe goes, and how returns are traced. The
 * planner has no side effects: it maps bytes, symbols and ranges to a plan with its reasons, and
 * opens no files.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "elf/elf_file.h"

enum plan_exit {
	PLAN_EXIT_NONE,   /* only counted */
	PLAN_EXIT_RETURN, /* session or uretprobe */
	PLAN_EXIT_RET,    /* probes on every ret and every tail call */
	PLAN_EXIT_EARLY,  /* the same, but instead of each ret probes an emulated instruction
			     from which control can only reach a ret */
};

enum plan_exit_mode {
	PLAN_MODE_AUTO,
	PLAN_MODE_RETURN,
	PLAN_MODE_EARLY, /* as AUTO, but without return probes */
	PLAN_MODE_RET,
	PLAN_MODE_NONE,
};

/* Limits of this kernel and the target, measured by self-tests, not derived from versions. */
struct plan_rules {
	enum plan_exit_mode exit; /* --exit */
	bool site_entry;          /* --site entry: never move the probe off the entry */
	bool count_only;          /* argument registers may be written before the site */
	bool keep_args;           /* argument registers are read despite .count_only: they must
				     not be written before the site, and the stack pointer must
				     be the entry's */
	bool nop5_unsafe;         /* the kernel turns a probed 5-byte nop into a call */
	bool multinop_emulated;   /* the kernel emulates multi-byte nops (6.16 and later) */
	bool call_unsafe;         /* shadow stacks can be in use: never put a site on a call */
	bool return_unsafe;       /* return probes are unsafe on this kernel */
	bool prove; /* use return probes that are proven safe, unless other probes are cheaper */
	bool kprobes; /* trace kernel functions with kprobes, not trampolines */
	bool leave_jumps;         /* tail calls are not tracked */
};

struct plan_request {
	const char *name; /* a name of the function, or NULL; matched against the names that are
			     never tracked (unwinder, setjmp, vfork, ...) */
	uint64_t addr;    /* its first instruction */
	uint64_t size;    /* of its symbol; 0: unknown, use .eh_frame or the next symbol */
	const char
		*return_why; /* why return probes are safe for it ("preset cuda declares
				nothrow"), or NULL if it is not declared nothrow */
	const char
		*no_return_why; /* why it must have no return probe even if declared nothrow; or
				   NULL. Ignored with --exit return. */
	const char
		*alone_why; /* of an executable: why its functions never run with code that
			       unwinds, switches stacks or is loaded later, so that unknown
			       callees are allowed; or NULL */
	bool stack_args; /* arguments are read from the stack */
	bool go; /* compiled by Go, with arguments and the goroutine in registers */
	bool place; /* only the instruction at .addr is meant, also at a function's start */
	bool go_unknown; /* in a program of Go, and not known to be either .go or another language's */
};

enum plan_exit_kind {
	PLAN_END_RET,     /* a ret instruction */
	PLAN_END_JMP,     /* an unconditional tail call */
	PLAN_END_JCC,     /* a conditional tail call, made if its condition holds */
	PLAN_END_JMP_REG, /* a tail call if the target is outside ranges[] */
	PLAN_END_EARLY,   /* a nop, push or jump from which control can only reach a ret */
	PLAN_END_EARLY_JCC, /* a conditional jump that can only reach a ret if .cond holds,
			       either on its taken or on its fall-through side */
};

/*
 * Early ends: state before the instruction runs, namely the address of the return address and the
 * future result. All zeros describe a ret.
 */
struct plan_place {
	int32_t offset; /* added to the stack pointer, or to the frame pointer */
	bool from_fp;
};

struct plan_value {
	bool is_number;
	int8_t number; /* PLAN_NUMBER_MIN to _MAX: the result itself, sign-extended */
	uint8_t reg;   /* otherwise the number of the register that becomes the result */
	uint8_t cut;   /* how often its 64 bits are halved; the bits above are zero */
};

/* True if @kind is a tail call, also a conditional one. */
static inline bool plan_end_leaves(enum plan_exit_kind kind)
{
	return kind != PLAN_END_RET && kind < PLAN_END_EARLY;
}

#define PLAN_NUMBER_MIN (-32)
#define PLAN_NUMBER_MAX 31

/* An instruction at which a call of the function returns or makes a tail call. */
struct plan_end {
	uint64_t addr;
	uint64_t target; /* target of a jump, resolved through a PLT stub or a word that the
			    linker fills; 0: not known */
	uint64_t word; /* if not 0: .target is valid only while this word holds it, because
			  another file can interpose the function */
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
	bool stepped; /* the kernel single-steps it */
	bool restart; /* a jump to the function's own entry after its frame is removed: a return
			 and a new call, which the entry probe counts */
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
	uint64_t addr, size;        /* as found; .size excludes cold parts */
	uint64_t site;              /* where the entry probe goes */
	char site_why[PLAN_WHY_LEN];
	char insn[PLAN_INSN_LEN]; /* the instruction at the site, AT&T syntax */
	bool site_emulated;       /* the kernel emulates it, without a single step */
	int32_t site_depth;       /* bytes pushed since the entry; 0 with a return probe */
	bool args_written;        /* argument registers may be written before the site */
	enum plan_exit exit;
	char exit_why[PLAN_WHY_LEN];
	struct plan_range *ranges; /* the function itself, then, if its ends were searched for,
				      its cold parts */
	size_t range_cnt;
	struct plan_end *ends; /* exit == PLAN_EXIT_RET, _EARLY: sorted by addr, unique */
	size_t end_cnt;
	bool goroutine; /* exit == PLAN_EXIT_RET: the stack can move during a call, so calls are
			   matched by goroutine; all ends are PLAN_END_RET */
	bool site_is_end; /* the entry site is also an end (forwarder): a PLAN_END_RET or
			     PLAN_END_JMP, which is always taken and also in ends[] */
};

/* "return", "ret", "early" or "none". */
const char *plan_exit_text(enum plan_exit exit);

/*
 * Checks that the kernel accepts a probe on the instruction at @bytes, of which @len are readable,
 * and that the probe does not harm the traced program. Returns 0, -EILSEQ if the bytes are not an
 * instruction, or -ENOTSUP if it must not be probed. On failure, @why of @size bytes is the reason.
 */
int plan_insn_probe_ok(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules, char *why, size_t size);

/* Returns the last FDE that starts at or before @addr and contains it, or NULL. */
const struct plan_fde *image_fde(const struct plan_image *img, uint64_t addr);

/* True if a PLT stub starts at @addr, or there is no code. */
bool image_is_stub(const struct plan_image *img, uint64_t addr);

/*
 * True if no instruction of the file's code switches to another stack. False also if that is not
 * known: bytes that do not decode, or more than @max_bytes of code.
 */
bool plan_stays_on_stack(const struct plan_image *img, size_t max_bytes);

/* Called functions: addresses of their GOT words, and their own addresses. */
struct plan_calls {
	const uint64_t *words, *funcs;
	size_t word_cnt, func_cnt;
};

/*
 * Finds a signal handler of the file that may abandon the call that it interrupts: a function that
 * is passed to one of @install and calls one of @leave. Returns its address, or 0 if none is
 * found. x86-64 only.
 */
uint64_t plan_handler_leaves(const struct plan_image *img, const struct plan_calls *install,
	const struct plan_calls *leave);

struct planner;

/*
 * Creates a planner for one image. Returns 0, or -ENOTSUP if the disassembler lacks the
 * architecture. The caller frees *ret_planner with planner_free().
 */
int planner_new(const struct plan_image *img, const struct plan_rules *rules,
	struct planner **ret_planner, struct err *err);
void planner_free(struct planner *p);

/*
 * Plans one function. Returns 0 even if the function cannot be probed: then .refused is the reason,
 * and the plan has no ranges and no ends. At an address that is not the start of a symbol or an
 * FDE, the plan is a probe on that instruction, which is only counted.
 *
 * The caller frees *ret_plan with plan_done(). A planner is not thread-safe.
 */
int planner_plan(struct planner *p, const struct plan_request *req, struct plan *ret_plan,
	struct err *err);
void plan_done(struct plan *plan);

/*
 * Changes @plan, the plan of @req, to PLAN_EXIT_RETURN if its returns are probed at ret and a
 * return probe is proven safe under the rules. Otherwise .exit_why is the reason.
 */
int planner_prove(struct planner *p, const struct plan_request *req, struct plan *plan);

/* --- jumps out of functions ----------------------------------------------------------------- */

/*
 * Targets of the tail calls of one file: another of its functions, or code that must be probed to
 * track them. No side effects, as the planner.
 */

#define FOLLOW_LEVELS   4  /* tail calls in a row from a function of the group to a place */
#define FOLLOW_RETS_MAX 32 /* limit of probed ret in one place */
#define FOLLOW_RETS_MIN 32 /* limit in all places of a file, regardless of FOLLOW_SHARE */
#define FOLLOW_CALLS_MAX 32 /* limit of probed calls of such a function */
#define FOLLOW_SHARE    10 /* a higher limit: one for this number of the functions' own ret */

/*
 * Code reached by tracked tail calls that is not a function of the group. With .behind, it is the
 * instructions after direct calls of the function at .addr in its file: .plan has only ends.
 */
struct follow_place {
	uint64_t addr;
	struct plan plan; /* .exit is PLAN_EXIT_RET or _EARLY */
	bool entry;       /* its entry is also probed, at plan.site */
	bool behind;
};

/* A function of the file that is probed. */
struct follow_func {
	const struct plan *plan;
	uint32_t no;
	bool led; /* target of a tracked tail call */
};

struct follow {
	struct follow_func *funcs; /* by plan->addr */
	size_t func_cnt;
	struct follow_place *places; /* unsorted */
	size_t place_cnt;
	uint32_t first; /* number of the first place, after those of all functions */
};

/* Fills @req for the function at the address that @req has. */
typedef void (*follow_request_fn)(void *arg, struct plan_request *req);

/*
 * Finds places for the tail calls of f->funcs, functions of the file of @p. A tail call is not
 * tracked if its target cannot be tracked itself, has more than FOLLOW_RETS_MAX ret, or needs too
 * many probes.
 *
 * The return of a function with a jump to another file is probed after its direct calls. The BPF
 * programs compare the return address of a call with these instructions: calls through pointers
 * are not tracked.
 *
 * The caller frees the places with follow_done(), which does not free .funcs.
 */
int follow_find(struct follow *f, struct planner *p, follow_request_fn request, void *arg,
	struct err *err);
void follow_done(struct follow *f);

/* Sets .led of all functions, and .first to @first. */
void follow_number(struct follow *f, uint32_t first);

/* The target of a tail call. */
struct follow_to {
	uint32_t no;
	bool entry; /* its entry is probed */
	const struct plan *behind; /* its ends, one of which is where the function returns to; or NULL */
};

/* True if the tail call @end of @plan is tracked. */
bool follow_end(const struct follow *f, const struct plan *plan, const struct plan_end *end,
	struct follow_to *ret_to);

/* True if a tracked tail call leads to the function of @plan. */
bool follow_leads_to(const struct follow *f, const struct plan *plan);

/* True if the function of @plan is a single, tracked tail call: its calls are timed. */
bool follow_forwards(const struct follow *f, const struct plan *plan);

/* Adds to plan->exit_why whether its tail calls are tracked. */
void follow_explain(const struct follow *f, struct plan *plan);

/* Returns the number of its untracked tail calls. */
size_t follow_lost(const struct follow *f, const struct plan *plan);
