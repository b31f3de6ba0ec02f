// SPDX-License-Identifier: BSD-2-Clause
// Finds functions that can have return probes although they are not declared nothrow.
//
// A return probe replaces the return address of a call. That harms code that unwinds through the
// call, that leaves the stack before the address is used, or that reads the address: its own, or a
// caller's, through a frame pointer.
//
// The instructions of a function and its callees prove that they do none of this. They have no
// indirect calls, and no callees outside the file except C library functions that only compute.
// They do not copy the frame pointer or an address at or above the return address.
//
// In an executable that needs only the C library, and whose file cannot unwind or switch stacks,
// unknown callees are allowed, unless a function of the file reads frames.
//
// The kernel tracks 64 nested calls with return probes, so recursive functions have none. Signal
// handlers are not visible in the code: fsn_session() and target/user.c handle these.
#include "internal.h"
#include "base/util.h"

/* A function with more functions in its call graph is not proven safe. */
#define MAX_CALLEES 4096

enum doubt {
	DOUBT_NONE,
	DOUBT_FRAME, /* reads return addresses of callers, or may */
	DOUBT_POINTER,
	DOUBT_REPLACED,
	DOUBT_IMPORT,
	DOUBT_STACK,
	DOUBT_KERNEL,
	DOUBT_CODE,
};

static const char *const doubt_texts[] = {
	[DOUBT_FRAME] = "reads or copies stack addresses of its callers",
	[DOUBT_POINTER] = "calls a function pointer",
	[DOUBT_REPLACED] = "calls a function that another file may replace",
	[DOUBT_STACK] = "switches stacks",
	[DOUBT_KERNEL] = "has a system call instruction",
	[DOUBT_CODE] = "has code that cannot be followed",
};

struct callee {
	uint32_t fde;
	bool tail; /* it returns to where its caller returns */
};

/* The facts about the function of an FDE. */
struct proof {
	bool known;
	bool own_return;    /* reads its own return address */
	bool unknown_tail;  /* ends by a tail call of an unknown function */
	uint8_t doubt;      /* enum doubt: the gravest */
	const char *import; /* of DOUBT_IMPORT */
	struct callee *callees; /* the direct ones, each once; to be freed */
	uint32_t callee_cnt;
};

void proofs_free(struct planner *p)
{
	for (size_t i = 0; p->proofs && i < p->img.fde_cnt; i++)
		free(p->proofs[i].callees);
	free(p->proofs);
}

/* --- one function ------------------------------------------------------------------------- */

static void doubt(struct proof *proof, enum doubt doubt, const char *import)
{
	if (proof->doubt && proof->doubt <= doubt)
		return;
	proof->doubt = doubt;
	proof->import = import;
}

static void add_callee(struct proof *proof, uint32_t fde, bool tail)
{
	for (uint32_t i = 0; i < proof->callee_cnt; i++)
		if (proof->callees[i].fde == fde) {
			proof->callees[i].tail |= tail;
			return;
		}
	*array_add(proof->callees, proof->callee_cnt) = (struct callee) { fde, tail };
}

/* Adds the callee of a call or of a tail call. */
static void look_at_callee(const struct func *f, const struct insn *insn, struct proof *proof)
{
	const struct plan_slot *slot = func_slot(f, insn);
	uint64_t target = slot ? slot->target : insn->has_target ? insn->target : 0;
	bool tail = insn->flow != INSN_CALL;
	uint32_t fde;

	if (slot && slot->import) {
		if (!name_only_calculates(slot->import))
			doubt(proof, DOUBT_IMPORT, slot->import);
		return;
	}
	if (!target || (slot && !slot->sure)) {
		doubt(proof, target ? DOUBT_REPLACED : DOUBT_POINTER, NULL);
		proof->unknown_tail |= tail;
		return;
	}
	if (target != f->entry && func_range(f, target)) {
		doubt(proof, DOUBT_CODE, NULL);
		return;
	}
	fde = fde_index(&f->p->img, target);
	if (fde == NO_FDE || f->p->img.fdes[fde].start != target) {
		doubt(proof, DOUBT_CODE, NULL);
		proof->unknown_tail |= tail;
		return;
	}
	add_callee(proof, fde, tail);
}

/*
 * True if the instruction copies the frame pointer, or an address at or above the return address,
 * or reads the caller's frame pointer from the stack. Addresses are offsets from the return
 * address; depth and fp are the distances of the stack pointer and the frame pointer below it.
 */
static bool reads_frame(const struct insn *insn, const struct flow_state *s, bool fp_set)
{
	int64_t at = insn->stack_at;
	bool linked = s->fp_known && s->fp == 8; /* the caller's frame pointer is there */

	if (insn->stack == INSN_STACK_FP && !s->fp_known)
		/* the caller's frame pointer, unless the function has put something else there */
		return !fp_set && insn->flow == INSN_PLAIN && insn->sp != INSN_SP_ADD;
	if (insn->stack == INSN_STACK_FP)
		at -= s->fp;
	else if (insn->stack == INSN_STACK_SP && s->depth_known)
		at -= s->depth;
	else
		return insn->stack == INSN_STACK_SP && !insn->stack_len && !s->fp_known;
	if (!insn->stack_len)
		return at >= (insn->stack == INSN_STACK_FP && linked ? -8 : 0);
	return linked && !insn->sets_fp && at < 0 && at + insn->stack_len > -8;
}

/* Adds the callee of @insn to @proof, and why a return probe may be unsafe there. */
static void look_at_insn(
	const struct func *f, const struct insn *insn, bool fp_set, struct proof *proof)
{
	const struct flow_state *s = func_state(f, insn);
	const struct code_range *r = func_range(f, insn->addr);
	const uint8_t *bytes = func_bytes(f, insn);

	if (insn_switches_stack(f->p->img.arch, insn, bytes, r->end - insn->addr))
		doubt(proof, DOUBT_STACK, NULL);
	if (insn_is_system(bytes, insn->len))
		doubt(proof, DOUBT_KERNEL, NULL);
	if (reads_frame(insn, s, fp_set))
		doubt(proof, DOUBT_FRAME, NULL);
	switch (insn->flow) {
	case INSN_PLAIN:
	case INSN_TABLE: /* which was read */
	case INSN_STOP:
		return;
	case INSN_RET:
		if (!s->depth_known || s->depth)
			doubt(proof, DOUBT_CODE, NULL);
		return;
	case INSN_JMP:
	case INSN_JCC:
		if (insn->target == f->entry || insn_leaves(f, insn))
			look_at_callee(f, insn, proof);
		return;
	case INSN_CALL:
	case INSN_JMP_MEM:
		look_at_callee(f, insn, proof);
		return;
	}
	doubt(proof, DOUBT_POINTER, NULL);
	proof->unknown_tail = true;
}

/* True if the function writes the frame pointer other than by "mov %rsp,%rbp". */
static bool sets_fp(const struct func *f)
{
	return ANY_WHERE(f->insn_cnt, i, f->p->insns[i].sets_fp &&
		f->p->insns[i].sp != INSN_SP_TO_FP);
}

/* Examines the instructions of the function of an FDE, without those of callees. */
static int look(struct planner *p, uint32_t fde, const struct proof **ret_proof)
{
	const struct plan_request req = { .addr = p->img.fdes[fde].start };
	struct func f = { .p = p, .req = &req };
	struct proof *proof = &p->proofs[fde];
	struct plan plan = { 0 };
	bool fp_set;
	int ret;

	*ret_proof = proof;
	if (proof->known)
		return 0;
	ret = func_plan(&f, &plan);
	if (ret)
		return ret;
	proof->known = true;
	if (plan.refused[0] || f.open || !f.bounded ||
		(plan.exit != PLAN_EXIT_RET && plan.exit != PLAN_EXIT_EARLY))
		doubt(proof, DOUBT_CODE, NULL);
	proof->own_return = f.insn_cnt && func_takes_return(&f);
	for (uint32_t i = 0; i < f.range_cnt; i++)
		if (f.ranges[i].bad)
			doubt(proof, DOUBT_CODE, NULL);
	fp_set = sets_fp(&f);
	for (uint32_t i = 0; i < f.insn_cnt; i++)
		if (p->states[i].seen)
			look_at_insn(&f, &p->insns[i], fp_set, proof);
	plan_done(&plan);
	return 0;
}

/* --- a function and its callees ------------------------------------------------------------- */

struct closure {
	uint32_t fdes[MAX_CALLEES];
	uint32_t cnt;
	uint8_t *seen; /* one byte for each FDE */
	bool tails; /* only of tail calls */
	bool recursive, too_large, own_return, unknown_tail;
	bool callee;              /* .doubt is a callee's */
	const struct proof *doubt; /* the gravest, or NULL */
};

static void closure_add(struct closure *c, uint32_t fde)
{
	if (fde == c->fdes[0] && c->cnt)
		c->recursive = true;
	if (c->seen[fde])
		return;
	if (c->cnt == MAX_CALLEES) {
		c->too_large = true;
		return;
	}
	c->seen[fde] = 1;
	c->fdes[c->cnt++] = fde;
}

static int closure_find(struct planner *p, uint32_t fde, struct closure *c)
{
	const struct proof *proof;
	int ret = 0;

	closure_add(c, fde);
	for (uint32_t i = 0; !ret && i < c->cnt; i++) {
		ret = look(p, c->fdes[i], &proof);
		for (uint32_t k = 0; !ret && k < proof->callee_cnt; k++)
			if (!c->tails || proof->callees[k].tail)
				closure_add(c, proof->callees[k].fde);
		c->own_return |= !ret && proof->own_return;
		c->unknown_tail |= !ret && proof->unknown_tail;
		if (ret || !proof->doubt || (c->doubt && c->doubt->doubt <= proof->doubt))
			continue;
		c->doubt = proof;
		c->callee = i > 0;
	}
	return ret;
}

static void closure_free(struct closure *c)
{
	if (c)
		free(c->seen);
	free(c);
}

/* @tails: only of tail calls. */
static int closure_new(struct planner *p, uint32_t fde, bool tails, struct closure **ret_c)
{
	struct closure *c = xcalloc(1, sizeof(*c));
	int ret;

	*ret_c = NULL;
	c->seen = xcalloc(p->img.fde_cnt, 1);
	c->tails = tails;
	ret = closure_find(p, fde, c);
	if (ret)
		closure_free(c);
	else
		*ret_c = c;
	return ret;
}

/* Finds whether functions of the file read frames, and their own return addresses. */
static int look_at_file(struct planner *p)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && !p->file_known && i < p->img.fde_cnt; i++) {
		const struct proof *proof;

		ret = look(p, i, &proof);
		if (ret || p->img.fdes[i].start == p->img.entry)
			continue;
		p->reads_frames |= proof->doubt == DOUBT_FRAME;
		p->reads_returns |= proof->own_return;
	}
	p->file_known |= !ret;
	return ret;
}

/*
 * True if the function or a target of its tail calls reads its return address, which is the same.
 */
static int reads_return(struct planner *p, uint32_t fde, bool *ret_reads)
{
	struct closure *tails;
	int ret = closure_new(p, fde, true, &tails);

	if (!ret && tails->unknown_tail)
		ret = look_at_file(p);
	if (!ret)
		*ret_reads = tails->own_return || (tails->unknown_tail && p->reads_returns);
	closure_free(tails);
	return ret;
}

/* As find_doubt(), for a function of a program whose unknown callees are harmless. */
static int find_doubt_alone(
	struct planner *p, uint32_t fde, const struct closure *c, char *why, size_t size)
{
	bool reads = false;
	int ret = reads_return(p, fde, &reads);

	if (!ret && reads) {
		snprintf(why, size, "%s reads its own return address",
			p->proofs[fde].own_return ? "it" : "a function that it jumps to");
	} else if (!ret && c->doubt && c->doubt->doubt > DOUBT_FRAME) {
		ret = look_at_file(p);
		if (p->reads_frames)
			snprintf(why, size, "a function of the program %s",
				doubt_texts[DOUBT_FRAME]);
	} else if (!ret && c->doubt) {
		snprintf(why, size, "%s %s", c->callee ? "a callee" : "it",
			doubt_texts[DOUBT_FRAME]);
	}
	return ret;
}

/* As find_doubt(), for a function all of whose callees must be known. */
static void find_doubt_of_all(
	const struct proof *proof, const struct closure *c, char *why, size_t size)
{
	const char *who = c->callee ? "a callee" : "it";

	if (c->own_return)
		snprintf(why, size, "%s reads its own return address",
			proof->own_return ? "it" : "a callee");
	else if (c->doubt && c->doubt->doubt == DOUBT_IMPORT)
		snprintf(why, size, "%s calls '%.40s', which may unwind or call back", who,
			c->doubt->import);
	else if (c->doubt)
		snprintf(why, size, "%s %s", who, doubt_texts[c->doubt->doubt]);
}

/* Writes the reason why a function cannot have a return probe to @why, or "". */
static int find_doubt(struct planner *p, const struct plan_request *req, char *why, size_t size)
{
	struct closure *c;
	uint32_t fde = fde_index(&p->img, req->addr);
	int ret;

	why[0] = '\0';
	if (fde == NO_FDE || p->img.fdes[fde].start != req->addr) {
		snprintf(why, size, "it has no unwind information");
		return 0;
	}
	ret = closure_new(p, fde, false, &c);
	if (!ret && req->alone_why)
		ret = find_doubt_alone(p, fde, c, why, size);
	else if (!ret)
		find_doubt_of_all(&p->proofs[fde], c, why, size);
	if (!ret && !why[0] && c->recursive)
		snprintf(why, size, "it is recursive");
	if (!ret && !why[0] && c->too_large)
		snprintf(why, size, "it has more than %d callees", MAX_CALLEES);
	closure_free(c);
	return ret;
}

/* --- the plan ------------------------------------------------------------------------------- */

static const char proven[] =
	"proven safe: neither it nor a callee unwinds, switches stacks or reads frames";

/* Plans @req again with a return probe: at its entry site, nothing is on the stack yet. */
static int plan_for_return(
	struct planner *p, const struct plan_request *req, const char *why, struct plan *plan)
{
	struct plan_request vouched = *req;
	struct func f = { .p = p, .req = &vouched };

	vouched.return_why = why;
	plan_done(plan);
	return func_plan(&f, plan);
}

int planner_prove(struct planner *p, const struct plan_request *req, struct plan *plan)
{
	const struct plan_rules *rules = &p->rules;
	const char *why = req->alone_why ? req->alone_why : proven;
	char doubt[PLAN_WHY_LEN - 64], text[PLAN_WHY_LEN];
	struct func f = { .ret_why = text };
	int ret;

	if (plan->refused[0] || plan->exit != PLAN_EXIT_RET || plan->site_is_end || req->go ||
		plan->goroutine ||
		(!rules->prove && !req->alone_why) || rules->return_unsafe ||
		rules->exit != PLAN_MODE_AUTO || p->img.arch != PLAN_X86_64 || req->return_why ||
		req->no_return_why)
		return 0;
	if (!p->proofs)
		p->proofs = xcalloc(p->img.fde_cnt + 1, sizeof(*p->proofs));
	ret = find_doubt(p, req, doubt, sizeof(doubt));
	if (ret)
		return ret;
	if (doubt[0]) {
		snprintf(text, sizeof(text), "no return probe: %s", doubt);
		func_say_ends(&f, plan);
		return 0;
	}
	if (plan->site_depth)
		return plan_for_return(p, req, why, plan);
	free(plan->ends);
	plan->ends = NULL;
	plan->end_cnt = 0;
	plan->exit = PLAN_EXIT_RETURN;
	snprintf(plan->exit_why, sizeof(plan->exit_why), "%s", why);
	return 0;
}

/*
 * Signal handlers that abandon the interrupted call, by an exception or a switch to another stack.
 *
 * A function is taken for a handler if its address is loaded where a function that installs
 * handlers is called, or in a direct caller of that place, which passes it on. It abandons calls if
 * it or a callee in the same file calls one of the given functions. A call through a pointer may
 * reach any function of the file, so it counts also. Handlers that are read from memory or passed
 * to another file, and callees in other files, are not found.
 */

/* A handler with more functions in its closure may do anything. */
#define MAX_CLOSURE 1024

static bool has(const struct addrs *a, uint64_t addr)
{
	return ANY_WHERE(a->cnt, i, a->addr[i] == addr);
}

static void add(struct addrs *a, uint64_t addr)
{
	if (!has(a, addr))
		*array_add(a->addr, a->cnt) = addr;
}

static bool has_word(const struct plan_calls *c, uint64_t addr)
{
	return ANY_WHERE(c->word_cnt, i, c->words[i] == addr);
}

static int32_t rel32(const uint8_t *b)
{
	int32_t v;

	memcpy(&v, b, sizeof(v));
	return v;
}

/* Functions that are called, by their addresses and by stubs, and the functions that call them. */
struct calls {
	const struct plan_image *img;
	const struct plan_calls *of;
	struct addrs targets, callers; /* .callers are FDEs' starts */
};

static void calls_done(struct calls *c)
{
	free(c->targets.addr);
	free(c->callers.addr);
}

static void add_caller(void *arg, uint64_t at, uint64_t target)
{
	struct calls *c = arg;
	const struct plan_fde *fde = image_fde(c->img, at);
	struct addrs *to = &c->callers;

	/* Calls are found in the order of their addresses, so those of a function are adjacent. */
	if (fde && !(to->cnt && to->addr[to->cnt - 1] == fde->start))
		*array_add(to->addr, to->cnt) = fde->start;
}

/* Finds call *WORD(%rip) and PLT stubs: jmp *WORD(%rip), possibly after endbr64. */
static void find_stubs(const struct plan_text *t, struct calls *c)
{
	const uint8_t *b = t->bytes;

	for (size_t i = 0; i + 6 <= t->size; i++) {
		uint64_t addr = t->addr + i;

		if (b[i] != 0xff || (b[i + 1] != 0x25 && b[i + 1] != 0x15) ||
			!has_word(c->of, addr + 6 + (int64_t)rel32(b + i + 2)))
			continue;
		if (b[i + 1] == 0x15) {
			add_caller(c, addr, 0);
			continue;
		}
		add(&c->targets, addr);
		if (i >= 1 && b[i - 1] == 0xf2)
			addr--;
		add(&c->targets, addr);
		if (addr - t->addr >= 4 && insn_is_endbr(t->bytes + (addr - t->addr) - 4, 4))
			add(&c->targets, addr - 4);
	}
}

static void calls_find(struct calls *c)
{
	for (size_t i = 0; i < c->of->func_cnt; i++)
		add(&c->targets, c->of->funcs[i]);
	for (size_t i = 0; i < c->img->text_cnt; i++)
		find_stubs(&c->img->texts[i], c);
	addrs_sort(&c->targets);
	image_find_calls(c->img, true, &c->targets, add_caller, c);
}

/* --- what a function refers to --------------------------------------------------------------- */

static bool is_function(const struct plan_image *img, uint64_t addr)
{
	const struct plan_fde *fde = image_fde(img, addr);

	return fde && fde->start == addr;
}

/* mov $ADDRESS to a register or to memory, in code that is not position-independent. */
static uint64_t loaded_number(const struct insn *insn, const uint8_t *bytes)
{
	size_t at = (bytes[0] & 0xf0) == 0x40;

	if (insn->len < at + 5 || ((bytes[at] & 0xf8) != 0xb8 && bytes[at] != 0xc7))
		return 0;
	return (uint32_t)rel32(bytes + insn->len - 4);
}

/* The instructions of a function in their order. */
struct scan {
	const struct plan_fde *fde; /* NULL: none */
	uint64_t addr;              /* of the next instruction */
	const uint8_t *bytes;       /* of the last one returned */
	struct insn insns[INSN_TABLE_LOOK + 1];
	size_t cnt;
};

static struct scan scan_begin(const struct plan_image *img, uint64_t start)
{
	return (struct scan) { .fde = image_fde(img, start), .addr = start };
}

/*
 * Returns the next instruction, which follows the ones before it in .insns; NULL at the end of the
 * function, or if it cannot be decoded.
 */
static const struct insn *scan_next(
	struct scan *s, const struct plan_image *img, struct insn_decoder *dec)
{
	struct insn *insn;
	size_t left;

	if (!s->fde || s->addr >= s->fde->end)
		return NULL;
	if (s->cnt == ARRAY_SIZE(s->insns))
		memmove(s->insns, s->insns + 1, --s->cnt * sizeof(*s->insns));
	insn = &s->insns[s->cnt];
	s->bytes = image_code(img, s->addr, &left);
	if (!s->bytes || !insn_decode(dec, s->bytes, left, s->addr, insn))
		return NULL;
	s->addr += insn->len;
	s->cnt++;
	return insn;
}

/*
 * True for a call or tail call through a pointer that is not a GOT word, except through a jump
 * table. @prev instructions precede @insn in the same array.
 */
static bool is_by_pointer(
	const struct plan_image *img, const struct insn *insn, size_t prev, const uint8_t *bytes)
{
	size_t at;

	if (insn->has_target || (insn->flow != INSN_CALL && insn->flow != INSN_JMP_MEM &&
					insn->flow != INSN_JMP_REG))
		return false;
	if (insn->flow != INSN_CALL && insn_is_dispatch(img->arch, insn, prev, bytes))
		return false;
	at = FIRST_WHERE(img->slot_cnt, i, img->slots[i].addr >= insn->data);
	return !insn->has_data || at == img->slot_cnt || img->slots[at].addr != insn->data;
}

/* Adds functions whose addresses the function at @start loads. */
static void find_handlers(const struct plan_image *img, struct insn_decoder *dec, uint64_t start,
	struct addrs *handlers)
{
	struct scan s = scan_begin(img, start);
	const struct insn *insn;

	while ((insn = scan_next(&s, img, dec))) {
		uint64_t to = insn->has_data && insn->takes_addr && !insn->nop
			? insn->data
			: loaded_number(insn, s.bytes);

		if (to && is_function(img, to))
			add(handlers, to);
	}
}

/* Adds callees of the function at @start. Returns true if it calls through a pointer. */
static bool find_callees(const struct plan_image *img, struct insn_decoder *dec, uint64_t start,
	struct addrs *callees)
{
	struct scan s = scan_begin(img, start);
	const struct insn *insn;
	bool by_pointer = false;

	while ((insn = scan_next(&s, img, dec))) {
		by_pointer |= is_by_pointer(img, insn, s.cnt - 1, s.bytes);
		if (insn->has_target && is_function(img, insn->target))
			add(callees, insn->target);
	}
	return by_pointer;
}

static bool handler_leaves(const struct plan_image *img, struct insn_decoder *dec, uint64_t handler,
	const struct addrs *leave)
{
	struct addrs closure = {};
	bool leaves = false;

	add(&closure, handler);
	for (size_t i = 0; !leaves && i < closure.cnt; i++)
		leaves = i == MAX_CLOSURE || has(leave, closure.addr[i]) ||
			find_callees(img, dec, closure.addr[i], &closure);
	free(closure.addr);
	return leaves;
}

/* Returns the first handler that calls of @install may install and that leaves, or 0. */
static uint64_t handlers_find(const struct plan_image *img, const struct calls *install,
	const struct calls *leave)
{
	struct addrs handlers = {};
	struct insn_decoder *dec;
	uint64_t handler = 0;

	if (insn_open(img->arch, &dec, NULL))
		return 0;
	for (size_t i = 0; i < install->callers.cnt; i++)
		find_handlers(img, dec, install->callers.addr[i], &handlers);
	for (size_t i = 0; i < handlers.cnt && !handler; i++)
		if (handler_leaves(img, dec, handlers.addr[i], &leave->callers))
			handler = handlers.addr[i];
	insn_close(dec);
	free(handlers.addr);
	return handler;
}

uint64_t plan_handler_leaves(const struct plan_image *img, const struct plan_calls *install,
	const struct plan_calls *leave)
{
	__cleanup(calls_done) struct calls in = { .img = img, .of = install },
					   out = { .img = img, .of = leave };
	struct addrs wrappers = {};

	if (img->arch != PLAN_X86_64)
		return 0;
	calls_find(&out);
	if (out.callers.cnt)
		calls_find(&in);
	for (size_t i = 0; i < in.callers.cnt; i++)
		*array_add(wrappers.addr, wrappers.cnt) = in.callers.addr[i];
	addrs_sort(&wrappers);
	image_find_calls(img, true, &wrappers, add_caller, &in);
	free(wrappers.addr);
	return in.callers.cnt ? handlers_find(img, &in, &out) : 0;
}
