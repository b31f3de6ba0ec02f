/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The planner's own parts. A plan is made in this order: where the function begins and ends
 * (bounds.c), and whether it is one (entry.c); its instructions and what each of them finds on
 * the stack (flow.c), with what jump tables and the unwinder lead to (land.c); parts of it that
 * lie elsewhere (cold.c), which are decoded in turn and found by what scan.c makes of the file;
 * where calls end (exit.c); where the entry probe goes (site.c). Go functions are known by their
 * first instructions (go.c).
 */
#ifndef FUNCSNOOP_CODE_INTERNAL_H
#define FUNCSNOOP_CODE_INTERNAL_H

#include "base/util.h"
#include "code/insn.h"
#include "code/plan.h"

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
	struct code_range ranges[PLAN_MAX_RANGES];
	uint32_t range_cnt, insn_cnt, byte_cnt;
	/* why control may arrive where nothing is known to lead, and by what; or NULL */
	const char *open;
	uint64_t open_at;
	uint64_t work; /* spent on finding where it arrives */
	/* parts that lie elsewhere, found so */
	const struct plan_fde *far[PLAN_MAX_RANGES];
	uint32_t far_cnt;
	/* of a Go function that begins again once its stack has grown; else 0 */
	uint64_t go_behind; /* the first instruction that runs once a call */
	uint64_t go_jump;   /* the jump back to the entry */
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

/* entry.c */

/* Nothing calls it, and what is there can't begin a function. The first range must be there. */
bool func_is_data(struct func *f);

/* flow.c */

/* Decodes [@start, @end) as one more range of @f. -ENOMEM, -E2BIG. */
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

/* land.c */

/* Finds out afresh where control lands but by jump tables, and marks it in .lands. */
void func_forget_landings(struct func *f);
/* Reads the jump tables of what was reached so far; whether they lead to more. */
bool func_find_landings(struct func *f);

/* cold.c */

void cold_free(struct cold_index *cold);
/*
 * Finds the parts of @f that lie elsewhere, adds them as ranges and follows control through
 * them, too. The states must be filled. -ENOMEM.
 */
int func_add_cold(struct func *f);
/* The lowest address in (@from, @to) to which nameless code jumps, or @to. -ENOMEM. */
int cold_first_jump(struct func *f, uint64_t from, uint64_t to, uint64_t *ret_addr);

/* go.c */

/* Sets go_behind and go_jump. The first range must be there. */
void func_find_go(struct func *f);

/* names.c */

/* Why calls of a function of this name are never followed, or NULL. */
const char *name_not_followed(const char *name);

/* exit.c */

/* Whether its ends are to be found: nothing else settles how they are seen. */
bool func_wants_ends(const struct func *f);
/* Decides plan->exit and fills the ends. -ENOMEM. */
int func_exit(struct func *f, struct plan *plan);
/*
 * An instruction that jumps to the entry, without having taken a frame down; or NULL. Go's
 * own jump back, when its stack has grown, is none.
 */
const struct insn *func_loop_to_entry(const struct func *f);

/* site.c */

/* Decides plan->site, or plan->refused. -ENOMEM. */
int func_site(struct func *f, struct plan *plan);

#endif
