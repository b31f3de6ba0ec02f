/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internals of the planner. A plan is made in this order:
 * - where the function starts and ends, and whether it is code (bounds.c);
 * - its instructions and the stack depth at each of them (flow.c), including targets of jump tables
 *   and the unwinder (site.c);
 * - its cold parts, found in the bytes of the file and decoded in turn (bounds.c);
 * - where calls return (exit.c), and where tail calls continue (plan.c);
 * - where the entry probe goes (site.c);
 * - whether returns can be traced more cheaply (exit.c), or a return probe is safe (proof.c).
 * Go functions are recognized by their first instructions, others by name (flow.c).
 */
#pragma once

#include "base/util.h"
#include "code/insn.h"
#include "code/plan.h"
#include "shared/words.h"

/* A function with more code than this is only counted. */
#define PLAN_MAX_BYTES (512 * 1024)

/*
 * The state when control reaches an instruction. A more certain edge (a lower level) replaces the
 * state; edges of the same level are merged, and differing values become unknown.
 */
enum flow_level {
	FLOW_SURE, /* reached by falling through or a direct jump */
	FLOW_CALL, /* after a call, which may not return */
	FLOW_LAND, /* by a jump table or the unwinder, according to the file */
};

struct flow_state {
	int32_t depth; /* bytes pushed since the entry */
	int32_t fp;    /* depth that the frame pointer points to */
	uint8_t level; /* enum flow_level */
	bool seen : 1;
	bool depth_known : 1;
	bool fp_known : 1;
	bool moved : 1; /* the stack pointer was changed on every path to here */
	bool queued : 1;
	bool behind_call : 1; /* all other paths to here are padding */
};

struct code_range {
	uint64_t start, end;
	const uint8_t *bytes;
	uint32_t first, cnt; /* its instructions, in planner.insns */
	uint32_t from;       /* its bytes, in planner.over */
	bool bad;            /* some bytes do not decode, the first at .bad_addr */
	uint64_t bad_addr;
};

struct planner {
	struct plan_image img;
	struct plan_rules rules;
	struct insn_decoder *dec;
	struct cold_index *cold; /* made when first needed */
	uint64_t caller_bytes;   /* searched by func_is_data() */
	struct proof *proofs;    /* one for each FDE (proof.c); created on first use */
	bool file_known;         /* the next two members are valid */
	bool reads_frames;       /* a function of the file reads its callers' frames */
	bool reads_returns;      /* a function of the file reads its own return address */
	/* state of the function being planned */
	struct insn *insns;
	struct flow_state *states;
	uint32_t *queue[2];
	uint32_t cap;
	uint32_t *over; /* for each byte: its instruction's number */
	size_t over_cap;
};

struct func {
	struct planner *p;
	const struct plan_request *req;
	uint64_t entry;
	bool at_start; /* a symbol or an FDE starts here */
	bool bounded;  /* its size is known, not only the start of the next function */
	bool too_big;
	struct code_range ranges[FSN_JUMP_RANGES];
	uint32_t range_cnt, insn_cnt, byte_cnt;
	/*
	 * why control may reach code without a known path to it, and the instruction to blame; or
	 * NULL
	 */
	const char *open;
	uint64_t open_at;
	uint64_t work; /* spent on the search for landings */
	/* cold parts found by that search */
	const struct plan_fde *far[FSN_JUMP_RANGES];
	uint32_t far_cnt;
	/* of a Go function that restarts after its stack has grown; otherwise 0 */
	uint64_t go_behind; /* the first instruction that runs exactly once per call */
	uint64_t go_jump;   /* the jump back to the entry */
	const char *ret_why; /* why it has no return probe, once decided */
};

/* bounds.c */

/*
 * Returns the code at @addr, or NULL if there is none. *@ret_len is the number of bytes that
 * follow.
 */
const uint8_t *image_code(const struct plan_image *img, uint64_t addr, size_t *ret_len);
/* True if a code symbol starts in [@from, @to). */
bool image_has_start(const struct plan_image *img, uint64_t from, uint64_t to);
/* Returns the first address after @addr at which a code symbol or an FDE starts, or UINT64_MAX. */
uint64_t image_next_start(const struct plan_image *img, uint64_t addr);
bool image_is_start(const struct plan_image *img, uint64_t addr);
/* Sets .entry, .at_start, .bounded and the first range; otherwise plan->refused is the reason. */
int func_bounds(struct func *f, struct plan *plan);
/* True if nothing calls it and its bytes cannot start a function. Requires the first range. */
bool func_is_data(struct func *f);

/* flow.c */

/* Decodes [@start, @end) as another range of @f. Returns 0 or -E2BIG. */
int func_add_range(struct func *f, uint64_t start, uint64_t end);
/* Removes the last range. */
void func_drop_range(struct func *f);
/* Returns the range that contains @addr, or NULL. */
const struct code_range *func_range(const struct func *f, uint64_t addr);
/* Returns the instruction that starts at @addr, or NULL. */
struct insn *func_insn(const struct func *f, uint64_t addr);
/* Returns the instruction that contains @addr, or NULL. */
struct insn *func_insn_over(const struct func *f, uint64_t addr);
const uint8_t *func_bytes(const struct func *f, const struct insn *insn);
struct flow_state *func_state(const struct func *f, const struct insn *insn);
/* Follows control flow through all ranges and fills the states of reached instructions. */
void flow_run(struct func *f);
/* True for a direct jump to a target outside all ranges. */
bool insn_leaves(const struct func *f, const struct insn *insn);

/* site.c: landings */

/* Resets .lands and marks all landings except the targets of jump tables. */
void func_forget_landings(struct func *f);
/* Reads the jump tables of all reached jumps. Returns true if they lead to more instructions. */
bool func_find_landings(struct func *f);

/* bounds.c: callers of code without a symbol, and its jumps, from the bytes of a file */

#define FDE_NAMELESS 1 /* no symbol starts in it */
#define FDE_CALLED   2 /* its start is called, or its address is taken */
#define FDE_SHARED   4 /* its start is the target of jumps from several FDEs, or from code
			  without an FDE */

#define NO_FDE UINT32_MAX

enum jump_kind {
	JUMP_LIKELY, /* matched in undecoded bytes only */
	JUMP_REAL,
	JUMP_FALSE,
};

struct jump {
	uint64_t target, from;
	enum jump_kind kind;
};

struct cold_index {
	uint8_t *flags;   /* FDE_*, one byte per FDE */
	uint32_t *jumper; /* the FDE that jumps to this one's start */
	bool all_scanned; /* .jumper and FDE_CALLED are complete */
	/* jumps from nameless code into the middle of other code, sorted by target */
	struct jump *jumps;
	size_t jump_cnt;
	size_t confirm_bytes; /* decoded so far to verify jumps */
};

/* Returns the index of the FDE that contains @addr, or NO_FDE. */
static inline uint32_t fde_index(const struct plan_image *img, uint64_t addr)
{
	const struct plan_fde *r = image_fde(img, addr);

	return r ? r - img->fdes : NO_FDE;
}

/* Frees @cold. */
void cold_free(struct cold_index *cold);

/* bounds.c: direct calls in the bytes of a file */

struct addrs {
	uint64_t *addr;
	size_t cnt;
};

void addrs_sort(struct addrs *a);
/* True if @addr is one of the sorted @a. */
bool addrs_have(const struct addrs *a, uint64_t addr);

typedef void (*direct_call_fn)(void *arg, uint64_t at, uint64_t target);

/*
 * Calls @found for the bytes of each direct call of an address in the sorted @targets, with @jumps
 * also of each jump of x86-64. They need not be an instruction.
 */
void image_find_calls(const struct plan_image *img, bool jumps, const struct addrs *targets,
	direct_call_fn found, void *arg);

/* bounds.c: decisions based on the index */

/*
 * Adds the cold parts of @f as ranges and follows control flow through them. Requires filled
 * states.
 */
void func_add_cold(struct func *f);
/* Returns the lowest address in (@from, @to) that nameless code jumps to, or @to. */
uint64_t cold_first_jump(struct func *f, uint64_t from, uint64_t to);

/* flow.c: Go, and names */

/* Sets .go_behind and .go_jump. Requires the first range. */
void func_find_go(struct func *f);

/* plan.c */

/* Plans f->req. The caller frees the plan with plan_done(). */
int func_plan(struct func *f, struct plan *plan);

/*
 * True if the C library's function @name only computes or ends the program: it never unwinds,
 * switches stacks, calls back or reads its return address.
 */
bool name_only_calculates(const char *name);

/* Returns the reason why calls of a function of this name are never tracked, or NULL. */
const char *name_not_followed(const char *name);

/* exit.c */

/* Returns the GOT word that a call or a jump leads through, directly or by a PLT stub; or NULL. */
const struct plan_slot *func_slot(const struct func *f, const struct insn *insn);
/*
 * True if it accesses its own return address. A function that returns twice does so: it would save
 * the address of a return probe's trampoline, and later jump to it without a pending return
 * instance.
 */
bool func_takes_return(const struct func *f);

/* True if its ends must be searched for, because no other rule decides how returns are traced. */
bool func_wants_ends(const struct func *f);
/* Decides plan->exit and fills the ends. */
void func_exit(struct func *f, struct plan *plan);
/* Sets plan->exit_why to the kinds of probed ends. */
void func_say_ends(const struct func *f, struct plan *plan);
/*
 * Returns an instruction that jumps to the entry while the frame is in place, or NULL. Ignores Go's
 * own jump back after the stack has grown.
 */
const struct insn *func_loop_to_entry(const struct func *f);

/* site.c */

/* Decides plan->site, or plan->refused. */
void func_site(struct func *f, struct plan *plan);

/* proof.c */

/* Frees the proofs of @p. */
void proofs_free(struct planner *p);

/* exit.c: cheaper ends */

/* Replaces all probed rets by cheaper ends, if each ret has some. */
void func_early(struct func *f, struct plan *plan);

/* architecture-specific parts of insn.c: insn_x86.c, insn_arm64.c */

#define X86_P_66    0x01 /* prefixes */
#define X86_P_67    0x02
#define X86_P_F2    0x04
#define X86_P_F3    0x08
#define X86_P_LOCK  0x10
#define X86_P_DS    0x20 /* 3e, notrack on an indirect jump */
#define X86_P_CS    0x40 /* 2e 26 36 */
#define X86_P_FS_GS 0x80

enum x86_map { X86_MAP_1, X86_MAP_0F, X86_MAP_0F38, X86_MAP_0F3A, X86_MAP_VEC };

/* The parts of an x86-64 instruction. */
struct x86 {
	const uint8_t *bytes;
	size_t len;     /* of the complete instruction, or of its available bytes */
	uint8_t prefix; /* X86_P_* */
	uint8_t rex;    /* or 0 */
	uint8_t map; /* enum x86_map; VEC: VEX, EVEX, XOP or REX2, .op is its first byte */
	uint8_t op;  /* opcode, last byte */
	uint8_t op_at; /* its offset */
	uint8_t modrm; /* the byte after the opcode, 0 if none */
};

/* Splits an instruction. Returns false if the bytes end before the opcode. */
bool x86_split(const uint8_t *bytes, size_t len, struct x86 *ret_x);
static inline uint8_t x86_mod(const struct x86 *x)
{
	return x->modrm >> 6;
}
static inline uint8_t x86_digit(const struct x86 *x)
{
	return x->modrm >> 3 & 7;
}
/* Register numbers, including the REX bits. */
static inline uint8_t x86_reg_no(const struct x86 *x)
{
	return x86_digit(x) | (x->rex & 4 ? 8 : 0);
}
static inline uint8_t x86_rm_no(const struct x86 *x)
{
	return (x->modrm & 7) | (x->rex & 1 ? 8 : 0);
}

/* Returns the length of an instruction that Capstone does not know, or 0. */
size_t x86_length(const uint8_t *bytes, size_t len);
bool x86_is_nop(const struct x86 *x); /* 90, 66 90, 0f 1f /0 with any prefix but f3 90 */
bool x86_classify(const struct x86 *x, uint64_t addr, struct insn *insn);
bool x86_probe_ok(const uint8_t *bytes, size_t len, const struct plan_rules *rules,
	char *why, size_t size);
bool x86_emulated(const struct x86 *x, const struct plan_rules *rules);
bool x86_step_over(const struct x86 *x, bool write_args, int32_t frame);
bool x86_effect(const struct x86 *x, struct insn_effect *ret_effect);
bool x86_is_dispatch(const struct insn *insn, size_t prev, const uint8_t *bytes);
void x86_find_data(const struct x86 *x, struct insn *insn);
void x86_find_stack(const struct x86 *x, struct insn *insn);
bool a64_switches_stack(const struct insn *insn, uint32_t word);

bool a64_table(
	const struct insn *insn, size_t prev, const uint8_t *bytes, struct insn_table *t);
bool a64_index_bound(const struct insn *insn, const uint8_t *bytes,
	const struct insn *jcc, uint64_t *ret_cnt);
bool a64_classify(uint32_t word, uint64_t addr, struct insn *insn);
bool a64_probe_ok(uint32_t word, char *why, size_t size);
bool a64_emulated(uint32_t word);
bool a64_is_dispatch(const struct insn *insn, size_t prev, const uint8_t *bytes);
bool a64_is_plt(const uint8_t *bytes, size_t len);
uint64_t a64_plt_word(const uint8_t *bytes, uint64_t addr);

static inline uint32_t a64_word(const uint8_t *bytes)
{
	return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}
