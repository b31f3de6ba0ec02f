// SPDX-License-Identifier: BSD-2-Clause
// Signal handlers that leave the call which they interrupt: by an exception, or for another stack.
//
// A handler is taken to be a function whose address is loaded where a function is called that
// installs handlers, or in a direct caller of that place, which passes it on. It leaves if it or a
// callee in the same file calls one of the functions that leave. A call through a pointer is taken
// for one of a function of the file, which may leave. Handlers that are read from memory or handed
// to another file, and callees in other files, are not seen.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MAX_ADDRS   256  /* stubs, and functions that call */
#define MAX_CLOSURE 1024 /* functions that a handler calls, and they */

struct addrs {
	uint64_t addr[MAX_ADDRS];
	size_t cnt;
};

static void add(struct addrs *a, uint64_t addr)
{
	for (size_t i = 0; i < a->cnt; i++)
		if (a->addr[i] == addr)
			return;
	if (a->cnt < MAX_ADDRS)
		a->addr[a->cnt++] = addr;
}

static bool has(const struct addrs *a, uint64_t addr)
{
	for (size_t i = 0; i < a->cnt; i++)
		if (a->addr[i] == addr)
			return true;
	return false;
}

static bool has_word(const struct plan_calls *c, uint64_t addr)
{
	for (size_t i = 0; i < c->word_cnt; i++)
		if (c->words[i] == addr)
			return true;
	return false;
}

static int32_t rel32(const uint8_t *b)
{
	int32_t v;

	memcpy(&v, b, sizeof(v));
	return v;
}

/* Functions that are called, by their addresses and by stubs, and the functions that call them. */
struct calls {
	const struct plan_calls *of;
	struct addrs targets, callers; /* .callers are FDEs' starts */
};

static void add_caller(const struct plan_image *img, struct calls *c, uint64_t addr)
{
	const struct plan_fde *fde = image_fde(img, addr);

	if (fde)
		add(&c->callers, fde->start);
}

/* call *WORD(%rip), and the stubs of the linkage table: jmp *WORD(%rip), possibly after endbr64. */
static void find_stubs(const struct plan_image *img, const struct plan_text *t, struct calls *c)
{
	const uint8_t *b = t->bytes;

	for (size_t i = 0; i + 6 <= t->size; i++) {
		uint64_t addr = t->addr + i;

		if (b[i] != 0xff || (b[i + 1] != 0x25 && b[i + 1] != 0x15) ||
			!has_word(c->of, addr + 6 + (int64_t)rel32(b + i + 2)))
			continue;
		if (b[i + 1] == 0x15) {
			add_caller(img, c, addr);
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

/* Direct calls of, and jumps to, what @targets has. */
static void find_callers(const struct plan_image *img, const struct plan_text *t,
	const struct addrs *targets, struct calls *c)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < targets->cnt; i++) {
		low = targets->addr[i] < low ? targets->addr[i] : low;
		high = targets->addr[i] > high ? targets->addr[i] : high;
	}
	for (size_t i = 0; i + 5 <= t->size; i++) {
		uint64_t to;

		if ((t->bytes[i] & 0xfe) != 0xe8)
			continue;
		to = t->addr + i + 5 + (int64_t)rel32(t->bytes + i + 1);
		if (to >= low && to <= high && has(targets, to))
			add_caller(img, c, t->addr + i);
	}
}

static void calls_find(const struct plan_image *img, struct calls *c)
{
	for (size_t i = 0; i < c->of->func_cnt; i++)
		add(&c->targets, c->of->funcs[i]);
	for (size_t i = 0; i < img->text_cnt; i++)
		find_stubs(img, &img->texts[i], c);
	for (size_t i = 0; i < img->text_cnt && c->targets.cnt; i++)
		find_callers(img, &img->texts[i], &c->targets, c);
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

struct looked {
	const struct plan_image *img;
	struct insn_decoder *dec;
	struct addrs handlers;
	uint64_t closure[MAX_CLOSURE];
	size_t closure_cnt;
	bool by_pointer; /* something in the closure is called through a pointer */
};

static void closure_add(struct looked *l, uint64_t addr)
{
	for (size_t i = 0; i < l->closure_cnt; i++)
		if (l->closure[i] == addr)
			return;
	if (l->closure_cnt < MAX_CLOSURE)
		l->closure[l->closure_cnt++] = addr;
}

/*
 * A call, or a tail call that is no jump table's, through a pointer which is not a linkage word.
 * @prev instructions are before @insn in the same array.
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

/* Adds to the handlers what the function loads the addresses of; or to the closure what it calls. */
static void look_at(struct looked *l, uint64_t start, bool for_handlers)
{
	const struct plan_fde *fde = image_fde(l->img, start);
	struct insn insns[INSN_TABLE_LOOK + 1], *insn = insns;
	size_t left;

	for (uint64_t addr = start; fde && addr < fde->end; addr += insn++->len) {
		const uint8_t *bytes = image_code(l->img, addr, &left);
		uint64_t to;

		if (insn == insns + ARRAY_SIZE(insns))
			memmove(insns, insns + 1, (char *)--insn - (char *)insns);
		if (!bytes || !insn_decode(l->dec, bytes, left, addr, insn))
			return;
		if (!for_handlers) {
			l->by_pointer |= is_by_pointer(l->img, insn, insn - insns, bytes);
			if (insn->has_target && is_function(l->img, insn->target))
				closure_add(l, insn->target);
			continue;
		}
		to = insn->has_data && insn->takes_addr && !insn->nop
			? insn->data
			: loaded_number(insn, bytes);
		if (to && is_function(l->img, to))
			add(&l->handlers, to);
	}
}

static bool handler_leaves(struct looked *l, uint64_t handler, const struct addrs *leave)
{
	l->closure_cnt = 0;
	l->by_pointer = false;
	closure_add(l, handler);
	for (size_t i = 0; i < l->closure_cnt; i++) {
		if (has(leave, l->closure[i]))
			return true;
		look_at(l, l->closure[i], false);
	}
	return l->by_pointer;
}

static int look(const struct plan_image *img, const struct calls *install,
	const struct calls *leave, uint64_t *ret_handler)
{
	struct looked *l = xcalloc(1, sizeof(*l));
	int ret = 0;
	struct err err;

	if (!ret)
		ret = insn_open(img->arch, &l->dec, &err);
	if (ret) {
		free(l);
		return ret;
	}
	l->img = img;
	for (size_t i = 0; i < install->callers.cnt; i++)
		look_at(l, install->callers.addr[i], true);
	for (size_t i = 0; i < l->handlers.cnt && !*ret_handler; i++)
		if (handler_leaves(l, l->handlers.addr[i], &leave->callers))
			*ret_handler = l->handlers.addr[i];
	insn_close(l->dec);
	free(l);
	return 0;
}

int plan_handler_leaves(const struct plan_image *img, const struct plan_calls *install,
	const struct plan_calls *leave, uint64_t *ret_handler)
{
	struct calls *in = xcalloc(1, sizeof(*in)), *out = xcalloc(1, sizeof(*out));
	struct addrs wrappers;
	int ret = 0;

	*ret_handler = 0;
	if (!ret && img->arch == PLAN_X86_64) {
		in->of = install;
		out->of = leave;
		calls_find(img, out);
		if (out->callers.cnt)
			calls_find(img, in);
		wrappers = in->callers;
		for (size_t i = 0; i < img->text_cnt && wrappers.cnt; i++)
			find_callers(img, &img->texts[i], &wrappers, in);
		ret = in->callers.cnt ? look(img, in, out, ret_handler) : 0;
	}
	free(in);
	free(out);
	return ret;
}
