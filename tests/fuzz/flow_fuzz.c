// SPDX-License-Identifier: BSD-2-Clause
/*
 * Compares the planner's exits with the flow of control. The input is read as a function:
 * code with jumps, jump tables and landing pads, and data between and after it. An
 * interpreter takes every path of its instructions. An exit that the planner found
 * elsewhere would be a breakpoint in data; a ret that it missed, a lost return. With
 * early exits, each path to a ret passes one, and finds its return address and its result
 * where the exit says.
 */
#include "code/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define BASE     0x10000
#define OUTSIDE  0x14000 /* other functions: tail calls and calls go there */
#define TABLES   0x18000
#define PADS     0x1c000
#define SIZE     0x10000
#define MAX_CODE 0x3000
#define MAX_PART 96

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum part_kind {
	PART_PLAIN,
	PART_JCC,
	PART_JMP,
	PART_LEAVE,
	PART_LEAVE_JCC,
	PART_RET,
	PART_CALL,
	PART_CALL_PAD,  /* may come back at a landing pad */
	PART_OVER,      /* a call over data, which pops the address of that */
	PART_LAST_CALL, /* does not return; followed by data that was referenced */
	PART_SWITCH,
	PART_DATA_LEA,
	PART_DATA_LOAD,
	PART_STOP,
	PART_REG, /* a jump to an unknown target */
	PART_DATA,
	PART_KINDS,
};

struct part {
	enum part_kind kind;
	uint64_t addr, end; /* of its code, without data in it */
	uint64_t last;      /* its last instruction */
	uint8_t to[4];      /* numbers of other parts */
	uint64_t patch; /* where the distance to to[0] or the table is written, or 0 */
	const struct plain *plain; /* PART_PLAIN, or NULL */
	bool reached;
	bool passed[2]; /* by a call that has ended early or not */
};

/* An instruction that only moves data. */
struct plain {
	const char *bytes;
	uint8_t len;
	int8_t push;         /* bytes */
	bool writes, copies; /* register .to: .number, or another one's low .bits */
	uint8_t to, from, bits;
	uint64_t number;
};

static const struct plain plains[] = {
	{ "\x89\xf8", 2, .writes = true, .copies = true, .from = 7, .bits = 32 },
	{ "\x53", 1, .push = 8 },
	{ "\x5b", 1, .push = -8, .writes = true, .to = 3, .number = 0x5b5b5b5b5b5b },
	{ .bytes = "\x90", .len = 1 },
	{ "\x48\x89\xd8", 3, .writes = true, .copies = true, .from = 3, .bits = 64 },
	{ "\x0f\xb6\xc1", 3, .writes = true, .copies = true, .from = 1, .bits = 8 },
	{ "\x83\xc8\xff", 3, .writes = true, .number = 0xffffffff },
	{ "\x31\xdb", 2, .writes = true, .to = 3 },
	/* these read like ends in their middle */
	{ "\xb8\xc3\xc3\xe9\xc3", 5, .writes = true, .number = 0xc3e9c3c3 },
	{ "\xb9\xc3\xff\xff\xff", 5, .writes = true, .to = 1, .number = 0xffffffc3 },
	{ "\xba\x1f\x00\x00\x00", 5, .writes = true, .to = 2, .number = 0x1f },
	{ .bytes = "\x66\x90", .len = 2 },
};

/* One function at a time. */
static struct {
	const uint8_t *data;
	size_t size;
	bool arm64;
	uint8_t *bytes;
	uint64_t at, table, pad;
	struct part parts[MAX_PART];
	size_t cnt;
} fn;

static uint8_t take(void)
{
	if (!fn.size)
		return 0;
	fn.size--;
	return *fn.data++;
}

static void check(bool good)
{
	if (!good)
		abort();
}

static void put(uint64_t addr, const void *bytes, size_t n)
{
	check(addr >= BASE && addr + n <= BASE + SIZE);
	memcpy(fn.bytes + (addr - BASE), bytes, n);
}

static void emit(const char *bytes, size_t n)
{
	put(fn.at, bytes, n);
	fn.at += n;
}

#define EMIT(text) emit(text, sizeof(text) - 1)

static void emit_word(uint32_t word)
{
	put(fn.at, &word, 4);
	fn.at += 4;
}

static void put_rel32(uint64_t at, uint64_t target)
{
	int32_t rel = target - (at + 4);

	put(at, &rel, 4);
}

static void emit_data(size_t n)
{
	if (fn.arm64)
		n &= ~(size_t)3;
	for (size_t i = 0; i < n; i++) {
		uint8_t b = take();

		put(fn.at++, &b, 1);
	}
}

/* --- x86-64 -------------------------------------------------------------------------- */

/* @op and a distance that is filled in later, or that of @target. */
static void emit_rel(struct part *p, const char *op, size_t n, uint64_t target)
{
	p->last = fn.at;
	emit(op, n);
	if (target)
		put_rel32(fn.at, target);
	else
		p->patch = fn.at;
	fn.at += 4;
}

static void emit_plain(struct part *p, uint8_t n)
{
	p->plain = &plains[n % ARRAY_SIZE(plains)];
	emit(p->plain->bytes, p->plain->len);
}

static void emit_x86(struct part *p)
{
	uint8_t n = take() % 24 + 1;

	switch (p->kind) {
	case PART_JCC:
		emit_rel(p, "\x0f\x84", 2, 0);
		break;
	case PART_JMP:
		emit_rel(p, "\xe9", 1, 0);
		break;
	case PART_LEAVE:
		emit_rel(p, "\xe9", 1, OUTSIDE);
		break;
	case PART_LEAVE_JCC:
		emit_rel(p, "\x0f\x85", 2, OUTSIDE);
		break;
	case PART_RET:
		EMIT("\xc3");
		break;
	case PART_CALL:
	case PART_CALL_PAD:
		emit_rel(p, "\xe8", 1, OUTSIDE);
		break;
	case PART_OVER:
		emit_rel(p, "\xe8", 1, fn.at + 5 + n);
		emit_data(n);
		EMIT("\x5e");
		break;
	case PART_LAST_CALL:
		emit("\x48\x8d\x0d\x05\x00\x00\x00", 7); /* lea after the call */
		emit_rel(p, "\xe8", 1, OUTSIDE);
		p->end = fn.at;
		emit_data(n);
		return;
	case PART_SWITCH: /* and $3,%eax; jmp *table(,%rax,8) */
		EMIT("\x83\xe0\x03\xff\x24\xc5");
		p->patch = fn.at;
		p->last = fn.at - 3;
		fn.at += 4;
		break;
	case PART_DATA_LEA:
		emit_rel(p, "\x48\x8d\x0d", 3, 0);
		break;
	case PART_DATA_LOAD:
		emit_rel(p, "\x8b\x05", 2, 0);
		break;
	case PART_STOP:
		EMIT("\x0f\x0b");
		break;
	case PART_REG:
		EMIT("\xff\xe0");
		break;
	case PART_DATA:
		emit_data(n);
		break;
	default:
		emit_plain(p, n);
	}
	p->end = fn.at;
}

/* --- arm64 --------------------------------------------------------------------------- */

static void emit_arm64(struct part *p)
{
	uint32_t away = (OUTSIDE - fn.at) / 4;

	p->last = fn.at;
	switch (p->kind) {
	case PART_JCC:
		p->patch = fn.at;
		emit_word(0x54000000);
		break;
	case PART_JMP:
		p->patch = fn.at;
		emit_word(0x14000000);
		break;
	case PART_LEAVE:
		emit_word(0x14000000 | (away & 0x3ffffff));
		break;
	case PART_LEAVE_JCC:
		emit_word(0x54000001 | (away & 0x7ffff) << 5);
		break;
	case PART_RET:
		emit_word(0xd65f03c0);
		break;
	case PART_CALL:
	case PART_CALL_PAD:
		emit_word(0x94000000 | (away & 0x3ffffff));
		break;
	case PART_DATA_LEA: /* adr x9 */
		p->patch = fn.at;
		emit_word(0x10000009);
		break;
	case PART_DATA_LOAD: /* ldr x9, literal */
		p->patch = fn.at;
		emit_word(0x58000009);
		break;
	case PART_STOP:
		emit_word(0xd4200000);
		break;
	case PART_REG: /* br x9 */
		emit_word(0xd61f0120);
		break;
	case PART_DATA:
		emit_data(take() % 24 + 4);
		break;
	default:
		p->kind = PART_PLAIN;
		emit_word(0xaa0003e9);
	}
	p->end = fn.at;
}

/* --- the function -------------------------------------------------------------------- */

static bool goes_on(const struct part *p)
{
	switch (p->kind) {
	case PART_JMP:
	case PART_LEAVE:
	case PART_RET:
	case PART_LAST_CALL:
	case PART_SWITCH:
	case PART_STOP:
	case PART_REG:
	case PART_DATA:
		return false;
	default:
		return true;
	}
}

static void make_parts(void)
{
	while (fn.size && fn.cnt < MAX_PART - 1 && fn.at < BASE + MAX_CODE) {
		struct part *p = &fn.parts[fn.cnt];

		*p = (struct part) { .kind = take() % PART_KINDS, .addr = fn.at };
		/* control would run into data */
		if (p->kind == PART_DATA && (!fn.cnt || goes_on(p - 1)))
			p->kind = PART_PLAIN;
		p->last = fn.at;
		for (size_t i = 0; i < ARRAY_SIZE(p->to); i++)
			p->to[i] = take();
		fn.cnt++;
		if (fn.arm64)
			emit_arm64(p);
		else
			emit_x86(p);
	}
	fn.parts[fn.cnt] =
		(struct part) { .kind = PART_RET, .addr = fn.at, .last = fn.at };
	if (fn.arm64)
		emit_word(0xd65f03c0);
	else
		EMIT("\xc3");
	fn.parts[fn.cnt++].end = fn.at;
}

/* The part that number @n stands for: the nearest that is code, or data. */
static struct part *part_of(uint8_t n, bool data)
{
	for (size_t i = 0; i < fn.cnt; i++) {
		struct part *p = &fn.parts[(n + i) % fn.cnt];

		/* the entry is left out: a jump there is another call */
		if (p != fn.parts && (p->kind == PART_DATA) == data)
			return p;
	}
	return NULL;
}

static void patch_arm64(const struct part *p, uint64_t target)
{
	uint32_t w, away = (target - p->patch) / 4;

	memcpy(&w, fn.bytes + (p->patch - BASE), 4);
	w |= w >> 26 == 5 ? away & 0x3ffffff : (away & 0x7ffff) << 5;
	put(p->patch, &w, 4);
}

static void make_table(const struct part *p)
{
	uint32_t table = fn.table;

	put(p->patch, &table, 4);
	for (size_t i = 0; i < ARRAY_SIZE(p->to); i++, fn.table += 8)
		put(fn.table, &part_of(p->to[i], false)->addr, 8);
	fn.table += 8; /* an entry that is none */
}

/* A call site and its landing pad, in numbers of 4 bytes. */
static void make_pad(const struct part *p)
{
	uint32_t site[3] = { p->last - BASE, p->end - p->last,
		part_of(p->to[0], false)->addr - BASE };

	put(fn.pad, site, sizeof(site));
	fn.pad += sizeof(site) + 1; /* action 0 */
}

static void link_parts(void)
{
	struct part other = { .addr = TABLES }; /* somebody else's data */

	for (size_t i = 0; i < fn.cnt; i++) {
		struct part *p = &fn.parts[i];
		bool data = p->kind == PART_DATA_LEA || p->kind == PART_DATA_LOAD;
		struct part *to = part_of(p->to[0], data);

		if (p->kind == PART_SWITCH)
			make_table(p);
		else if (p->kind == PART_CALL_PAD)
			make_pad(p);
		if (!p->patch || p->kind == PART_SWITCH)
			continue;
		if (!to)
			to = &other;
		if (fn.arm64)
			patch_arm64(p, to->addr);
		else
			put_rel32(p->patch, to->addr);
	}
}

/* --- the interpreter ------------------------------------------------------------------- */

static void go(struct part *to, struct part **todo, size_t *cnt)
{
	if (!to || to->reached)
		return;
	to->reached = true;
	todo[(*cnt)++] = to;
}

static void interpret(void)
{
	struct part *todo[MAX_PART];
	size_t cnt = 0;

	go(fn.parts, todo, &cnt);
	/* what the unwinder knows need not be called: a landing pad is code */
	for (size_t i = 0; i < fn.cnt; i++)
		if (fn.parts[i].kind == PART_CALL_PAD)
			go(part_of(fn.parts[i].to[0], false), todo, &cnt);
	while (cnt) {
		struct part *p = todo[--cnt];

		if (goes_on(p))
			go(p + 1, todo, &cnt);
		if (p->kind == PART_JCC || p->kind == PART_JMP)
			go(part_of(p->to[0], false), todo, &cnt);
		for (size_t i = 0; p->kind == PART_SWITCH && i < ARRAY_SIZE(p->to); i++)
			go(part_of(p->to[i], false), todo, &cnt);
	}
}

static bool is_end(const struct plan *plan, uint64_t addr)
{
	for (size_t i = 0; i < plan->end_cnt; i++)
		if (plan->ends[i].addr == addr)
			return true;
	return false;
}

/* --- early ends ------------------------------------------------------------------------ */

/* Registers by number, such that no part of one is like that of another. */
static void fill(uint64_t *reg)
{
	for (uint64_t i = 0; i < 16; i++)
		reg[i] = (0xf1e2d3c4b5a69788 ^ i * 0x1111111111111111) + i;
}

/*
 * After an early exit the call continues at @p, which must lead to a ret with the same
 * result and address.
 */
static void check_tail(const struct plan_end *end, const struct part *p)
{
	uint64_t reg[16], told;
	int32_t sp = 0;

	fill(reg);
	told = end->value.is_number ? (uint64_t)end->value.number : reg[end->value.reg];
	told = told << (64 - (64 >> end->value.cut)) >> (64 - (64 >> end->value.cut));
	for (; p->kind != PART_RET; p++) {
		check(p->kind == PART_PLAIN || p->kind == PART_DATA_LEA ||
			p->kind == PART_DATA_LOAD);
		/* lea to rcx, mov to eax */
		if (!p->plain)
			reg[p->kind == PART_DATA_LEA ? 1 : 0] = fn.at;
		else if (p->plain->writes)
			reg[p->plain->to] = p->plain->copies
				? reg[p->plain->from] << (64 - p->plain->bits) >>
					(64 - p->plain->bits)
				: p->plain->number;
		sp -= p->plain ? p->plain->push : 0;
	}
	check(told == reg[0] && !end->place.from_fp && end->place.offset == sp);
}

/* The exit at instruction @addr, if a call exits there to the target or past it. */
static const struct plan_end *passes(const struct plan *plan, uint64_t addr, bool target)
{
	for (size_t i = 0; i < plan->end_cnt; i++) {
		const struct plan_end *end = &plan->ends[i];

		if (end->addr == addr && end->kind == PLAN_END_EARLY)
			return end;
		if (end->addr == addr && end->kind == PLAN_END_EARLY_JCC)
			return target == (end->cond == 4) ? end : NULL;
	}
	return NULL;
}

struct way {
	struct part *at;
	bool ended;
};

/* Continues a call from @from to @to. */
static void pass(const struct plan *plan, struct part *from, struct part *to, bool target,
	struct way *todo, size_t *cnt, bool ended)
{
	const struct plan_end *end = passes(plan, from->last, target);

	check(!end || !ended);
	if (end) /* a push is one of those that are still to be done */
		check_tail(end, from->kind == PART_PLAIN ? from : to);
	if (to->passed[ended || end])
		return;
	to->passed[ended || end] = true;
	todo[(*cnt)++] = (struct way) { to, ended || end };
}

/* Goes all ways, with a call that has ended and with one that has not. */
static void check_early(const struct plan *plan)
{
	struct way todo[2 * MAX_PART];
	size_t cnt = 0;

	for (size_t i = 0; i < fn.cnt; i++) {
		struct part *pad = fn.parts[i].kind == PART_CALL_PAD
			? part_of(fn.parts[i].to[0], false)
			: fn.parts;

		if (!pad->passed[0])
			todo[cnt++] = (struct way) { pad, false };
		pad->passed[0] = true;
	}
	while (cnt) {
		struct way w = todo[--cnt];
		struct part *p = w.at;

		if (p->kind == PART_RET)
			check(w.ended);
		if (goes_on(p))
			pass(plan, p, p + 1, false, todo, &cnt, w.ended);
		if (p->kind == PART_JCC || p->kind == PART_JMP)
			pass(plan, p, part_of(p->to[0], false), true, todo, &cnt, w.ended);
		for (size_t i = 0; p->kind == PART_SWITCH && i < ARRAY_SIZE(p->to); i++)
			pass(plan, p, part_of(p->to[i], false), true, todo, &cnt, w.ended);
	}
}

static void check_plan(const struct plan *plan)
{
	for (size_t i = 0; i < plan->end_cnt; i++) {
		bool found = false;

		for (size_t k = 0; k < fn.cnt; k++)
			found |= fn.parts[k].reached &&
				fn.parts[k].last == plan->ends[i].addr;
		check(found);
	}
	for (size_t i = 0; plan->exit == PLAN_EXIT_EARLY && i < fn.cnt; i++)
		check(!fn.parts[i].reached || fn.parts[i].kind != PART_LEAVE ||
			is_end(plan, fn.parts[i].last));
	for (size_t i = 0; plan->exit == PLAN_EXIT_RET && i < fn.cnt; i++) {
		const struct part *p = &fn.parts[i];

		if (p->reached &&
			(p->kind == PART_RET || p->kind == PART_LEAVE ||
				p->kind == PART_LEAVE_JCC))
			check(is_end(plan, p->last));
	}
	if (!plan->refused[0])
		check(plan->site == BASE || plan->site < fn.parts[0].end ||
			fn.parts[1].reached);
}

static void plan_as(const struct plan_image *img, const struct plan_request *req,
	enum plan_exit_mode mode)
{
	struct plan_rules rules = { .exit = mode, .site_entry = true };
	struct planner *p = NULL;
	struct plan plan;
	struct err err;

	check(!planner_new(img, &rules, &p, &err));
	check(!planner_plan(p, req, &plan, &err));
	check_plan(&plan);
	if (plan.exit == PLAN_EXIT_EARLY)
		check_early(&plan);
	plan_done(&plan);
	planner_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t head[] = { 0xff, 0xff, 0x03 };
	uint64_t starts[] = { BASE, OUTSIDE };
	struct plan_fde fde = { .start = BASE, .lsda = PADS };
	struct plan_text text = { BASE, NULL, SIZE };
	struct plan_image img = { PLAN_X86_64, &text, 1, starts, 2, &fde, 1, NULL, 0,
		&text, 1, 0 };
	struct plan_request req = { .addr = BASE };

	memset(&fn, 0, sizeof(fn));
	fn.data = data;
	fn.size = size;
	fn.arm64 = take() & 1;
	fn.bytes = calloc(1, SIZE);
	fn.at = BASE;
	fn.table = TABLES;
	fn.pad = PADS + 8;
	make_parts();
	link_parts();
	put(PADS, head, sizeof(head));
	/* their length, always in five bytes, so that the size does not depend on it */
	for (int i = 0; i < 5; i++) {
		uint64_t len = fn.pad - PADS - 8;
		uint8_t b = (len >> 7 * i & 0x7f) | (i < 4 ? 0x80 : 0);

		put(PADS + 3 + i, &b, 1);
	}
	interpret();
	text.bytes = fn.bytes;
	img.arch = fn.arm64 ? PLAN_ARM64 : PLAN_X86_64;
	fde.end = fn.at;
	req.size = fn.at - BASE;
	plan_as(&img, &req, PLAN_MODE_RET);
	plan_as(&img, &req, PLAN_MODE_EARLY);
	free(fn.bytes);
	return 0;
}
