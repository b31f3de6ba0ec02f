// SPDX-License-Identifier: BSD-2-Clause
// Decodes a function and computes the stack state at each of its instructions.
#include "internal.h"
#include "base/util.h"

/*
 * Code that switches stacks: whether a program has any, and functions with known names that switch
 * stacks, that return in unusual ways, or that do neither.
 */

static void cleanup_decoder(struct insn_decoder **dec)
{
	insn_close(*dec);
}

static size_t zeros(const uint8_t *bytes, size_t len)
{
	size_t cnt = 0;

	while (cnt < len && !bytes[cnt])
		cnt++;
	return cnt;
}

/* Decodes [@addr, @end) of @t. Returns false if an instruction switches stacks or is invalid. */
static bool part_stays(const struct plan_image *img, struct insn_decoder *dec,
	const struct plan_text *t, uint64_t addr, uint64_t end)
{
	bool goes_on = false;

	while (addr < end) {
		const uint8_t *bytes = t->bytes + (addr - t->addr);
		size_t padding = zeros(bytes, end - addr);
		struct insn insn;

		/*
		 * padding between sections is zeros; a single zero counts only if control does not
		 * reach it
		 */
		if (padding > 1 || (padding && !goes_on)) {
			addr += padding;
			continue;
		}
		if (!insn_decode(dec, bytes, end - addr, addr, &insn) ||
			insn_switches_stack(img->arch, &insn, bytes, end - addr))
			return false;
		goes_on = insn.flow == INSN_PLAIN || insn.flow == INSN_JCC ||
			insn.flow == INSN_CALL;
		addr += insn.len;
	}
	return true;
}

bool plan_stays_on_stack(const struct plan_image *img, size_t max_bytes)
{
	struct insn_decoder *dec __cleanup(cleanup_decoder) = NULL;
	size_t bytes = 0;
	struct err err;

	for (size_t i = 0; i < img->text_cnt; i++)
		bytes += img->texts[i].size;
	if (bytes > max_bytes || insn_open(img->arch, &dec, &err))
		return false;
	for (size_t i = 0; i < img->text_cnt; i++) {
		const struct plan_text *t = &img->texts[i];
		uint64_t addr = t->addr, end = addr + t->size;

		/* known starts of code keep the decoder aligned */
		while (addr < end) {
			uint64_t next = image_next_start(img, addr);

			if (next > end)
				next = end;
			if (!part_stays(img, dec, t, addr, next))
				return false;
			addr = next;
		}
	}
	return true;
}

static const struct {
	const char *why;
	const char *names[20]; /* whole names */
	const char *prefixes[8];
	const char *suffixes[4];
} groups[] = {
	{
		"it belongs to the unwinder and does not return to its caller",
		{ "__gxx_personality_v0", "__gxx_personality_sj0", "__gcc_personality_v0",
			"__gnat_personality_v0", "__objc_personality_v0",
			"rust_eh_personality", "__gxx_wasm_personality_v0",
			"uw_install_context", "uw_init_context" },
		{ "_Unwind_", "_ULx86_64_", "_Ux86_64_", "_ULaarch64_", "_Uaarch64_",
			"unw_", "__unw_" },
		{ NULL },
	},
	{
		"setjmp and longjmp return to another place, or twice",
		{ "setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "longjmp",
			"_longjmp", "__longjmp", "siglongjmp", "__longjmp_chk",
			"____longjmp_chk", "__libc_longjmp", "__libc_siglongjmp",
			"__sigsetjmp_cancel", "__sigjmp_save", "FPC_SETJMP",
			"FPC_LONGJMP" },
		{ NULL },
		{ NULL },
	},
	{
		"it returns twice on one stack",
		{ "vfork", "__vfork", "__libc_vfork", "__vfork_asm" },
		{ NULL },
		{ NULL },
	},
	{
		"it switches to another stack or context",
		{ "swapcontext", "__swapcontext", "setcontext", "__setcontext",
			"getcontext", "__getcontext", "makecontext", "__makecontext",
			"__start_context", "co_switch", "co_swap", "coctx_swap",
			"__morestack", "swift_task_switch" },
		{ "__push___start_context" },
		{ "jump_fcontext", "make_fcontext", "ontop_fcontext" },
	},
	{
		"it is not entered by a call, and has no return address",
		{ "_start", "_dl_start_user", "__restore_rt", "__restore",
			"__kernel_rt_sigreturn", "_dl_tlsdesc_return",
			"_dl_tlsdesc_undefweak", "_dl_tlsdesc_dynamic" },
		{ "_dl_runtime_resolve", "_dl_runtime_profile", "__switch_to_user" },
		{ NULL },
	},
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

const char *name_not_followed(const char *name)
{
	if (!name)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(groups[i].names) && groups[i].names[k];
			k++)
			if (strcmp(name, groups[i].names[k]) == 0)
				return groups[i].why;
		for (size_t k = 0;
			k < ARRAY_SIZE(groups[i].prefixes) && groups[i].prefixes[k]; k++)
			if (strncmp(name, groups[i].prefixes[k],
				    strlen(groups[i].prefixes[k])) == 0)
				return groups[i].why;
		for (size_t k = 0;
			k < ARRAY_SIZE(groups[i].suffixes) && groups[i].suffixes[k]; k++)
			if (ends_with(name, groups[i].suffixes[k]))
				return groups[i].why;
	}
	return NULL;
}

/* Sorted. */
static const char *const calculates[] = { "__assert_fail", "__chk_fail", "__ctype_b_loc",
	"__ctype_tolower_loc", "__ctype_toupper_loc", "__errno_location", "__memcpy_chk",
	"__memmove_chk", "__memset_chk", "__stack_chk_fail", "__stpcpy_chk", "__strcat_chk",
	"__strcpy_chk", "__strncat_chk", "__strncpy_chk", "abort", "abs", "bcmp", "bzero", "ceil",
	"ceilf", "cos", "cosf", "exp", "expf", "floor", "floorf", "fmod", "fmodf", "labs",
	"ldexp", "log", "log2", "logf", "memccpy", "memchr", "memcmp", "memcpy", "memmem",
	"memmove", "mempcpy", "memrchr", "memset", "pow", "powf", "rawmemchr", "sin", "sinf",
	"sqrt", "sqrtf", "stpcpy", "stpncpy", "strcasecmp", "strcasestr", "strcat", "strchr",
	"strchrnul", "strcmp", "strcpy", "strcspn", "strlen", "strncasecmp", "strncat",
	"strncmp", "strncpy", "strnlen", "strpbrk", "strrchr", "strspn", "strstr", "strtol",
	"strtoll", "strtoul", "strtoull", "tan", "tanf", "tolower", "toupper" };

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, *(const char *const *)b);
}

bool name_only_calculates(const char *name)
{
	return bsearch(name, calculates, ARRAY_SIZE(calculates), sizeof(*calculates),
		compare_names);
}

/*
 * Functions compiled by Go check the stack at the entry, and restart after it has grown.
 *
 * The forms of the check are those of stacksplit() in Go's cmd/internal/obj/x86/obj6.go and
 * arm64/obj7.go, since 1.17. The stack pointer minus the frame size is compared with g.stackguard0
 * or, in functions that run only on the system stack, with g.stackguard1. These are 16 and 24 bytes
 * after the address in %r14 or x28.
 */

/* --- the check -------------------------------------------------------------------------------- */

/* A position in the matched bytes; .at advances after each match. */
struct cursor {
	const uint8_t *bytes;
	size_t len, at;
	uint64_t addr; /* of bytes[0] */
};

static bool take(struct cursor *c, const char *bytes, size_t cnt, size_t operand)
{
	if (c->len - c->at < cnt + operand || memcmp(c->bytes + c->at, bytes, cnt) != 0)
		return false;
	c->at += cnt + operand;
	return true;
}

#define TAKE(c, bytes, operand) take(c, bytes, sizeof(bytes) - 1, operand)

/* Matches a conditional jump with condition @cc, and returns its target. */
static bool take_jcc(struct cursor *c, uint8_t cc, uint64_t *ret_to)
{
	const uint8_t *b = c->bytes + c->at;
	size_t left = c->len - c->at;
	int32_t rel;

	if (left >= 2 && b[0] == (0x70 | cc)) {
		c->at += 2;
		*ret_to = c->addr + c->at + (int8_t)b[1];
		return true;
	}
	if (left < 6 || b[0] != 0x0f || b[1] != (0x80 | cc))
		return false;
	memcpy(&rel, b + 2, 4);
	c->at += 6;
	*ret_to = c->addr + c->at + rel;
	return true;
}

/* cmp 0x10(%r14) or 0x18(%r14) with a register selected by @rex: %rsp or %r12 */
static bool take_guard(struct cursor *c, uint8_t rex)
{
	const uint8_t *b = c->bytes + c->at;

	if (c->len - c->at < 4 || b[0] != rex || b[1] != 0x3b || b[2] != 0x66 ||
		(b[3] != 0x10 && b[3] != 0x18))
		return false;
	c->at += 4;
	return true;
}

static bool x86_go_check(struct cursor *c, uint64_t *ret_grow)
{
	uint64_t wraps;

	/* functions called from non-Go code load g: mov %fs:-8,%r14 */
	(void)TAKE(c, "\x64\x4c\x8b\x34\x25\xf8\xff\xff\xff", 0);
	/* cmp 0x10(%r14),%rsp; jbe */
	if (take_guard(c, 0x49))
		return take_jcc(c, 6, ret_grow);
	/* lea -N(%rsp),%r12; cmp 0x10(%r14),%r12; jbe */
	if (TAKE(c, "\x4c\x8d\x64\x24", 1) || TAKE(c, "\x4c\x8d\xa4\x24", 4))
		return take_guard(c, 0x4d) && take_jcc(c, 6, ret_grow);
	/* mov %rsp,%r12; sub $N,%r12; jb; cmp 0x10(%r14),%r12; jbe */
	return TAKE(c, "\x49\x89\xe4", 0) && TAKE(c, "\x49\x81\xec", 4) &&
		take_jcc(c, 2, &wraps) && take_guard(c, 0x4d) &&
		take_jcc(c, 6, ret_grow) && wraps == *ret_grow;
}

static bool take_word(struct cursor *c, uint32_t mask, uint32_t word)
{
	if (c->len - c->at < 4 || (a64_word(c->bytes + c->at) & mask) != word)
		return false;
	c->at += 4;
	return true;
}

static bool take_b_cond(struct cursor *c, uint32_t cond, uint64_t *ret_to)
{
	struct insn insn = { 0 };

	if (!take_word(c, 0xff00001f, 0x54000000 | cond) ||
		!a64_classify(a64_word(c->bytes + c->at - 4), c->addr + c->at - 4, &insn))
		return false;
	*ret_to = insn.target;
	return true;
}

static bool a64_go_check(struct cursor *c, uint64_t *ret_grow)
{
	uint64_t wraps;

	if (!take_word(c, ~0x400u, 0xf9400b90)) /* ldr x16,[x28,#16] or #24 */
		return false;
	if (take_word(c, ~0u, 0xeb3063ff)) /* cmp sp,x16; b.ls */
		return take_b_cond(c, 9, ret_grow);
	/* sub x17,sp,#N; cmp x17,x16; b.ls */
	if (take_word(c, 0xff8003ff, 0xd10003f1))
		return take_word(c, ~0u, 0xeb10023f) && take_b_cond(c, 9, ret_grow);
	/* subs x17,sp,#N, or subs with N loaded into x27; b.lo; cmp x17,x16; b.ls */
	while (take_word(c, 0x1f80001f, 0x1280001b) ||
		take_word(c, 0xff8003ff, 0xb20003fb))
		;
	if (!take_word(c, 0xff8003ff, 0xf10003f1) && !take_word(c, ~0u, 0xeb3b63f1))
		return false;
	return take_b_cond(c, 3, &wraps) && take_word(c, ~0u, 0xeb10023f) &&
		take_b_cond(c, 9, ret_grow) && wraps == *ret_grow;
}

/*
 * Returns the length of Go's stack check at @bytes, of which @len are readable, at address @addr; 0
 * if there is none. *@ret_grow is the jump target if the stack is too small.
 */
static size_t check_len(enum plan_arch arch, const uint8_t *bytes, size_t len,
	uint64_t addr, uint64_t *ret_grow)
{
	struct cursor c = { .bytes = bytes, .len = len, .addr = addr };
	uint64_t grow;

	if (!(arch == PLAN_ARM64 ? a64_go_check(&c, &grow) : x86_go_check(&c, &grow)))
		return 0;
	*ret_grow = grow;
	return c.at;
}

/* --- what follows it ---------------------------------------------------------------------------- */

/*
 * Limit of instructions that spill and reload registers around the call that grows the stack: about
 * 24 occur.
 */
#define MAX_GROW_INSNS 80

/*
 * Returns the jump back to the entry at the end of the code at @grow: it spills registers, calls a
 * function that grows the stack, and reloads them. Returns NULL if the code does something else.
 */
static const struct insn *grow_jump(const struct func *f, uint64_t grow)
{
	const struct insn *insn = func_insn(f, grow);
	const struct insn *end = f->p->insns + f->ranges[0].cnt;
	size_t calls = 0;

	for (size_t i = 0; insn && insn < end && i < MAX_GROW_INSNS; i++, insn++) {
		if (insn->flow == INSN_JMP)
			return calls == 1 && insn->target == f->entry ? insn : NULL;
		if (insn->sp != INSN_SP_KEEP)
			return NULL;
		if (insn->flow == INSN_CALL && insn->has_target &&
			!func_range(f, insn->target))
			calls++;
		else if (insn->flow != INSN_PLAIN)
			return NULL;
	}
	return NULL;
}

/* True if control reaches @addr from the entry only by falling through, without a loop. */
static bool falls_to(const struct func *f, uint64_t addr)
{
	if (image_next_start(&f->p->img, f->entry) <= addr)
		return false;
	const struct insn *insn = f->p->insns;

	return !ANY_WHERE(f->insn_cnt, i, insn[i].has_target && insn[i].target > f->entry &&
		insn[i].target <= addr);
}

void func_find_go(struct func *f)
{
	const struct code_range *r = &f->ranges[0];
	const struct insn *jump;
	uint64_t behind, grow = 0;
	size_t len;

	if (!f->at_start || !r->cnt)
		return;
	len = check_len(f->p->img.arch, r->bytes, r->end - r->start, f->entry, &grow);
	behind = f->entry + len;
	if (!len || !func_insn(f, behind) || !falls_to(f, behind))
		return;
	jump = grow_jump(f, grow);
	if (!jump)
		return;
	f->go_behind = behind;
	f->go_jump = jump->addr;
}

static void make_room(struct planner *p, uint32_t cnt)
{
	uint32_t cap = p->cap ? p->cap : 1024;

	if (cnt < p->cap)
		return;
	while (cap <= cnt)
		cap *= 2;
	p->insns = xreallocarray(p->insns, cap, sizeof(*p->insns));
	p->states = xreallocarray(p->states, cap, sizeof(*p->states));
	for (size_t i = 0; i < ARRAY_SIZE(p->queue); i++)
		p->queue[i] = xreallocarray(p->queue[i], cap, sizeof(*p->queue[i]));
	p->cap = cap;
}

static void make_byte_room(struct planner *p, size_t cnt)
{
	if (cnt <= p->over_cap)
		return;
	p->over_cap = cnt > 2 * p->over_cap ? cnt : 2 * p->over_cap;
	p->over = xreallocarray(p->over, p->over_cap, sizeof(*p->over));
}

int func_add_range(struct func *f, uint64_t start, uint64_t end)
{
	struct code_range *r = &f->ranges[f->range_cnt];
	struct planner *p = f->p;
	uint64_t addr = start;
	size_t len;

	if (f->range_cnt == FSN_JUMP_RANGES || end - start > PLAN_MAX_BYTES - f->byte_cnt)
		return -E2BIG;
	*r = (struct code_range) { .start = start, .end = end, .first = f->insn_cnt,
		.from = f->byte_cnt };
	r->bytes = image_code(&p->img, start, &len);
	if (!r->bytes || len < end - start)
		return -E2BIG;
	make_byte_room(p, f->byte_cnt + (end - start));
	while (addr < end) {
		struct insn *insn;

		make_room(p, r->first + r->cnt + 1);
		insn = &p->insns[r->first + r->cnt];
		if (!insn_decode(
			    p->dec, r->bytes + (addr - start), end - addr, addr, insn)) {
			*insn = (struct insn) { .addr = addr, .flow = INSN_BAD };
			insn->len = p->img.arch == PLAN_ARM64 && end - addr >= 4 ? 4 : 1;
			if (!r->bad)
				r->bad_addr = addr;
			r->bad = true;
		}
		if (insn->flow == INSN_JMP_REG &&
			insn_is_dispatch(
				p->img.arch, insn, r->cnt, r->bytes + (addr - start)))
			insn->flow = INSN_TABLE;
		for (uint32_t i = 0; i < insn->len; i++)
			p->over[r->from + (addr - start) + i] = r->first + r->cnt;
		addr += insn->len;
		r->cnt++;
	}
	f->range_cnt++;
	f->insn_cnt += r->cnt;
	f->byte_cnt += end - start;
	return 0;
}

void func_drop_range(struct func *f)
{
	struct code_range *r = &f->ranges[--f->range_cnt];

	f->insn_cnt -= r->cnt;
	f->byte_cnt -= r->end - r->start;
}

const struct code_range *func_range(const struct func *f, uint64_t addr)
{
	return FIND_WHERE(f->ranges, f->range_cnt, i, addr >= f->ranges[i].start &&
		addr < f->ranges[i].end);
}

struct insn *func_insn_over(const struct func *f, uint64_t addr)
{
	const struct code_range *r = func_range(f, addr);

	return r ? &f->p->insns[f->p->over[r->from + (addr - r->start)]] : NULL;
}

struct insn *func_insn(const struct func *f, uint64_t addr)
{
	struct insn *insn = func_insn_over(f, addr);

	return insn && insn->addr == addr ? insn : NULL;
}

const uint8_t *func_bytes(const struct func *f, const struct insn *insn)
{
	const struct code_range *r = func_range(f, insn->addr);

	return r->bytes + (insn->addr - r->start);
}

struct flow_state *func_state(const struct func *f, const struct insn *insn)
{
	return &f->p->states[insn - f->p->insns];
}

bool insn_leaves(const struct func *f, const struct insn *insn)
{
	return (insn->flow == INSN_JMP || insn->flow == INSN_JCC) &&
		!func_range(f, insn->target);
}

/* --- the states ------------------------------------------------------------- */

struct walk {
	struct func *f;
	uint32_t queued
		[2]; /* [0]: reached for sure; [1]: after calls, processed if [0] is empty */
	uint8_t floor; /* minimum level of all edges */
	const struct flow_state
		*table; /* state at targets of jump tables, or NULL */
};

/* Applies the effect of the instruction to its input state. */
static struct flow_state apply(const struct insn *insn, const struct flow_state *in)
{
	struct flow_state s = *in;
	int64_t depth = s.depth;

	switch (insn->sp) {
	case INSN_SP_KEEP:
		return s;
	case INSN_SP_ADD:
		depth -= insn->sp_arg;
		break;
	case INSN_SP_TO_FP:
		depth -= insn->sp_arg;
		s.fp_known = s.depth_known && depth == (int32_t)depth;
		s.fp = (int32_t)depth;
		return s;
	case INSN_SP_FROM_FP:
		s.depth_known = s.fp_known;
		depth = (int64_t)s.fp - insn->sp_arg;
		break;
	case INSN_SP_LOST:
		s.depth_known = false;
		break;
	}
	if (depth != (int32_t)depth)
		s.depth_known = false;
	s.depth = s.depth_known ? (int32_t)depth : 0;
	s.moved = true;
	return s;
}

/* Merges @in into the state of instruction @to. Returns true if that changed. */
static bool join(struct walk *w, uint32_t to, const struct flow_state *in, uint8_t level)
{
	struct flow_state *s = &w->f->p->states[to];
	bool queued = s->queued;
	struct flow_state old = *s;
	bool behind_call = level == FLOW_CALL && (!s->seen || s->behind_call);

	if (level < w->floor)
		level = w->floor;
	if (!s->seen || level < s->level) {
		*s = *in;
		s->seen = true;
		s->level = level;
		s->queued = queued;
		s->behind_call = behind_call;
		return true;
	}
	s->behind_call = behind_call;
	if (level > s->level)
		return false;
	if (s->depth_known && (!in->depth_known || in->depth != s->depth))
		s->depth_known = false;
	if (s->fp_known && (!in->fp_known || in->fp != s->fp))
		s->fp_known = false;
	if (!in->moved)
		s->moved = false;
	return s->behind_call != old.behind_call || s->depth_known != old.depth_known ||
		s->fp_known != old.fp_known || s->moved != old.moved;
}

static void enqueue(struct walk *w, uint32_t idx, int which)
{
	struct planner *p = w->f->p;

	if (p->states[idx].queued)
		return;
	p->states[idx].queued = true;
	p->queue[which][w->queued[which]++] = idx;
}

static void take_jump(struct walk *w, uint64_t target, const struct flow_state *s)
{
	struct insn *to = func_insn(w->f, target);
	uint32_t idx;

	/* a jump to the entry starts another call, or the next round of a loop */
	if (!to || target == w->f->entry)
		return;
	idx = to - w->f->p->insns;
	if (join(w, idx, s, FLOW_SURE))
		enqueue(w, idx, 0);
}

/* A call into the function itself, after its entry: a hand-written subroutine. */
static void take_call(struct walk *w, const struct insn *insn, const struct flow_state *s)
{
	struct flow_state in = *s;

	if (insn->target == w->f->entry || s->depth > INT32_MAX - 8)
		return;
	if (w->f->p->img.arch == PLAN_X86_64)
		in.depth += 8;
	in.moved = true;
	take_jump(w, insn->target, &in);
}

/*
 * Continues after a call. The code after a call that never returns may be a jump table's target,
 * which has another depth: if the two differ, the depth is not known.
 */
static void step_behind_call(struct walk *w, uint32_t idx, const struct flow_state *s)
{
	struct flow_state in = *s;

	if (w->table && w->table->depth_known && w->table->depth != in.depth)
		in.depth_known = false;
	if (join(w, idx, &in, FLOW_CALL))
		enqueue(w, idx, 1);
}

/* True for a call of adjacent code that pops the return address to get the address of data. */
static bool takes_return(const struct walk *w, const struct insn *call)
{
	const struct insn *to = call->has_target ? func_insn(w->f, call->target) : NULL;

	return to && call->target != w->f->entry && to->sp == INSN_SP_ADD &&
		to->sp_arg > 0 && w->f->p->img.arch == PLAN_X86_64;
}

static bool falls_through(const struct insn *insn)
{
	return insn->flow == INSN_PLAIN || insn->flow == INSN_JCC ||
		insn->flow == INSN_CALL;
}

/* Walks straight on from @idx until nothing changes. */
static void walk_from(struct walk *w, uint32_t idx)
{
	struct planner *p = w->f->p;

	for (;;) {
		const struct insn *insn = &p->insns[idx];
		struct flow_state s = apply(insn, &p->states[idx]);
		uint8_t through = insn->nop && s.behind_call ? FLOW_CALL : FLOW_SURE;

		if (insn->has_target && insn->flow == INSN_CALL)
			take_call(w, insn, &s);
		else if (insn->has_target)
			take_jump(w, insn->target, &s);
		if (!falls_through(insn) ||
			(insn->flow == INSN_CALL && takes_return(w, insn)))
			return;
		if (idx + 1 >= w->f->insn_cnt ||
			p->insns[idx + 1].addr != insn->addr + insn->len) {
			take_jump(w, insn->addr + insn->len,
				&s); /* possibly in another range */
			return;
		}
		idx++;
		if (insn->flow == INSN_CALL) {
			step_behind_call(w, idx, &s);
			return;
		}
		if (!join(w, idx, &s, through))
			return;
	}
}

static void drain(struct walk *w)
{
	struct planner *p = w->f->p;

	while (w->queued[0] || w->queued[1]) {
		int which = w->queued[0] ? 0 : 1;
		uint32_t idx = p->queue[which][--w->queued[which]];

		p->states[idx].queued = false;
		walk_from(w, idx);
	}
}

/* Returns the state at targets of jump tables: the depth of their jumps, if they agree. */
static struct flow_state table_state(const struct func *f)
{
	struct flow_state found = { 0 };

	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct insn *insn = &f->p->insns[i];
		const struct flow_state *s = &f->p->states[i];

		if (insn->flow != INSN_TABLE && insn->flow != INSN_JMP_REG &&
			insn->flow != INSN_JMP_MEM)
			continue;
		if (!s->seen || !s->depth_known ||
			(!s->depth && insn->flow != INSN_TABLE))
			continue;
		if (found.depth_known && found.depth != s->depth)
			return (struct flow_state) { 0 };
		found.depth = s->depth;
		found.depth_known = true;
		found.moved = s->moved;
	}
	return found;
}

static void follow_entry(struct func *f, const struct flow_state *table)
{
	struct walk w = { .f = f, .table = table };
	struct flow_state start = { .depth_known = true };

	memset(f->p->states, 0, f->insn_cnt * sizeof(*f->p->states));
	join(&w, 0, &start, FLOW_SURE);
	enqueue(&w, 0, 0);
	drain(&w);
}

/* Follows code that is not reached from the entry: targets of jump tables and of the unwinder. */
static void follow_landings(struct func *f, const struct flow_state *table)
{
	struct walk w = { .f = f, .table = table, .floor = FLOW_LAND };

	func_forget_landings(f);
	do {
		for (uint32_t i = 0; i < f->insn_cnt; i++) {
			if (!f->p->insns[i].lands || f->p->states[i].seen)
				continue;
			join(&w, i, table, FLOW_LAND);
			enqueue(&w, i, 0);
			drain(&w);
		}
	} while (func_find_landings(f));
}

void flow_run(struct func *f)
{
	static const struct flow_state unknown;
	struct flow_state table, again;

	if (!f->insn_cnt)
		return;
	follow_entry(f, NULL);
	if (!f->bounded)
		return;
	table = table_state(f);
	if (table.depth_known)
		follow_entry(f, &table);
	follow_landings(f, &table);
	again = table_state(f);
	if (!table.depth_known || (again.depth_known && again.depth == table.depth))
		return;
	/* code reached through one table uses another one at a different depth */
	follow_entry(f, NULL);
	follow_landings(f, &unknown);
}
