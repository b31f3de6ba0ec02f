// SPDX-License-Identifier: BSD-2-Clause
// What .eh_frame says of functions' frames; and the numbers and pointers that it has.
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>

#include "internal.h"

/* --- numbers and pointers ---------------------------------------------------------------------- */

uint64_t eh_read_bytes(struct eh_reader *r, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < n) {
		r->bad = true;
		r->p = r->end;
		return 0;
	}
	/* Nearly all are single bytes, millions of them: that is no call. */
	if (n == 1)
		v = *r->p;
	else
		memcpy(&v, r->p, n);
	r->p += n;
	return v;
}

uint64_t eh_read_leb(struct eh_reader *r, bool is_signed)
{
	unsigned int shift = 0;
	uint64_t v = 0;
	uint8_t b;

	do {
		b = eh_read_bytes(r, 1);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
		r->bad |= shift > 70;
	} while ((b & 0x80) && !r->bad);
	if (is_signed && shift < 64 && (b & 0x40))
		v |= ~0ull << shift;
	return v;
}

uint64_t eh_read_value(struct eh_reader *r, uint8_t format)
{
	switch (format) {
	case PE_ULEB128:
		return eh_read_leb(r, false);
	case PE_SLEB128:
		return eh_read_leb(r, true);
	case PE_UDATA2:
		return eh_read_bytes(r, 2);
	case PE_SDATA2:
		return (int64_t)(int16_t)eh_read_bytes(r, 2);
	case PE_UDATA4:
		return eh_read_bytes(r, 4);
	case PE_SDATA4:
		return (int64_t)(int32_t)eh_read_bytes(r, 4);
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return eh_read_bytes(r, 8);
	default:
		r->bad = true;
		return 0;
	}
}

uint64_t eh_read_pointer(struct eh_reader *r, uint8_t encoding)
{
	uint64_t here = r->addr + (r->p - r->base);
	uint64_t v = eh_read_value(r, encoding & 0x0f);

	switch (encoding & 0x70) {
	case 0:
		return v;
	case PE_PCREL:
		return v + here;
	default: /* relative to text or data: of object files, not of linked ones */
		r->bad = true;
		return 0;
	}
}

/* --- frames ------------------------------------------------------------------------------------ */

/* What a CIE says of how its FDEs are written. */
struct cie {
	uint8_t addrs; /* the encoding of their addresses; PE_OMIT: they can't be read */
	uint8_t lsda;  /* of where their tables of landing pads lie, or PE_OMIT */
	bool augmented, signal;
};

static struct cie cie_of(const Dwarf_CIE *from)
{
	const struct cie unknown = { .addrs = PE_OMIT };
	struct cie cie = { .addrs = PE_ABSPTR, .lsda = PE_OMIT };
	struct eh_reader r = { .p = from->augmentation_data };
	const char *aug = from->augmentation;

	if (aug[0] != 'z')
		return aug[0] ? unknown : cie;
	cie.augmented = true;
	r.base = r.p;
	r.end = r.p + from->augmentation_data_size;
	for (aug++; *aug && !r.bad; aug++) {
		uint8_t personality;

		switch (*aug) {
		case 'R':
			cie.addrs = eh_read_bytes(&r, 1);
			break;
		case 'L':
			cie.lsda = eh_read_bytes(&r, 1);
			break;
		case 'P':
			personality = eh_read_bytes(&r, 1);
			eh_read_value(&r, personality & 0x0f);
			break;
		case 'S':
			cie.signal = true;
			break;
		default: /* B, G: marks without data */
			break;
		}
	}
	return r.bad ? unknown : cie;
}

/*
 * Where the table of landing pads of an FDE lies, behind whose range @fde is; 0: it has none.
 * Then @fde is at its instructions.
 */
static uint64_t read_lsda(struct eh_reader *fde, const struct cie *cie)
{
	uint64_t size = cie->augmented ? eh_read_leb(fde, false) : 0, lsda, here;
	const uint8_t *insns = fde->p;

	if (size > (uint64_t)(fde->end - fde->p))
		fde->bad = true;
	if (fde->bad || !size)
		return 0;
	insns += size;
	here = fde->addr + (fde->p - fde->base);
	lsda = cie->lsda == PE_OMIT ? 0 : eh_read_pointer(fde, cie->lsda);
	fde->p = insns;
	if (!fde->bad && cie->lsda == PE_OMIT)
		return 0;
	if (fde->bad || cie->lsda & PE_INDIRECT) {
		fde->bad = false;
		return PLAN_LSDA_UNREADABLE;
	}
	/* 0, relative or not, stands for none */
	return (cie->lsda & 0x70) == PE_PCREL && lsda == here ? 0 : lsda;
}

/* Whether @frame is then that of the FDE whose content @fde is, with all that it says. */
static bool read_fde(struct eh_reader *fde, const struct cie *cie, struct elf_frame *frame)
{
	uint64_t size;

	frame->start = eh_read_pointer(fde, cie->addrs);
	size = eh_read_value(fde, cie->addrs & 0x0f);
	frame->end = frame->start + size;
	if (fde->bad || !size || frame->end < frame->start)
		return false;
	frame->signal = cie->signal;
	frame->lsda = read_lsda(fde, cie);
	frame->insns = fde->bad ? fde->end : fde->p;
	frame->insns_end = fde->end;
	return true;
}

static void read_cie(const Dwarf_CIE *from, struct cie *cie, struct elf_frame *frame)
{
	*cie = cie_of(from);
	frame->code_align = from->code_alignment_factor;
	frame->data_align = from->data_alignment_factor;
	frame->ret_reg = from->return_address_register;
	frame->first = from->initial_instructions;
	frame->first_end = from->initial_instructions_end;
}

/*
 * libdw goes from entry to entry. It is given bytes that are known to be there, and steps over
 * what it can't read where the length of that is sound.
 */
static int read_entries(
	const struct elf_file *f, struct eh_reader r, elf_frame_fn each, void *arg)
{
	Elf_Data bytes = { .d_buf = (void *)(uintptr_t)r.base, .d_size = r.end - r.base };
	Dwarf_Off at, cie_at = DW_CIE_ID_64, next = 0, ignored;
	struct cie cie = { .addrs = PE_OMIT };
	struct elf_frame frame = { 0 };
	Dwarf_CFI_Entry e, of;
	uint64_t offset;
	size_t cnt = 0;
	int ret = 0, code;

	while (ret <= 0 && cnt < ELF_MAX_FDES) {
		at = next;
		ret = dwarf_next_cfi(f->mem.bytes, &bytes, true, at, &next, &e);
		if (ret < 0 && next == at)
			return 0;
		if (ret || dwarf_cfi_cie_p(&e))
			continue;
		if (e.fde.CIE_pointer != cie_at) {
			cie_at = e.fde.CIE_pointer;
			cie.addrs = PE_OMIT;
			if (!dwarf_next_cfi(
				    f->mem.bytes, &bytes, true, cie_at, &ignored, &of) &&
				dwarf_cfi_cie_p(&of))
				read_cie(&of.cie, &cie, &frame);
		}
		if (cie.addrs == PE_OMIT || (cie.addrs & PE_INDIRECT))
			continue;
		r.p = e.fde.start;
		r.end = e.fde.end;
		r.bad = false;
		/* discarded functions leave entries at 0 or thereabouts */
		if (!read_fde(&r, &cie, &frame) ||
			elf_file_addr_to_offset(f, frame.start, &offset))
			continue;
		cnt++;
		code = each(&frame, arg);
		if (code)
			return code;
	}
	return 0;
}

/* .eh_frame by its section, or, in files without sections, by .eh_frame_hdr. */
static bool find_eh_frame(const struct elf_file *f, struct eh_reader *r)
{
	struct eh_reader hdr = { 0 };
	uint8_t encoding;
	GElf_Shdr sh;
	size_t size;

	if (elf_mem_section(&f->mem, 0, ".eh_frame", &sh) &&
		elf_mem_bytes(&f->mem, &sh)) {
		r->base = r->p = elf_mem_bytes(&f->mem, &sh);
		r->end = r->p + sh.sh_size;
		r->addr = sh.sh_addr;
		return true;
	}
	if (f->eh_frame_hdr_size < 4)
		return false;
	hdr.base = hdr.p = f->mem.bytes + f->eh_frame_hdr;
	hdr.end = hdr.p + f->eh_frame_hdr_size;
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (f->eh_frame_hdr >= s->offset && f->eh_frame_hdr - s->offset < s->size)
			hdr.addr = s->addr + (f->eh_frame_hdr - s->offset);
	}
	eh_read_bytes(&hdr, 1); /* version */
	encoding = eh_read_bytes(&hdr, 1);
	eh_read_bytes(&hdr, 2);
	r->addr = eh_read_pointer(&hdr, encoding);
	r->base = r->p = hdr.bad ? NULL : elf_file_bytes(f, r->addr, &size);
	if (!r->p)
		return false;
	r->end = r->p + size;
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct plan_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

int elf_file_frames(const struct elf_file *f, elf_frame_fn each, void *arg)
{
	struct eh_reader r = { 0 };

	return find_eh_frame(f, &r) ? read_entries(f, r, each, arg) : 0;
}

static int add_fde(const struct elf_frame *frame, void *arg)
{
	struct elf_file *f = arg;

	f->fdes = array_grow(f->fdes, f->fde_cnt, sizeof(*f->fdes));
	f->fdes[f->fde_cnt++] = (struct plan_fde) {
		.start = frame->start,
		.end = frame->end,
		.lsda = frame->lsda,
	};
	return 0;
}

void elf_frame_read(struct elf_file *f)
{
	elf_file_frames(f, add_fde, f);
	if (f->fde_cnt)
		qsort(f->fdes, f->fde_cnt, sizeof(*f->fdes), by_start);
}
