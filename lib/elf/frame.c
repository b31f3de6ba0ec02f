// SPDX-License-Identifier: BSD-2-Clause
// Where functions begin and end, by .eh_frame.
#include <errno.h>

#include "internal.h"

/* Pointer encodings (Linux Standard Base, "DWARF Extensions"). */
#define PE_ABSPTR   0x00
#define PE_ULEB128  0x01
#define PE_UDATA2   0x02
#define PE_UDATA4   0x03
#define PE_UDATA8   0x04
#define PE_SLEB128  0x09
#define PE_SDATA2   0x0a
#define PE_SDATA4   0x0b
#define PE_SDATA8   0x0c
#define PE_PCREL    0x10
#define PE_INDIRECT 0x80
#define PE_OMIT     0xff

#define AUG_MAX 16 /* letters of a CIE's augmentation; five exist */

/* A cursor over bytes whose first has a known address; .bad once it ran over the end. */
struct reader {
	const uint8_t *p, *end;
	const uint8_t *base;
	uint64_t addr; /* of base */
	bool bad;
};

static uint64_t read_bytes(struct reader *r, size_t n)
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

static uint64_t read_leb(struct reader *r, bool is_signed)
{
	unsigned int shift = 0;
	uint64_t v = 0;
	uint8_t b;

	do {
		b = read_bytes(r, 1);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
		r->bad |= shift > 70;
	} while ((b & 0x80) && !r->bad);
	if (is_signed && shift < 64 && (b & 0x40))
		v |= ~0ull << shift;
	return v;
}

static uint64_t read_value(struct reader *r, uint8_t format)
{
	switch (format) {
	case PE_ULEB128:
		return read_leb(r, false);
	case PE_SLEB128:
		return read_leb(r, true);
	case PE_UDATA2:
		return read_bytes(r, 2);
	case PE_SDATA2:
		return (int64_t)(int16_t)read_bytes(r, 2);
	case PE_UDATA4:
		return read_bytes(r, 4);
	case PE_SDATA4:
		return (int64_t)(int32_t)read_bytes(r, 4);
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return read_bytes(r, 8);
	default:
		r->bad = true;
		return 0;
	}
}

static uint64_t read_pointer(struct reader *r, uint8_t encoding)
{
	uint64_t here = r->addr + (r->p - r->base);
	uint64_t v = read_value(r, encoding & 0x0f);

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

/* The encoding of an FDE's addresses, by the CIE that @cie is at the body of. */
static bool cie_encoding(struct reader cie, uint8_t *ret_encoding)
{
	const char *aug;
	size_t len;
	uint8_t version = read_bytes(&cie, 1);

	aug = (const char *)cie.p;
	len = strnlen(aug, cie.end - cie.p < AUG_MAX ? cie.end - cie.p : AUG_MAX);
	if (cie.bad || len == (size_t)(cie.end - cie.p) || len == AUG_MAX)
		return false;
	cie.p += len + 1;
	*ret_encoding = PE_ABSPTR;
	if (aug[0] != 'z')
		return !aug[0];
	if (version >= 4)
		read_bytes(&cie, 2); /* sizes of address and segment selector */
	read_leb(&cie, false);       /* code alignment */
	read_leb(&cie, true);        /* data alignment */
	if (version == 1)
		read_bytes(&cie, 1); /* return address column */
	else
		read_leb(&cie, false);
	read_leb(&cie, false); /* length of what follows */
	for (aug++; *aug && !cie.bad; aug++) {
		uint8_t personality;

		switch (*aug) {
		case 'R':
			*ret_encoding = read_bytes(&cie, 1);
			return !cie.bad;
		case 'L':
			read_bytes(&cie, 1);
			break;
		case 'P':
			personality = read_bytes(&cie, 1);
			read_value(&cie, personality & 0x0f);
			break;
		default: /* S, B, G: marks without data */
			break;
		}
	}
	return !cie.bad;
}

static int add_fde(struct elf_file *f, uint64_t start, uint64_t size)
{
	struct plan_range *grown;
	uint64_t offset;

	/* discarded functions leave entries at 0 or thereabouts */
	if (!size || elf_file_addr_to_offset(f, start, &offset) || start + size < start)
		return 0;
	grown = array_grow(f->fdes, f->fde_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	f->fdes = grown;
	f->fdes[f->fde_cnt++] =
		(struct plan_range) { .start = start, .end = start + size };
	return 0;
}

struct entry {
	struct reader body; /* after the CIE pointer */
	uint64_t id;        /* 0: a CIE; else distance back to its CIE */
	const uint8_t *id_at;
};

/* Reads one length-prefixed entry and steps over it; false at the end or at damage. */
static bool next_entry(struct reader *r, struct entry *e)
{
	uint64_t len;

	len = read_bytes(r, 4);
	if (len == 0xffffffff)
		len = read_bytes(r, 8);
	if (r->bad || !len || len > (uint64_t)(r->end - r->p) || len < 4)
		return false;
	e->body = *r;
	e->body.end = r->p + len;
	e->id_at = r->p;
	/* .eh_frame's CIE pointer has 4 bytes whatever the length's form is */
	e->id = read_bytes(&e->body, 4);
	r->p += len;
	return true;
}

static bool find_encoding(
	const struct reader *all, const struct entry *fde, uint8_t *ret_encoding)
{
	struct reader at = *all;
	struct entry cie;

	if (fde->id > (uint64_t)(fde->id_at - all->base))
		return false;
	at.p = fde->id_at - fde->id;
	return next_entry(&at, &cie) && !cie.id && cie_encoding(cie.body, ret_encoding);
}

static int read_entries(struct elf_file *f, struct reader r)
{
	const struct reader all = r;
	const uint8_t *last_cie = NULL;
	uint8_t encoding = PE_OMIT;
	struct entry e;

	while (f->fde_cnt < ELF_MAX_FDES && next_entry(&r, &e)) {
		uint64_t start, size;

		if (!e.id)
			continue;
		if (e.id > (uint64_t)(e.id_at - all.base))
			return 0;
		if (e.id_at - e.id != last_cie) {
			last_cie = e.id_at - e.id;
			if (!find_encoding(&all, &e, &encoding))
				encoding = PE_OMIT;
		}
		if (encoding == PE_OMIT || (encoding & PE_INDIRECT))
			continue;
		start = read_pointer(&e.body, encoding);
		size = read_value(&e.body, encoding & 0x0f);
		if (!e.body.bad && add_fde(f, start, size))
			return -ENOMEM;
	}
	return 0;
}

/* .eh_frame by its section, or, in files without sections, by .eh_frame_hdr. */
static bool find_eh_frame(const struct elf_file *f, struct reader *r)
{
	struct reader hdr = { 0 };
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
	read_bytes(&hdr, 1); /* version */
	encoding = read_bytes(&hdr, 1);
	read_bytes(&hdr, 2);
	r->addr = read_pointer(&hdr, encoding);
	r->base = r->p = hdr.bad ? NULL : elf_file_bytes(f, r->addr, &size);
	if (!r->p)
		return false;
	r->end = r->p + size;
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct plan_range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

int elf_frame_read(struct elf_file *f, struct err *err)
{
	struct reader r = { 0 };
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
