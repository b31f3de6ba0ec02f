// SPDX-License-Identifier: BSD-2-Clause
// Where functions begin and end, by .eh_frame; and the numbers and pointers that it has.
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
	bool augmented;
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
		default: /* S, B, G: marks without data */
			break;
		}
	}
	return r.bad ? unknown : cie;
}

static int add_fde(struct elf_file *f, uint64_t start, uint64_t size, uint64_t lsda)
{
	struct plan_fde *grown;
	uint64_t offset;

	/* discarded functions leave entries at 0 or thereabouts */
	if (!size || elf_file_addr_to_offset(f, start, &offset) || start + size < start)
		return 0;
	grown = array_grow(f->fdes, f->fde_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	f->fdes = grown;
	f->fdes[f->fde_cnt++] = (struct plan_fde) {
		.start = start,
		.end = start + size,
		.lsda = lsda,
	};
	return 0;
}

/* Where the table of landing pads of an FDE lies, behind whose size @fde is; 0: it has none. */
static uint64_t read_lsda(struct eh_reader *fde, const struct cie *cie)
{
	uint64_t lsda, here;

	if (!cie->augmented || cie->lsda == PE_OMIT || !eh_read_leb(fde, false))
		return 0;
	here = fde->addr + (fde->p - fde->base);
	lsda = eh_read_pointer(fde, cie->lsda);
	if (fde->bad || cie->lsda & PE_INDIRECT)
		return PLAN_LSDA_UNREADABLE;
	/* 0, relative or not, stands for none */
	return (cie->lsda & 0x70) == PE_PCREL && lsda == here ? 0 : lsda;
}

static int read_fde(struct elf_file *f, struct eh_reader *fde, const struct cie *cie)
{
	uint64_t start = eh_read_pointer(fde, cie->addrs);
	uint64_t size = eh_read_value(fde, cie->addrs & 0x0f);

	if (fde->bad)
		return 0;
	return add_fde(f, start, size, read_lsda(fde, cie));
}

/*
 * libdw goes from entry to entry. It is given bytes that are known to be there, and steps over
 * what it can't read where the length of that is sound.
 */
static int read_entries(struct elf_file *f, struct eh_reader r)
{
	Elf_Data bytes = { .d_buf = (void *)(uintptr_t)r.base, .d_size = r.end - r.base };
	Dwarf_Off at, cie_at = DW_CIE_ID_64, next = 0, ignored;
	struct cie cie = { .addrs = PE_OMIT };
	Dwarf_CFI_Entry e, of;
	int ret = 0;

	while (ret <= 0 && f->fde_cnt < ELF_MAX_FDES) {
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
				cie = cie_of(&of.cie);
		}
		if (cie.addrs == PE_OMIT || (cie.addrs & PE_INDIRECT))
			continue;
		r.p = e.fde.start;
		r.end = e.fde.end;
		r.bad = false;
		if (read_fde(f, &r, &cie))
			return -ENOMEM;
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

int elf_frame_read(struct elf_file *f, struct err *err)
{
	struct eh_reader r = { 0 };
	int ret;

	if (!find_eh_frame(f, &r))
		return 0;
	ret = read_entries(f, r);
	if (ret)
		return err_sys(err, ret, "cannot read .eh_frame of '%s'", f->path);
	if (f->fde_cnt)
		qsort(f->fdes, f->fde_cnt, sizeof(*f->fdes), by_start);
	return 0;
}
