// SPDX-License-Identifier: BSD-2-Clause
// Builds the unwind table of a file by executing the instructions of .eh_frame.
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "unwind/unwind.h"

/* Registers of x86-64 as DWARF numbers them (its psABI, 3.6.2). */
#define REG_BP 6
#define REG_SP 7
#define REG_PC 16

/*
 * Limits for hostile files. The largest known library has 1.4 million rows, made by 5 million
 * instructions.
 */
#define ROWS_MAX  (16U << 20)
#define STEPS_MAX (64U << 20)
#define SAVED_MAX 8 /* nested DW_CFA_remember_state */

/* Size of a PLT stub in bytes, and the maximum number of adjacent stubs. */
#define STUB     16
#define STUBS_MAX 65536

#define FUNC_ALIGN 16 /* alignment of functions, padded by assemblers */

enum rule {
	RULE_SAME,   /* the caller's value is in the register */
	RULE_OFFSET, /* at CFA + .offset */
	RULE_AT_FP,  /* at the frame pointer */
	RULE_NONE,   /* undefined */
	RULE_OTHER,  /* a rule that is not supported */
};

enum cfa_rule {
	CFA_REG,   /* register .reg + .cfa */
	CFA_DEREF, /* the word at the frame pointer + .cfa */
	CFA_STUB,  /* stack pointer + 8, plus 8 more from byte .cfa of a stub on */
	CFA_OTHER,
};

struct state {
	enum cfa_rule how;
	uint64_t reg;
	int64_t cfa;
	enum rule fp, ret;
	int64_t fp_offset, ret_offset;
};

struct maker {
	struct elf_file *f;
	struct elf_frame *frames;
	size_t frame_cnt;
	struct unwind_rows *to;
	size_t steps;
};

/* --- rows ------------------------------------------------------------------------------------ */

/* A row equal to the previous one is merged into it. */
static int add_row(struct maker *m, uint64_t offset, struct fsn_unwind_row row)
{
	struct unwind_rows *to = m->to;
	struct fsn_unwind_row *last = to->cnt ? &to->rows[to->cnt - 1] : NULL;

	row.offset = (unsigned int)offset;
	/* Segments in the file are not in address order, which no linker produces. */
	if (last && row.offset < last->offset)
		return 0;
	if (last && last->offset == row.offset) {
		*last = row;
		if (to->cnt > 1 && last[-1].how == row.how && last[-1].fp == row.fp &&
			last[-1].cfa == row.cfa)
			to->cnt--;
		return 0;
	}
	if (last && last->how == row.how && last->fp == row.fp && last->cfa == row.cfa)
		return 0;
	if (to->cnt == ROWS_MAX)
		return -EFBIG;
	*array_add(to->rows, to->cnt) = row;
	return 0;
}

static bool fits(int64_t offset, int64_t most)
{
	return offset >= 0 && !(offset & 7) && offset / 8 <= most;
}

static struct fsn_unwind_row row_of(const struct elf_frame *frame, const struct state *s)
{
	const struct fsn_unwind_row lost = { .how = FSN_UNWIND_LOST };
	struct fsn_unwind_row row = { .how = FSN_UNWIND_SP };

	if (frame->signal)
		return (struct fsn_unwind_row) { .how = FSN_UNWIND_SIGNAL };
	if (s->ret == RULE_NONE)
		return (struct fsn_unwind_row) { .how = FSN_UNWIND_END };
	if (s->ret != RULE_OFFSET || s->ret_offset != -8)
		return lost;
	if (s->how == CFA_DEREF) {
		if (s->fp != RULE_AT_FP || s->cfa > 0 || !fits(-s->cfa, UINT16_MAX))
			return lost;
		return (struct fsn_unwind_row) { .how = FSN_UNWIND_DEREF,
			.cfa = (unsigned short)(-s->cfa / 8) };
	}
	if (s->how != CFA_REG || (s->reg != REG_SP && s->reg != REG_BP) ||
		!fits(s->cfa, UINT16_MAX))
		return lost;
	if (s->reg == REG_BP)
		row.how = FSN_UNWIND_FP;
	row.cfa = (unsigned short)(s->cfa / 8);
	if (s->fp == RULE_SAME || s->fp == RULE_NONE)
		return row;
	if (s->fp != RULE_OFFSET || s->fp_offset >= 0 || !fits(-s->fp_offset, 128))
		return lost;
	row.fp = (signed char)(s->fp_offset / 8);
	return row;
}

/*
 * Code starts at @offset. A gap shorter than the alignment of functions is not code. A frame that
 * returns to the first instruction, such as one started by makecontext(3), has no caller.
 */
static void close_gap(struct maker *m, uint64_t offset)
{
	struct fsn_unwind_row *last = m->to->cnt ? &m->to->rows[m->to->cnt - 1] : NULL;

	if (last && last->how == FSN_UNWIND_NONE && last->offset < offset &&
		offset - last->offset < FUNC_ALIGN)
		last->how = FSN_UNWIND_END;
}

/* --- instructions ------------------------------------------------------------------------------ */

/* The state while the instructions of one frame are executed. */
struct run {
	struct maker *m;
	const struct elf_frame *frame;
	uint64_t at, end; /* start of the current state; end of the frame */
	uint64_t offset;  /* file offset of address 0 */
	struct state now, first, saved[SAVED_MAX];
	size_t saved_cnt;
	bool in_cie;
};

static void set_rule(struct run *r, uint64_t reg, enum rule rule, int64_t offset)
{
	if (reg == REG_BP) {
		r->now.fp = rule;
		r->now.fp_offset = offset;
	} else if (reg == r->frame->ret_reg) {
		r->now.ret = rule;
		r->now.ret_offset = offset;
	}
}

static void restore(struct run *r, uint64_t reg)
{
	if (reg == REG_BP)
		set_rule(r, reg, r->first.fp, r->first.fp_offset);
	else
		set_rule(r, reg, r->first.ret, r->first.ret_offset);
}

/* Adds rows for PLT stubs: each has pushed a word from some instruction on. */
static int add_stubs(struct run *r, uint64_t end)
{
	struct state s = r->now;
	int code = 0;

	s.how = CFA_REG;
	s.reg = REG_SP;
	for (uint64_t at = r->at; !code && at < end;) {
		bool pushed = at % STUB >= (uint64_t)r->now.cfa;

		s.cfa = pushed ? 16 : 8;
		code = add_row(r->m, at + r->offset, row_of(r->frame, &s));
		at += (pushed ? STUB : (uint64_t)r->now.cfa) - at % STUB;
	}
	return code;
}

/* Adds rows for the state from its start to @end. */
static int add_rows(struct run *r, uint64_t end)
{
	if (r->now.how == CFA_STUB && end - r->at <= STUB * STUBS_MAX)
		return add_stubs(r, end);
	return add_row(r->m, r->at + r->offset, row_of(r->frame, &r->now));
}

/* Ends the row of the current state. Nothing is added after the end of the frame. */
static int advance(struct run *r, uint64_t by)
{
	uint64_t to;
	int code;

	if (r->in_cie)
		return 0;
	by = by > UINT32_MAX ? UINT32_MAX : by * r->frame->code_align;
	if (!by)
		return 0;
	to = by < r->end - r->at ? r->at + by : r->end;
	code = add_rows(r, to);
	r->at = to;
	return code;
}

/* Reads a register plus an offset, which compilers emit for realigned stacks. */
static bool read_breg(struct eh_reader *e, uint64_t reg, int64_t *ret_offset)
{
	if (eh_read_bytes(e, 1) != DW_OP_breg0 + reg)
		return false;
	*ret_offset = (int64_t)eh_read_leb(e, true);
	return !e->bad;
}

static struct eh_reader read_block(struct eh_reader *i)
{
	uint64_t size = eh_read_leb(i, false);
	struct eh_reader block = { .p = i->p, .end = i->p };

	if (size > (uint64_t)(i->end - i->p))
		i->bad = true;
	else
		i->p += size;
	block.end = i->p;
	return block;
}

/* "sp + 8 + ((pc & 15) >= FROM) << 3", as linkers have it: elf_x86_64_eh_frame_lazy_plt of binutils. */
static bool read_stub(struct eh_reader e, int64_t *ret_from)
{
	static const uint8_t after[] = { DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus };
	int64_t sp, pc;
	bool good = read_breg(&e, REG_SP, &sp) && sp == 8 && read_breg(&e, REG_PC, &pc) && !pc &&
		eh_read_bytes(&e, 1) == DW_OP_lit15 && eh_read_bytes(&e, 1) == DW_OP_and;

	*ret_from = (int64_t)eh_read_bytes(&e, 1) - DW_OP_lit0;
	for (size_t i = 0; i < sizeof(after); i++)
		good &= eh_read_bytes(&e, 1) == after[i];
	return good && !e.bad && e.p == e.end && *ret_from > 0 && *ret_from < STUB;
}

static void cfa_expression(struct run *r, struct eh_reader e)
{
	int64_t offset = 0;

	r->now.how = CFA_OTHER;
	if (read_stub(e, &offset)) {
		r->now.how = CFA_STUB;
		r->now.cfa = offset;
		return;
	}
	if (!read_breg(&e, REG_BP, &offset) || eh_read_bytes(&e, 1) != DW_OP_deref ||
		e.bad || e.p != e.end)
		return;
	r->now.how = CFA_DEREF;
	r->now.cfa = offset;
}

static void reg_expression(struct run *r, uint64_t reg, struct eh_reader e)
{
	int64_t offset = 0;
	bool at_fp = read_breg(&e, REG_BP, &offset) && !offset && e.p == e.end;

	set_rule(r, reg, at_fp ? RULE_AT_FP : RULE_OTHER, 0);
}

static int64_t scaled(const struct run *r, uint64_t by)
{
	return (int64_t)(by * (uint64_t)r->frame->data_align);
}

static void define_cfa(struct run *r, uint64_t reg, int64_t cfa)
{
	r->now.how = CFA_REG;
	r->now.reg = reg;
	r->now.cfa = cfa;
}

/* Executes @op if it defines the CFA. Returns false if it does not. */
static bool step_cfa(struct run *r, struct eh_reader *i, uint8_t op)
{
	uint64_t reg = r->now.reg;

	switch (op) {
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
		reg = eh_read_leb(i, false);
		break;
	case DW_CFA_def_cfa_register:
		r->now.reg = eh_read_leb(i, false);
		return true;
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
		break;
	case DW_CFA_def_cfa_expression:
		cfa_expression(r, read_block(i));
		return true;
	default:
		return false;
	}
	if (op == DW_CFA_def_cfa_sf || op == DW_CFA_def_cfa_offset_sf)
		define_cfa(r, reg, scaled(r, eh_read_leb(i, true)));
	else
		define_cfa(r, reg, (int64_t)eh_read_leb(i, false));
	return true;
}

/* Executes @op if it is a rule for a register. Returns false if it is not. */
static bool step_reg(struct run *r, struct eh_reader *i, uint8_t op)
{
	uint64_t reg = eh_read_leb(i, false);

	switch (op) {
	case DW_CFA_offset_extended:
		set_rule(r, reg, RULE_OFFSET, scaled(r, eh_read_leb(i, false)));
		break;
	case DW_CFA_offset_extended_sf:
		set_rule(r, reg, RULE_OFFSET, scaled(r, eh_read_leb(i, true)));
		break;
	case DW_CFA_restore_extended:
		restore(r, reg);
		break;
	case DW_CFA_undefined:
		set_rule(r, reg, RULE_NONE, 0);
		break;
	case DW_CFA_same_value:
		set_rule(r, reg, RULE_SAME, 0);
		break;
	case DW_CFA_expression:
		reg_expression(r, reg, read_block(i));
		break;
	case DW_CFA_val_expression:
		read_block(i);
		set_rule(r, reg, RULE_OTHER, 0);
		break;
	case DW_CFA_register:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		eh_read_leb(i, false);
		set_rule(r, reg, RULE_OTHER, 0);
		break;
	default:
		return false;
	}
	return true;
}

static void remember(struct run *r, struct eh_reader *i)
{
	if (r->saved_cnt == SAVED_MAX)
		i->bad = true;
	else
		r->saved[r->saved_cnt++] = r->now;
}

static void recall(struct run *r, struct eh_reader *i)
{
	if (!r->saved_cnt)
		i->bad = true;
	else
		r->now = r->saved[--r->saved_cnt];
}

/* Executes one instruction. Sets .bad of @i if it is unknown. Returns 0 or -EFBIG. */
static int step(struct run *r, struct eh_reader *i)
{
	uint8_t op = eh_read_bytes(i, 1), low = op & 0x3f;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		return advance(r, low);
	case DW_CFA_offset:
		set_rule(r, low, RULE_OFFSET, scaled(r, eh_read_leb(i, false)));
		return 0;
	case DW_CFA_restore:
		restore(r, low);
		return 0;
	}
	switch (op) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_advance_loc1:
		return advance(r, eh_read_bytes(i, 1));
	case DW_CFA_advance_loc2:
		return advance(r, eh_read_bytes(i, 2));
	case DW_CFA_advance_loc4:
		return advance(r, eh_read_bytes(i, 4));
	case DW_CFA_remember_state:
		remember(r, i);
		return 0;
	case DW_CFA_restore_state:
		recall(r, i);
		return 0;
	case DW_CFA_GNU_args_size: /* only landing pads of exceptions need it */
		eh_read_leb(i, false);
		return 0;
	}
	if (!step_cfa(r, i, op) && !step_reg(r, i, op))
		i->bad = true;
	return 0;
}

/* Executes @from to @to. An unreadable instruction, and everything after it, is ignored. */
static int carry_out(struct run *r, const uint8_t *from, const uint8_t *to)
{
	struct eh_reader i = { .p = from, .end = to };
	int code = 0;

	while (!code && !i.bad && i.p < i.end && r->at < r->end) {
		if (r->m->steps++ == STEPS_MAX)
			return -EFBIG;
		code = step(r, &i);
	}
	if (i.bad)
		r->now.how = CFA_OTHER;
	return code;
}

/* Adds the rows of @frame, whose code ends at @end. */
static int make_rows(struct maker *m, const struct elf_frame *frame, uint64_t end)
{
	struct run r = {
		.m = m,
		.frame = frame,
		.at = frame->start,
		.end = end,
		.in_cie = true,
		.now = { .how = CFA_OTHER },
	};
	uint64_t first, last;
	int code;

	/* The code is not contiguous in the file, or its offset is too large for rows. */
	if (elf_file_addr_to_offset(m->f, frame->start, &first) ||
		elf_file_addr_to_offset(m->f, end - 1, &last) ||
		last - first != end - 1 - frame->start || last >= UINT32_MAX)
		return 0;
	r.offset = first - frame->start;
	close_gap(m, first);
	code = carry_out(&r, frame->first, frame->first_end);
	r.first = r.now;
	r.in_cie = false;
	if (!code)
		code = carry_out(&r, frame->insns, frame->insns_end);
	if (!code && r.at < end)
		code = add_rows(&r, end);
	return code ? code : add_row(m, last + 1, (struct fsn_unwind_row) {});
}

/* --- a file ------------------------------------------------------------------------------------ */

static int add_frame(const struct elf_frame *frame, void *arg)
{
	struct maker *m = arg;

	*array_add(m->frames, m->frame_cnt) = *frame;
	return 0;
}

DEFINE_ORDER(compare_frames, struct elf_frame, RISING(start) ?: RISING(end))

int unwind_rows_read(struct elf_file *f, struct unwind_rows *ret_rows, struct err *err)
{
	struct maker m = { .f = f, .to = ret_rows };
	int code;

	*ret_rows = (struct unwind_rows) {};
	if (elf_file_info(f)->arch != PLAN_X86_64)
		return 0;
	code = elf_file_frames(f, add_frame, &m);
	if (m.frame_cnt)
		qsort(m.frames, m.frame_cnt, sizeof(*m.frames), compare_frames);
	for (size_t i = 0; !code && i < m.frame_cnt; i++) {
		const struct elf_frame *frame = &m.frames[i];
		uint64_t end = frame->end;

		if (i + 1 < m.frame_cnt && end > frame[1].start)
			end = frame[1].start;
		if (end > frame->start)
			code = make_rows(&m, frame, end);
	}
	free(m.frames);
	return code ? err_sys(err, code, "cannot read .eh_frame of '%s'",
			      elf_file_info(f)->path)
		    : 0;
}

void unwind_rows_done(struct unwind_rows *r)
{
	free(r->rows);
	*r = (struct unwind_rows) {};
}
