// SPDX-License-Identifier: BSD-2-Clause
// Where functions begin and end, by .eh_frame.
#include <errno.h>

#include "elf/eh_read.h"
#include "internal.h"

#define AUG_MAX 16 /* letters of a CIE's augmentation; five exist */

/* What a CIE says of how its FDEs are written. */
struct cie {
	uint8_t addrs; /* the encoding of their addresses; PE_OMIT: they can't be read */
	uint8_t lsda;  /* of where their tables of landing pads lie, or PE_OMIT */
	bool augmented;
};

/* Of the CIE that @cie is at the body of. */
static bool cie_read(struct eh_reader cie, struct cie *ret_cie)
{
	const char *aug;
	size_t len;
	uint8_t version = eh_read_bytes(&cie, 1);

	aug = (const char *)cie.p;
	len = strnlen(aug, cie.end - cie.p < AUG_MAX ? cie.end - cie.p : AUG_MAX);
	if (cie.bad || len == (size_t)(cie.end - cie.p) || len == AUG_MAX)
		return false;
	cie.p += len + 1;
	*ret_cie = (struct cie) { .addrs = PE_ABSPTR, .lsda = PE_OMIT };
	if (aug[0] != 'z')
		return !aug[0];
	ret_cie->augmented = true;
	if (version >= 4)
		eh_read_bytes(&cie, 2); /* sizes of address and segment selector */
	eh_read_leb(&cie, false);       /* code alignment */
	eh_read_leb(&cie, true);        /* data alignment */
	if (version == 1)
		eh_read_bytes(&cie, 1); /* return address column */
	else
		eh_read_leb(&cie, false);
	eh_read_leb(&cie, false); /* length of what follows */
	for (aug++; *aug && !cie.bad; aug++) {
		uint8_t personality;

		switch (*aug) {
		case 'R':
			ret_cie->addrs = eh_read_bytes(&cie, 1);
			break;
		case 'L':
			ret_cie->lsda = eh_read_bytes(&cie, 1);
			break;
		case 'P':
			personality = eh_read_bytes(&cie, 1);
			eh_read_value(&cie, personality & 0x0f);
			break;
		default: /* S, B, G: marks without data */
			break;
		}
	}
	return !cie.bad;
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

struct entry {
	struct eh_reader body; /* after the CIE pointer */
	uint64_t id;           /* 0: a CIE; else distance back to its CIE */
	const uint8_t *id_at;
};

/* Reads one length-prefixed entry and steps over it; false at the end or at damage. */
static bool next_entry(struct eh_reader *r, struct entry *e)
{
	uint64_t len;

	len = eh_read_bytes(r, 4);
	if (len == 0xffffffff)
		len = eh_read_bytes(r, 8);
	if (r->bad || !len || len > (uint64_t)(r->end - r->p) || len < 4)
		return false;
	e->body = *r;
	e->body.end = r->p + len;
	e->id_at = r->p;
	/* .eh_frame's CIE pointer has 4 bytes whatever the length's form is */
	e->id = eh_read_bytes(&e->body, 4);
	r->p += len;
	return true;
}

static bool find_cie(
	const struct eh_reader *all, const struct entry *fde, struct cie *ret_cie)
{
	struct eh_reader at = *all;
	struct entry cie;

	if (fde->id > (uint64_t)(fde->id_at - all->base))
		return false;
	at.p = fde->id_at - fde->id;
	return next_entry(&at, &cie) && !cie.id && cie_read(cie.body, ret_cie);
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

static int read_entries(struct elf_file *f, struct eh_reader r)
{
	const struct eh_reader all = r;
	const uint8_t *last_cie = NULL;
	struct cie cie = { .addrs = PE_OMIT };
	struct entry e;

	while (f->fde_cnt < ELF_MAX_FDES && next_entry(&r, &e)) {
		if (!e.id)
			continue;
		if (e.id > (uint64_t)(e.id_at - all.base))
			return 0;
		if (e.id_at - e.id != last_cie) {
			last_cie = e.id_at - e.id;
			if (!find_cie(&all, &e, &cie))
				cie.addrs = PE_OMIT;
		}
		if (cie.addrs == PE_OMIT || (cie.addrs & PE_INDIRECT))
			continue;
		if (read_fde(f, &e.body, &cie))
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
