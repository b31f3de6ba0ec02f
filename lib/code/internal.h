/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The planner's own parts. A plan is made in this order: where the function begins and ends,
 * and whether it is one (bounds.c); its instructions and what each of them finds on the stack
 * (flow.c), with what jump tables and the unwinder lead to (site.c); parts of it that lie
 * elsewhere (bounds.c), which are decoded in turn and found in the bytes of the file;
 * where calls end (exit.c), and go on when they leave by a jump (plan.c); where the entry probe
 * goes (site.c); whether calls are seen to end where that is cheaper (exit.c), or a return probe
 * is safe (proof.c). Go functions are known by their first instructions, others by name (flow.c).
 */
#ifndef FUNCSNOOP_CODE_INTERNAL_H
#define FUNCSNOOP_CODE_INTERNAL_H

#include "base/util.h"
#include "code/insn.h"
#include "code/plan.h"
#include "shared/words.h"

/* More code than this in one function: it is counted only. */
#define PLAN_MAX_BYTES (512 * 1024)

/*
 * What an instruction finds when control reaches it. States of an edge that is more certain
 * (a smaller level) replace others; equal ones are merged, and what differs becomes unknown.
 */
enum flow_level {
	FLOW_SURE, /* reached by falling through or a direct jump */
	FLOW_CALL, /* behind a call, which may not return */
	FLOW_LAND, /* by a jump table or the unwinder, as the file has it */
};

struct flow_state {
	int32_t depth; /* bytes pushed since the entry */
	int32_t fp;    /* depth at which the frame pointer points */
	uint8_t level; /* enum flow_level */
	bool seen : 1;
	bool depth_known : 1;
	bool fp_known : 1;
	bool moved : 1; /* the stack pointer was moved on every way here */
	bool queued : 1;
	bool behind_call : 1; /* no other way leads here, or only through padding */
};

struct code_range {
	uint64_t start, end;
	const uint8_t *bytes;
	uint32_t first, cnt; /* its instructions, in planner.insns */
	bool bad;            /* something is none, the first of it at .bad_addr */
	uint64_t bad_addr;
};

struct planner {
	struct plan_image img;
	struct plan_rules rules;
	struct insn_decoder *dec;
	struct cold_index *cold; /* made when first needed */
	uint64_t caller_bytes;   /* looked through by func_is_data() */
	struct proof *proofs;    /* one for each FDE (proof.c); made when first needed */
	bool file_known;         /* the next two are */
	bool reads_frames;       /* a function of the file reads frames of its callers */
	bool reads_returns;      /* one reads its own return address */
	/* of the function being planned */
	struct insn *insns;
	struct flow_state *states;
	uint32_t *queue[2];
	uint32_t cap;
};

struct func {
	struct planner *p;
	const struct plan_request *req;
	uint64_t entry;
	bool at_start; /* a symbol or an FDE begins here */
	bool bounded;  /* its end is known, not just the next function's start */
	bool too_big;
	struct code_range ranges[FSN_JUMP_RANGES];
	uint32_t range_cnt, insn_cnt, byte_cnt;
	/* why control may arrive where nothing is known to lead, and by what; or NULL */
	const char *open;
	uint64_t open_at;
	uint64_t work; /* spent on finding where it arrives */
	/* parts that lie elsewhere, found so */
	const struct plan_fde *far[FSN_JUMP_RANGES];
	uint32_t far_cnt;
	/* of a Go function that begins again once its stack has grown; else 0 */
	uint64_t go_behind; /* the first instruction that runs once a call */
	uint64_t go_jump;   /* the jump back to the entry */
	const char *ret_why; /* why there is no return probe, once that is decided */
};

/* bounds.c */

/* The code at @addr, and in @ret_len how much of it follows; NULL when there is none. */
const uint8_t *image_code(const struct plan_image *img, uint64_t addr, size_t *ret_len);
/* Whether a code symbol begins in [@from, @to). */
bool image_has_start(const struct plan_image *img, uint64_t from, uint64_t to);
/* The last FDE that begins at or before @addr and holds it, or NULL. */
const struct plan_fde *image_fde(const struct plan_image *img, uint64_t addr);
/* The first address behind @addr at which a code symbol or an FDE begins, or UINT64_MAX. */
uint64_t image_next_start(const struct plan_image *img, uint64_t addr);
bool image_is_start(const struct plan_image *img, uint64_t addr);
/* Sets entry, at_start, bounded and the first range; else why not in plan->refused. */
int func_bounds(struct func *f, struct plan *plan);
/* Nothing calls it, and what is there can't begin a function. The first range must be there. */
bool func_is_data(struct func *f);

/* flow.c */

/* Decodes [@start, @end) as one more range of @f. -E2BIG. */
int func_add_range(struct func *f, uint64_t start, uint64_t end);
/* Takes the last range away again. */
void func_drop_range(struct func *f);
/* The range that holds @addr, or NULL. */
const struct code_range *func_range(const struct func *f, uint64_t addr);
/* The instruction at @addr, or NULL. */
struct insn *func_insn(const struct func *f, uint64_t addr);
/* The instruction that holds @addr, or NULL. */
struct insn *func_insn_over(const struct func *f, uint64_t addr);
const uint8_t *func_bytes(const struct func *f, const struct insn *insn);
struct flow_state *func_state(const struct func *f, const struct insn *insn);
/* Follows control through all ranges and fills the states of what it reaches. */
void flow_run(struct func *f);
/* The instruction leaves by a direct jump: its target is in no range. */
bool insn_leaves(const struct func *f, const struct insn *insn);

/* site.c: landings */

/* Finds out afresh where control lands but by jump tables, and marks it in .lands. */
void func_forget_landings(struct func *f);
/* Reads the jump tables of what was reached so far; whether they lead to more. */
bool func_find_landings(struct func *f);

/* bounds.c: who enters code without a name, and where that jumps to, from the bytes of a file */

#define FDE_NAMELESS 1 /* no symbol begins in it */
#define FDE_CALLED   2 /* a call of its start, or its start's address taken */
#define FDE_SHARED   4 /* jumps to its start from more than one FDE, or from none */

#define NO_FDE UINT32_MAX

enum jump_kind {
	JUMP_LIKELY, /* seen in bytes only */
	JUMP_REAL,
	JUMP_FALSE,
};

struct jump {
	uint64_t target, from;
	enum jump_kind kind;
};

struct cold_index {
	uint8_t *flags;   /* FDE_*, one byte an FDE */
	uint32_t *jumper; /* the FDE that jumps to this one's start */
	bool all_scanned; /* .jumper and FDE_CALLED are complete */
	/* from nameless code into the middle of other code, by target */
	struct jump *jumps;
	size_t jump_cnt;
	size_t confirm_bytes; /* decoded so far to tell jumps from their likes */
};

/* The number of the FDE that holds @addr, or NO_FDE. */
static inline uint32_t fde_index(const struct plan_image *img, uint64_t addr)
{
	const struct plan_fde *r = image_fde(img, addr);

	return r ? r - img->fdes : NO_FDE;
}

/* Goes over the bytes of @img. End with cold_free(). */
void cold_free(struct cold_index *cold);

/* bounds.c: what it decides from that */

/*
 * Finds the parts of @f that lie elsewhere, adds them as ranges and follows control through
 * them, too. The states must be filled.
 */
void func_add_cold(struct func *f);
/* The lowest address in (@from, @to) to which nameless code jumps, or @to. */
uint64_t cold_first_jump(struct func *f, uint64_t from, uint64_t to);

/* flow.c: Go, and names */

/* Sets go_behind and go_jump. The first range must be there. */
void func_find_go(struct func *f);

/* plan.c */

/* Plans f->req. End with plan_done(). */
int func_plan(struct func *f, struct plan *plan);

/*
 * Whether the C library's function of this name does nothing but calculate, or ends the program:
 * it never unwinds, switches stacks, calls back or looks at who has called it.
 */
bool name_only_calculates(const char *name);

/* Why calls of a function of this name are never followed, or NULL. */
const char *name_not_followed(const char *name);

/* exit.c */

/* The word through which a call or a jump leads, by a stub or itself; or NULL. */
const struct plan_slot *func_slot(const struct func *f, const struct insn *insn);
/*
 * It looks at its own return address, as what returns twice does: a return probe would have
 * its trampoline kept, and jumped to when nothing waits for it.
 */
bool func_takes_return(const struct func *f);

/* Whether its ends are to be found: nothing else settles how they are seen. */
bool func_wants_ends(const struct func *f);
/* Decides plan->exit and fills the ends. */
void func_exit(struct func *f, struct plan *plan);
/* Says in plan->exit_why what ends are probed. */
void func_say_ends(const struct func *f, struct plan *plan);
/*
 * An instruction that jumps to the entry, without having taken a frame down; or NULL. Go's
 * own jump back, when its stack has grown, is none.
 */
const struct insn *func_loop_to_entry(const struct func *f);

/* site.c */

/* Decides plan->site, or plan->refused. */
void func_site(struct func *f, struct plan *plan);

/* proof.c */

/* Frees what is known of the functions of @p. */
void proofs_free(struct planner *p);

/* exit.c: cheaper ends */

/* Puts cheaper ends in the place of all probed rets, if all have some. */
void func_early(struct func *f, struct plan *plan);

/* what insn.c asks of the two architectures: insn_x86.c, insn_probe.c, insn_arm64.c */

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
	size_t len;     /* of the whole instruction, or of what is there */
	uint8_t prefix; /* X86_P_* */
	uint8_t rex;    /* or 0 */
	uint8_t map; /* enum x86_map; VEC: VEX, EVEX, XOP or REX2, .op is its first byte */
	uint8_t op;  /* opcode, last byte */
	uint8_t op_at; /* its offset */
	uint8_t modrm; /* the byte behind the opcode, 0 when none */
};

/* Splits; false when the bytes end before the opcode. */
bool x86_split(const uint8_t *bytes, size_t len, struct x86 *ret_x);
static inline uint8_t x86_mod(const struct x86 *x)
{
	return x->modrm >> 6;
}
static inline uint8_t x86_digit(const struct x86 *x)
{
	return x->modrm >> 3 & 7;
}
/* Registers by number, the REX bits in. */
static inline uint8_t x86_reg_no(const struct x86 *x)
{
	return x86_digit(x) | (x->rex & 4 ? 8 : 0);
}
static inline uint8_t x86_rm_no(const struct x86 *x)
{
	return (x->modrm & 7) | (x->rex & 1 ? 8 : 0);
}

/* The length of an instruction that Capstone does not know, or 0. */
size_t x86_length(const uint8_t *bytes, size_t len);
bool x86_is_nop(const struct x86 *x); /* 90, 66 90, 0f 1f /0 with any prefix but f3 90 */
bool x86_classify(const struct x86 *x, uint64_t addr, struct insn *insn);
bool x86_probe_ok(const uint8_t *bytes, size_t len, const struct plan_rules *rules,
	char *why, size_t size);
bool x86_emulated(const struct x86 *x, const struct plan_rules *rules);
bool x86_step_over(const struct x86 *x, bool write_args, int32_t frame);
bool x86_effect(const struct x86 *x, struct insn_effect *ret_effect);
bool x86_is_dispatch(const struct insn *insn, size_t prev, const uint8_t *bytes);

/* The displacement of a ModRM whose base is @base alone; false when it is another form. */
bool x86_base_disp(const struct x86 *x, uint8_t base, int32_t *ret_disp);
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

#endif
