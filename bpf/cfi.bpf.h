/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Unwind rows of a file without an unwind table: searches .eh_frame_hdr for the FDE of an address,
 * and executes the call frame instructions of its CIE and FDE up to that address. The row is the
 * same as that of lib/unwind/rows.c.
 *
 * All bytes come from pages_copy(), which never waits: pages.bpf.h reads the page cache, and
 * tests/cfi.h reads a file in memory, so that the same source is fuzzed and compared in user space.
 *
 * The work is cut into steps, because all of them together would exceed 512 bytes of stack and the
 * verifier's limit of instructions. A caller repeats cfi_run() and cfi_step() until .step is
 * CFI_MADE or CFI_FAILED. The cursor and the state are in memory instead of registers, because the
 * verifier would otherwise check each path through a step together with all steps after it.
 *
 * Hostile files: each read is within .window, each loop has a constant bound, and a file without an
 * end of its instructions fails with CFI_LONG.
 */
#pragma once

#include "shared/words.h"

#define CFI_WINDOW 512
#define CFI_MARGIN 128  /* a window with fewer bytes left in its page includes the next page */
#define CFI_OPS    64   /* instructions executed at once */
#define CFI_RUNS   128  /* and maximum number of such batches for one row */
#define CFI_OP_MAX 32   /* bytes of an instruction; blocks of expressions may be longer */
#define CFI_SAVED  8    /* depth of DW_CFA_remember_state, as in lib/unwind/rows.c */
#define CFI_PHDRS  32
#define CFI_FDE_MAX (1U << 20) /* bytes */
#define CFI_CIE_MAX 4096
#define CFI_SEARCH 26   /* steps of a binary search in 64 million functions */
#define CFI_ALIGN  16   /* FUNC_ALIGN of lib/unwind/rows.c */

#define CFI_FP 6 /* registers of x86-64 as DWARF numbers them */
#define CFI_SP 7

enum cfi_step {
	CFI_IDLE,
	CFI_LOOK, /* the caller looks up the cached row and file */
	CFI_ELF,
	CFI_HEAD,
	CFI_SEGMENT,
	CFI_SEARCHES,
	CFI_FRAME,
	CFI_CIE,
	CFI_BEGIN,
	CFI_RUN,
	CFI_LOAD, /* fills the window, before .after */
	CFI_MADE,
	CFI_FAILED,
};

/* Why there is no row. */
enum cfi_why {
	CFI_OK,
	CFI_NO_PAGE, /* pages.missing is not in memory */
	CFI_NO_HDR,  /* the file has no .eh_frame_hdr that can be searched */
	CFI_BAD,     /* .eh_frame is damaged or not supported */
	CFI_LONG,    /* too many instructions */
};

enum { CFI_RULE_SAME, CFI_RULE_OFFSET, CFI_RULE_AT_FP, CFI_RULE_NONE, CFI_RULE_OTHER };
enum { CFI_CFA_OTHER, CFI_CFA_REG, CFI_CFA_DEREF, CFI_CFA_STUB };

struct cfi_state {
	__u8 how, reg, fp, ret; /* CFI_CFA_..., register, CFI_RULE_... */
	__s32 cfa, fp_offset, ret_offset;
};

/* Cached data of a file. */
enum { CFI_FILE_READ = 1, CFI_FILE_NO_HDR };
struct cfi_file {
	__u64 start, end; /* offsets of the segment with the code */
	__u64 delta;      /* its addresses minus its offsets */
	__u64 hdr, hdr_addr;
	__u64 table;      /* offset of the search table in .eh_frame_hdr */
	__u64 eh_addr, eh_delta; /* of .eh_frame, the same */
	__u32 cnt, state;
};

struct cfi_segment {
	__u32 type, flags;
	__u64 off, addr, size; /* in the file */
};

/* Includes variables that would be local: nested BPF functions share 512 bytes of stack. */
struct cfi {
	__u32 step, why;
	__u32 low, high;   /* of the search */
	__s32 search, pad;
	__u64 phdr, phdr_cnt; /* offset and number of program headers */
	struct cfi_segment segment;
	__u32 runs;  /* of this row */
	__u32 total; /* of all rows of a walk */
	__u64 want, need; /* offset to be loaded, and that up to which bytes are required */
	__u64 after;
	__u64 p, leb_bits; /* cursor in .window */
	__u64 off, at;     /* location of the row: offset and address in the file */
	__u64 fde, fde_end, fde_start, next; /* .next: start of the next FDE's code */
	__u64 cie, cie_end;
	__u64 loc, pos, stop;
	__u64 from, bytes; /* offset of .window in the file, and its valid bytes */
	__u64 row;
	__u64 code_align;
	__s64 data_align;
	__u64 ret_reg;
	__u32 saved_cnt;
	__u8 enc, is_signal, has_z, in_cie;
	__u8 has_code, has_hdr; /* their program headers were found */
	struct file_pages pages;
	struct cfi_file file;
	struct cfi_state now, first, saved[CFI_SAVED];
	__u8 window[CFI_WINDOW];
};

static __always_inline void cfi_fail(struct cfi *c, enum cfi_why why)
{
	c->why = why;
	c->step = CFI_FAILED;
}

/* Schedules a fill of the window from @off on, with at least @need bytes, before step @after. */
static __always_inline void cfi_want(struct cfi *c, __u64 off, __u64 need, enum cfi_step after)
{
	c->want = off;
	c->need = off + need;
	c->after = after;
	c->step = CFI_LOAD;
}

/* --- bytes ------------------------------------------------------------------------------------ */

#define CFI_BYTE(c, p) ((c)->window[(p) & (CFI_WINDOW - 1)])
#define CFI_HALF(c, p) ((__u32)CFI_BYTE(c, p) | (__u32)CFI_BYTE(c, (p) + 1) << 8)
#define CFI_WORD(c, p) (CFI_HALF(c, p) | CFI_HALF(c, (p) + 2) << 16)
#define CFI_LONG_WORD(c, p) (CFI_WORD(c, p) | (__u64)CFI_WORD(c, (p) + 4) << 32)

/*
 * CFI_LOAD: fills the window as cfi_want() requested. Includes bytes of the next page if few are
 * left in the first one.
 */
__noinline int cfi_load(struct cfi *c)
{
	__u64 off, n;

	if (!fsn_cfi || !c)
		return 0;
	off = c->want;
	n = 4096 - (off & 4095);
	if (n > CFI_WINDOW)
		n = CFI_WINDOW;
	c->bytes = 0;
	c->from = off;
	if (pages_copy(&c->pages, off, c->window, n))
		goto missing;
	c->bytes = n;
	if (n < CFI_MARGIN) {
		/* The verifier of 6.1 has lost this bound. */
		asm volatile("" : "+r"(n));
		n &= CFI_MARGIN - 1;
		if (pages_copy(&c->pages, off + n, c->window + n, CFI_WINDOW - CFI_MARGIN)) {
			if (c->need > off + n)
				goto missing;
		} else {
			c->bytes = n + CFI_WINDOW - CFI_MARGIN;
		}
	}
	c->step = c->after;
	return 0;
missing:
	cfi_fail(c, CFI_NO_PAGE);
	return 0;
}

/* Reads one word of a table; discards the content of the window. */
static __always_inline __s32 cfi_word_at(struct cfi *c, __u64 off)
{
	c->bytes = 0;
	if (pages_copy(&c->pages, off, c->window, 4)) {
		cfi_fail(c, CFI_NO_PAGE);
		return 0;
	}
	return *(__s32 *)c->window;
}

__noinline __u64 cfi_leb_long(struct cfi *c)
{
	__u64 value = 0, p;
	__u32 shift = 0;
	__u8 b = 0;

	if (!fsn_cfi || !c)
		return 0;
	p = c->p;
	for (int i = 0; i < 9; i++) {
		b = CFI_BYTE(c, p + i);
		value |= (__u64)(b & 127) << shift;
		shift += 7;
		c->p++;
		if (!(b & 128))
			break;
	}
	c->leb_bits = b & 64 ? shift : 63;
	return value;
}

/* Reads the LEB128 at .p, and moves .p past it. */
static __always_inline __u64 cfi_leb(struct cfi *c, bool is_signed)
{
	__u64 b = CFI_BYTE(c, c->p), value;

	if (!(b & 128)) {
		c->p++;
		return is_signed ? (__u64)((__s64)(b << 57) >> 57) : b;
	}
	value = cfi_leb_long(c);
	if (is_signed && c->leb_bits < 63)
		value |= ~0ULL << (c->leb_bits & 63);
	return value;
}

/* The same, multiplied by the CIE's data alignment factor. */
static __always_inline __s64 cfi_scaled(struct cfi *c, bool is_signed)
{
	return (__s64)(cfi_leb(c, is_signed) * (__u64)c->data_align);
}

/* --- the file --------------------------------------------------------------------------------- */

#define CFI_PT_LOAD     1
#define CFI_PT_EH_FRAME 0x6474e550
#define CFI_PF_X        1

/* Finds the program headers, which linkers put in the first page. */
static __always_inline int cfi_headers(struct cfi *c)
{
	if (pages_copy(&c->pages, 0, c->window, 64)) {
		cfi_fail(c, CFI_NO_PAGE);
		return -1;
	}
	/* ELFMAG, ELFCLASS64, EM_X86_64, e_phentsize */
	if (CFI_WORD(c, 0) != 0x464c457f || CFI_BYTE(c, 4) != 2 || CFI_HALF(c, 18) != 62 ||
		CFI_HALF(c, 54) != 56) {
		cfi_fail(c, CFI_NO_HDR);
		return -1;
	}
	c->phdr = CFI_LONG_WORD(c, 32);
	c->phdr_cnt = CFI_HALF(c, 56);
	return 0;
}

/* Reads the next program header into .segment. Its cursor is in memory: the stack is too small. */
static __always_inline int cfi_segment(struct cfi *c)
{
	if (!c->phdr_cnt || c->phdr > 4096 - 56 || pages_copy(&c->pages, c->phdr, c->window, 56))
		return -1;
	c->phdr += 56;
	c->phdr_cnt--;
	c->segment.type = CFI_WORD(c, 0);
	c->segment.flags = CFI_WORD(c, 4);
	c->segment.off = CFI_LONG_WORD(c, 8);
	c->segment.addr = CFI_LONG_WORD(c, 16);
	c->segment.size = CFI_LONG_WORD(c, 32);
	return 0;
}

/* CFI_ELF: finds the segment with the code and that of .eh_frame_hdr. */
__noinline int cfi_elf(struct cfi *c)
{
	if (!fsn_cfi || !c)
		return 0;
	c->file.state = CFI_FILE_NO_HDR;
	c->has_code = c->has_hdr = 0;
	if (cfi_headers(c))
		return 0;
	for (int i = 0; i < CFI_PHDRS; i++) {
		if (cfi_segment(c))
			break;
		if (c->segment.type == CFI_PT_LOAD && c->segment.flags & CFI_PF_X &&
			c->off - c->segment.off < c->segment.size) {
			c->file.start = c->segment.off;
			c->file.end = c->segment.off + c->segment.size;
			c->file.delta = c->segment.addr - c->segment.off;
			c->has_code = 1;
		}
		if (c->segment.type == CFI_PT_EH_FRAME) {
			c->file.hdr = c->segment.off;
			c->file.hdr_addr = c->segment.addr;
			c->has_hdr = 1;
		}
	}
	/* No word of an aligned table crosses a page. */
	if (!c->has_code || !c->has_hdr || c->file.hdr & 3)
		cfi_fail(c, CFI_NO_HDR);
	else
		cfi_want(c, c->file.hdr, 16, CFI_HEAD);
	return 0;
}

/* CFI_HEAD: reads .eh_frame_hdr; only the encoding that linkers use is supported. */
static __always_inline int cfi_head(struct cfi *c)
{
	/* Version 1; pcrel | sdata4; udata4; datarel | sdata4. */
	if (CFI_BYTE(c, 0) != 1 || CFI_BYTE(c, 1) != 0x1b || CFI_BYTE(c, 2) != 0x03 ||
		CFI_BYTE(c, 3) != 0x3b) {
		cfi_fail(c, CFI_NO_HDR);
		return 0;
	}
	c->file.cnt = CFI_WORD(c, 8);
	c->file.table = c->file.hdr + 12;
	c->file.eh_addr = c->file.hdr_addr + 4 + (__s32)CFI_WORD(c, 4);
	c->step = CFI_SEGMENT;
	return 0;
}

/* Old linkers put .eh_frame into another segment than .eh_frame_hdr. */
__noinline int cfi_find_frames(struct cfi *c)
{
	if (!fsn_cfi || !c || cfi_headers(c))
		return 0;
	for (int i = 0; i < CFI_PHDRS; i++) {
		if (cfi_segment(c))
			break;
		if (c->segment.type == CFI_PT_LOAD &&
			c->file.eh_addr - c->segment.addr < c->segment.size) {
			c->file.eh_delta = c->segment.addr - c->segment.off;
			c->file.state = CFI_FILE_READ;
			c->step = CFI_SEARCHES;
			return 0;
		}
	}
	cfi_fail(c, CFI_NO_HDR);
	return 0;
}

/* --- the FDE ---------------------------------------------------------------------------------- */

static __always_inline void cfi_made(struct cfi *c, enum fsn_unwind how)
{
	c->row = (__u64)how << 32;
	c->step = CFI_MADE;
}

/* CFI_SEARCHES: binary search in .eh_frame_hdr for the FDE of the address. */
__noinline int cfi_search(struct cfi *c)
{
	__u32 mid;

	if (!fsn_cfi || !c)
		return 0;
	c->at = c->off + c->file.delta;
	c->search = (__s32)(c->at - c->file.hdr_addr);
	c->low = 0;
	c->high = c->file.cnt;
	/* [low, high) narrows down to the first function that starts after the address. */
	for (int i = 0; i < CFI_SEARCH; i++) {
		if (c->low >= c->high)
			break;
		mid = c->low + (c->high - c->low) / 2;
		if (cfi_word_at(c, c->file.table + 8ULL * mid) <= c->search)
			c->low = mid + 1;
		else
			c->high = mid;
		if (c->why)
			return 0;
	}
	c->next = ~0ULL;
	if (c->low < c->file.cnt)
		c->next = c->file.hdr_addr + cfi_word_at(c, c->file.table + 8ULL * c->low);
	if (c->why)
		return 0;
	if (c->low != c->high) {
		cfi_fail(c, CFI_BAD);
		return 0;
	}
	if (!c->low) {
		cfi_made(c, FSN_UNWIND_NONE);
		return 0;
	}
	c->low--;
	c->fde_start = c->file.hdr_addr + cfi_word_at(c, c->file.table + 8ULL * c->low);
	c->fde = c->file.hdr_addr + cfi_word_at(c, c->file.table + 8ULL * c->low + 4) -
		c->file.eh_delta;
	if (!c->why)
		cfi_want(c, c->fde, 16, CFI_FRAME);
	return 0;
}

/* CFI_FRAME: reads the length and the CIE of the FDE. */
static __always_inline int cfi_frame(struct cfi *c)
{
	__u32 len = CFI_WORD(c, 0), cie = CFI_WORD(c, 4);

	if (len < 12 || !cie) {
		cfi_fail(c, CFI_BAD);
		return 0;
	}
	if (len > CFI_FDE_MAX) {
		cfi_fail(c, CFI_LONG);
		return 0;
	}
	c->fde_end = c->fde + 4 + len;
	c->cie = c->fde + 4 - cie;
	cfi_want(c, c->cie, 64, CFI_CIE);
	return 0;
}

/* Returns the size of a pointer in the encoding @enc (DW_EH_PE_...); 0: not supported. */
static __always_inline __u32 cfi_enc_size(__u8 enc)
{
	switch (enc & 0x0f) {
	case 0x02:
	case 0x0a:
		return 2;
	case 0x03:
	case 0x0b:
		return 4;
	case 0x00:
	case 0x04:
	case 0x0c:
		return 8;
	}
	return 0;
}

#define CFI_AUG 9 /* offset of the augmentation string */

/* Reads the data of letter @i of that string, at .p. Returns the letter. */
__noinline int cfi_letter(struct cfi *c, __u64 i)
{
	__u32 size;
	__u8 letter;

	if (!fsn_cfi || !c)
		return 0;
	letter = CFI_BYTE(c, CFI_AUG + i);
	switch (letter) {
	case 'R':
		c->enc = CFI_BYTE(c, c->p);
		c->p++;
		break;
	case 'L':
		c->p++;
		break;
	case 'P':
		size = cfi_enc_size(CFI_BYTE(c, c->p));
		c->p += 1 + size;
		if (!size)
			c->why = CFI_BAD;
		break;
	case 'S':
		c->is_signal = 1;
		break;
	case '\0':
	case 'B':
		break;
	default:
		c->why = CFI_BAD;
	}
	return letter;
}

/* Reads the augmentation data. Then the CIE's instructions start at .p. */
static __always_inline void cfi_augmentation(struct cfi *c)
{
	__u64 bytes = cfi_leb(c, false), after = c->p + bytes;

	for (__u64 i = 1; i < 8; i++)
		if (!cfi_letter(c, i))
			break;
	c->p = after;
}

/* CFI_CIE: reads the CIE, and prepares its initial instructions. */
__noinline int cfi_cie(struct cfi *c)
{
	__u64 len, i;
	__u8 version;

	if (!fsn_cfi || !c)
		return 0;
	len = CFI_WORD(c, 0);
	version = CFI_BYTE(c, 8);
	c->cie_end = c->cie + 4 + len;
	c->has_z = CFI_BYTE(c, CFI_AUG) == 'z';
	if (len > CFI_CIE_MAX || CFI_WORD(c, 4) || (version != 1 && version != 3) ||
		(!c->has_z && CFI_BYTE(c, CFI_AUG))) {
		cfi_fail(c, CFI_BAD);
		return 0;
	}
	for (i = 0; i < 8; i++)
		if (!CFI_BYTE(c, CFI_AUG + i))
			break;
	c->p = CFI_AUG + i + 1;
	c->code_align = cfi_leb(c, false);
	c->data_align = (__s64)cfi_leb(c, true);
	if (version == 1) {
		c->ret_reg = CFI_BYTE(c, c->p);
		c->p++;
	} else {
		c->ret_reg = cfi_leb(c, false);
	}
	c->enc = 0;
	c->is_signal = 0;
	if (c->has_z)
		cfi_augmentation(c);
	if (c->why || !cfi_enc_size(c->enc)) {
		cfi_fail(c, CFI_BAD);
		return 0;
	}
	c->pos = c->cie + c->p;
	c->stop = c->cie_end;
	c->in_cie = 1;
	c->runs = 0;
	c->saved_cnt = 0;
	__builtin_memset(&c->now, 0, sizeof(c->now));
	c->first = c->now; /* a CIE may restore registers */
	c->loc = c->fde_start;
	c->step = CFI_RUN;
	return 0;
}

/* Start address of the code of the FDE in the window. */
static __always_inline __u64 cfi_fde_pc(const struct cfi *c, __u32 size)
{
	__u64 pc = size == 8 ? CFI_LONG_WORD(c, 8) : size == 4 ? CFI_WORD(c, 8) : CFI_HALF(c, 8);

	if (c->enc & 8 && size == 4)
		pc = (__u64)(__s32)pc;
	else if (c->enc & 8 && size == 2)
		pc = (__u64)(__s16)pc;
	return c->enc & 0x10 ? pc + c->fde + 8 + c->file.eh_delta : pc;
}

/* Starts the instructions of the FDE, after those of the CIE. */
__noinline int cfi_begin(struct cfi *c)
{
	__u64 range, end, bytes;
	__u32 size;

	if (!fsn_cfi || !c)
		return 0;
	c->first = c->now;
	size = cfi_enc_size(c->enc);
	range = size == 8 ? CFI_LONG_WORD(c, 16) : size == 4 ? CFI_WORD(c, 12) : CFI_HALF(c, 10);
	/* The search table does not match this .eh_frame. */
	if (c->enc & 0x60 || cfi_fde_pc(c, size) != c->fde_start) {
		cfi_fail(c, CFI_BAD);
		return 0;
	}
	end = c->fde_start + range;
	if (end > c->next)
		end = c->next;
	if (c->at >= end) {
		/* Like close_gap() of lib/unwind/rows.c. */
		cfi_made(c, c->next != ~0ULL && c->next - end < CFI_ALIGN ? FSN_UNWIND_END
									 : FSN_UNWIND_NONE);
		return 0;
	}
	c->p = 8 + 2 * size;
	if (c->has_z) {
		bytes = cfi_leb(c, false);
		c->p += bytes;
	}
	c->pos = c->fde + c->p;
	c->stop = c->fde_end;
	c->in_cie = 0;
	c->step = CFI_RUN;
	return 0;
}

/* --- instructions ----------------------------------------------------------------------------- */

/* Sets the rule of the frame pointer or the return address; other registers do not matter. */
static __always_inline void cfi_rule(struct cfi *c, __u64 reg, __u8 rule, __s64 offset)
{
	/* An offset of more than 32 bits is not supported. */
	if (offset != (__s32)offset)
		rule = CFI_RULE_OTHER;
	if (reg == CFI_FP) {
		c->now.fp = rule;
		c->now.fp_offset = (__s32)offset;
	} else if (reg == c->ret_reg) {
		c->now.ret = rule;
		c->now.ret_offset = (__s32)offset;
	}
}

static __always_inline void cfi_restore(struct cfi *c, __u64 reg)
{
	if (reg == CFI_FP) {
		c->now.fp = c->first.fp;
		c->now.fp_offset = c->first.fp_offset;
	} else if (reg == c->ret_reg) {
		c->now.ret = c->first.ret;
		c->now.ret_offset = c->first.ret_offset;
	}
}

static __always_inline void cfi_set_cfa(struct cfi *c, __u64 reg, __s64 cfa)
{
	c->now.reg = reg > 255 ? 255 : (__u8)reg;
	c->now.cfa = (__s32)cfa;
	c->now.how = cfa == (__s32)cfa ? CFI_CFA_REG : CFI_CFA_OTHER;
}

/* CFA by the expression of @size bytes at @p: in linker stubs, and with realigned stacks. */
static __always_inline int cfi_expression(struct cfi *c, __u64 p, __u64 size)
{
	c->now.how = CFI_CFA_OTHER;
	/* breg7 8; breg16 0; lit15; and; litN; ge; lit3; shl; plus */
	if (size == 11 && CFI_BYTE(c, p) == 0x77 && CFI_BYTE(c, p + 1) == 8 &&
		CFI_BYTE(c, p + 2) == 0x80 && !CFI_BYTE(c, p + 3) && CFI_BYTE(c, p + 4) == 0x3f &&
		CFI_BYTE(c, p + 5) == 0x1a && CFI_BYTE(c, p + 7) == 0x2a &&
		CFI_BYTE(c, p + 8) == 0x33 && CFI_BYTE(c, p + 9) == 0x24 &&
		CFI_BYTE(c, p + 10) == 0x22) {
		c->now.cfa = CFI_BYTE(c, p + 6) - 0x30;
		if (c->now.cfa > 0 && c->now.cfa < 16)
			c->now.how = CFI_CFA_STUB;
		return 0;
	}
	/* breg6 N; deref */
	if (CFI_BYTE(c, p) != 0x76)
		return 0;
	c->p = p + 1;
	c->now.cfa = (__s32)cfi_leb(c, true);
	if (CFI_BYTE(c, c->p) == 0x06 && c->p + 1 == p + size)
		c->now.how = CFI_CFA_DEREF;
	c->p = p;
	return 0;
}

/* Executes an instruction whose first operand is a register. Returns -1 for others. */
static __always_inline int cfi_op_reg(struct cfi *c, __u8 op)
{
	__u64 reg = cfi_leb(c, false), value;

	switch (op) {
	case 0x0c: /* DW_CFA_def_cfa */
		cfi_set_cfa(c, reg, (__s64)cfi_leb(c, false));
		return 0;
	case 0x12: /* def_cfa_sf */
		cfi_set_cfa(c, reg, cfi_scaled(c, true));
		return 0;
	case 0x0d: /* def_cfa_register */
		c->now.reg = reg > 255 ? 255 : (__u8)reg;
		return 0;
	case 0x05: /* offset_extended */
		cfi_rule(c, reg, CFI_RULE_OFFSET, cfi_scaled(c, false));
		return 0;
	case 0x11: /* offset_extended_sf */
		cfi_rule(c, reg, CFI_RULE_OFFSET, cfi_scaled(c, true));
		return 0;
	case 0x06: /* restore_extended */
		cfi_restore(c, reg);
		return 0;
	case 0x07: /* undefined */
		cfi_rule(c, reg, CFI_RULE_NONE, 0);
		return 0;
	case 0x08: /* same_value */
		cfi_rule(c, reg, CFI_RULE_SAME, 0);
		return 0;
	case 0x10: /* expression */
		value = cfi_leb(c, false);
		cfi_rule(c, reg,
			value == 2 && CFI_BYTE(c, c->p) == 0x76 && !CFI_BYTE(c, c->p + 1)
				? CFI_RULE_AT_FP
				: CFI_RULE_OTHER,
			0);
		c->p += value;
		return 0;
	case 0x16: /* val_expression */
		value = cfi_leb(c, false);
		c->p += value;
		cfi_rule(c, reg, CFI_RULE_OTHER, 0);
		return 0;
	case 0x09: /* register, */
	case 0x14: /* val_offset */
	case 0x15: /* and val_offset_sf */
		cfi_leb(c, false);
		cfi_rule(c, reg, CFI_RULE_OTHER, 0);
		return 0;
	}
	return -1;
}

/* The same for other instructions that do not advance the location. */
static __always_inline int cfi_op_plain(struct cfi *c, __u8 op)
{
	__u64 value;

	switch (op) {
	case 0x00: /* DW_CFA_nop */
		return 0;
	case 0x0a: /* remember_state */
		if (c->saved_cnt >= CFI_SAVED)
			return -1;
		c->saved[c->saved_cnt & (CFI_SAVED - 1)] = c->now;
		c->saved_cnt++;
		return 0;
	case 0x0b: /* restore_state */
		if (!c->saved_cnt)
			return -1;
		c->saved_cnt--;
		c->now = c->saved[c->saved_cnt & (CFI_SAVED - 1)];
		return 0;
	case 0x0e: /* def_cfa_offset */
		cfi_set_cfa(c, c->now.reg, (__s64)cfi_leb(c, false));
		return 0;
	case 0x13: /* def_cfa_offset_sf */
		cfi_set_cfa(c, c->now.reg, cfi_scaled(c, true));
		return 0;
	case 0x2e: /* GNU_args_size */
		cfi_leb(c, false);
		return 0;
	case 0x0f: /* def_cfa_expression */
		value = cfi_leb(c, false);
		if (c->p + value <= c->bytes)
			cfi_expression(c, c->p, value);
		else
			c->now.how = CFI_CFA_OTHER;
		c->p += value;
		return 0;
	}
	return cfi_op_reg(c, op);
}

/* Returns by how much @op advances the location, or -1 for other instructions. */
static __always_inline __s64 cfi_op_advance(struct cfi *c, __u8 op)
{
	__u64 by;

	if (op >> 6 == 1)
		return op & 63;
	switch (op) {
	case 0x02: /* DW_CFA_advance_loc1 */
		by = CFI_BYTE(c, c->p);
		c->p += 1;
		return (__s64)by;
	case 0x03: /* _loc2 */
		by = CFI_HALF(c, c->p);
		c->p += 2;
		return (__s64)by;
	case 0x04: /* _loc4 */
		by = CFI_WORD(c, c->p);
		c->p += 4;
		return (__s64)by;
	}
	return -1;
}

/* True if the window has all bytes of the instruction at .pos, up to the end of the program. */
static __always_inline bool cfi_has_op(const struct cfi *c)
{
	__u64 filled = c->from + c->bytes;

	return c->pos >= c->from && c->pos < filled &&
		(c->pos + CFI_OP_MAX <= filled || filled >= c->stop);
}

/* Executes the instruction at .pos. Returns true if another one follows. */
__noinline int cfi_op(struct cfi *c)
{
	int bad = 0;
	__s64 by;
	__u8 op;

	if (!fsn_cfi || !c || c->pos >= c->stop)
		return 0;
	if (!cfi_has_op(c)) {
		by = (__s64)(c->stop - c->pos);
		cfi_want(c, c->pos, by < CFI_OP_MAX ? by : CFI_OP_MAX, CFI_RUN);
		return 0;
	}
	c->p = c->pos - c->from;
	op = CFI_BYTE(c, c->p);
	c->p++;
	by = cfi_op_advance(c, op);
	if (by > 0 && !c->in_cie)
		c->loc += (__u64)by * c->code_align;
	else if (by < 0 && op >> 6 == 2)
		cfi_rule(c, op & 63, CFI_RULE_OFFSET, cfi_scaled(c, false));
	else if (by < 0 && op >> 6 == 3)
		cfi_restore(c, op & 63);
	else if (by < 0)
		bad = cfi_op_plain(c, op);
	c->pos = c->from + c->p;
	/* The CFA is unknown after an unsupported instruction. */
	if (bad || c->pos > c->stop) {
		c->now.how = CFI_CFA_OTHER;
		c->pos = c->stop;
		return 0;
	}
	/* The row is the state before this location. */
	if (c->loc > c->at)
		c->pos = c->stop;
	return c->pos < c->stop;
}

/* --- the row ---------------------------------------------------------------------------------- */

static __always_inline __u64 cfi_row(enum fsn_unwind how, __s8 fp, __u16 cfa)
{
	return (__u64)how << 32 | (__u64)(__u8)fp << 40 | (__u64)cfa << 48;
}

static __always_inline bool cfi_fits(__s64 offset, __s64 most)
{
	return offset >= 0 && !(offset & 7) && offset / 8 <= most;
}

/* Like row_of() of lib/unwind/rows.c. */
static __always_inline __u64 cfi_row_of(const struct cfi *c)
{
	const struct cfi_state *s = &c->now;
	const __u64 lost = cfi_row(FSN_UNWIND_LOST, 0, 0);
	enum fsn_unwind how = FSN_UNWIND_SP;
	__s64 cfa = s->cfa;

	if (c->is_signal)
		return cfi_row(FSN_UNWIND_SIGNAL, 0, 0);
	if (s->ret == CFI_RULE_NONE)
		return cfi_row(FSN_UNWIND_END, 0, 0);
	if (s->ret != CFI_RULE_OFFSET || s->ret_offset != -8)
		return lost;
	if (s->how == CFI_CFA_DEREF)
		return s->fp == CFI_RULE_AT_FP && cfi_fits(-cfa, 65535)
			? cfi_row(FSN_UNWIND_DEREF, 0, (__u16)(-cfa >> 3))
			: lost;
	if (s->how == CFI_CFA_STUB) {
		cfa = (__s64)(c->at & 15) >= cfa ? 16 : 8;
	} else {
		if (s->how != CFI_CFA_REG || (s->reg != CFI_SP && s->reg != CFI_FP) ||
			!cfi_fits(cfa, 65535))
			return lost;
		if (s->reg == CFI_FP)
			how = FSN_UNWIND_FP;
	}
	if (s->fp == CFI_RULE_SAME || s->fp == CFI_RULE_NONE)
		return cfi_row(how, 0, (__u16)(cfa >> 3));
	if (s->fp != CFI_RULE_OFFSET || s->fp_offset >= 0 || !cfi_fits(-(__s64)s->fp_offset, 128))
		return lost;
	return cfi_row(how, (__s8)(s->fp_offset / 8), (__u16)(cfa >> 3));
}

/* --- steps ------------------------------------------------------------------------------------ */

/* CFI_RUN: executes a batch of instructions. Not in cfi_step(), which would nest calls too deeply. */
__noinline int cfi_run(struct cfi *c)
{
	if (!fsn_cfi || !c || c->step != CFI_RUN)
		return 0;
	for (int i = 0; i < CFI_OPS; i++)
		if (!cfi_op(c))
			break;
	c->total++;
	if (c->step != CFI_RUN)
		return 0;
	if (c->pos < c->stop) {
		if (c->runs++ >= CFI_RUNS)
			cfi_fail(c, CFI_LONG);
		return 0;
	}
	if (c->in_cie) {
		cfi_want(c, c->fde, 40, CFI_BEGIN);
		if (c->need > c->fde_end)
			c->need = c->fde_end;
		return 0;
	}
	c->row = cfi_row_of(c);
	c->step = CFI_MADE;
	return 0;
}

/* Executes one of the other steps. */
__noinline int cfi_step(struct cfi *c)
{
	if (!fsn_cfi || !c)
		return 0;
	switch (c->step) {
	case CFI_ELF:
		return cfi_elf(c);
	case CFI_HEAD:
		return cfi_head(c);
	case CFI_SEGMENT:
		return cfi_find_frames(c);
	case CFI_SEARCHES:
		return cfi_search(c);
	case CFI_FRAME:
		return cfi_frame(c);
	case CFI_CIE:
		return cfi_cie(c);
	case CFI_BEGIN:
		return cfi_begin(c);
	case CFI_LOAD:
		return cfi_load(c);
	}
	return 0;
}
