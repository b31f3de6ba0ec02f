// SPDX-License-Identifier: BSD-2-Clause
// The planner's view of a file: its code, the start of code, its frames.
#include <ctype.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

#include "internal.h"

/* stack pointers in DWARF */
#define X86_SP   7
#define ARM64_SP 31

/* --- .eh_frame: numbers and pointers -------------------------------------------------------- */

uint64_t eh_read_bytes(struct eh_reader *r, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < n) {
		r->bad = true;
		r->p = r->end;
		return 0;
	}
	/* Nearly all of millions of values are single bytes: read these without a call. */
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
	default: /* relative to text or data: only in object files */
		r->bad = true;
		return 0;
	}
}

/* --- .eh_frame: frames ---------------------------------------------------------------------- */

/* The format of FDEs, from their CIE. */
struct cie {
	uint8_t addrs; /* encoding of the addresses; PE_OMIT: unreadable */
	uint8_t lsda;  /* encoding of the addresses of landing pad tables, or PE_OMIT */
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
 * Returns the address of the landing pad table of an FDE; 0 if it has none. @fde is after the
 * range, and is moved to the instructions.
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
	/* an encoded 0 means no table, also if the encoding is relative */
	return (cie->lsda & 0x70) == PE_PCREL && lsda == here ? 0 : lsda;
}

/* Fills in @frame from the content of an FDE. Returns false if it is invalid or empty. */
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
 * Walks the entries with libdw. All bytes are mapped, and libdw skips an entry that it cannot parse
 * if its length is valid.
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
		/* functions that the linker discarded leave entries at addresses near 0 */
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

/* Finds .eh_frame by its section, or in files without sections by .eh_frame_hdr. */
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

DEFINE_ORDER(by_start, struct plan_fde, RISING(start) ?: RISING(end))

int elf_file_frames(const struct elf_file *f, elf_frame_fn each, void *arg)
{
	struct eh_reader r = { 0 };

	return find_eh_frame(f, &r) ? read_entries(f, r, each, arg) : 0;
}

/*
 * True if the unwind information changes before the first instruction of @frame: the CIE describes
 * how a function is entered.
 */
static bool is_framed(const struct elf_file *f, const struct elf_frame *frame)
{
	struct eh_reader r = { .p = frame->insns, .end = frame->insns_end };
	bool is_x86 = f->info.arch == PLAN_X86_64;
	uint64_t sp = is_x86 ? X86_SP : ARM64_SP, reg = sp;
	uint8_t op = eh_read_bytes(&r, 1);

	if (r.bad)
		return false;
	switch (op) {
	case DW_CFA_def_cfa:
		reg = eh_read_leb(&r, false);
		/* fall through */
	case DW_CFA_def_cfa_offset:
		return reg != sp || eh_read_leb(&r, false) != (is_x86 ? 8 : 0);
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_expression:
		return true;
	default:
		return (op & 0xc0) == DW_CFA_offset;
	}
}

/* Callback of elf_file_frames(); never stops. */
static int add_fde(const struct elf_frame *frame, void *arg)
{
	struct elf_file *f = arg;

	*array_add(f->fdes, f->fde_cnt) = (struct plan_fde) {
		.start = frame->start,
		.end = frame->end,
		.lsda = frame->lsda,
		.framed = is_framed(f, frame),
	};
	return 0;
}

static void elf_frame_read(struct elf_file *f)
{
	if (!elf_file_frames(f, add_fde, f) && f->fde_cnt)
		qsort(f->fdes, f->fde_cnt, sizeof(*f->fdes), by_start);
}

/*
 * Finds functions that the Go compiler generated, in .gopclntab, the table with which Go's runtime
 * walks stacks.
 *
 * It starts with struct pcHeader of Go's src/runtime/symtab.go. At its .pclnOffset it has pairs of
 * 32-bit numbers, sorted by the first: the start of a function, relative to the start of the text,
 * and the offset of its struct _func, relative to .pclnOffset.
 */

/* The first word of the table, by version of Go (cmd/internal/goobj, internal/abi). */
#define MAGIC_1_18 0xfffffff0U
#define MAGIC_1_20 0xfffffff1U

#define HEADER_SIZE    72
#define FUNC_CNT_AT    8  /* 64 bits each */
#define TEXT_START_AT  24
#define PCLN_OFFSET_AT 64
#define FUNC_FLAG_1_18 37 /* offset in struct _func: the byte after .funcID */
#define FUNC_FLAG_1_20 41 /* .startLine is new */
#define FLAG_ASM       4

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

static uint32_t half_at(const uint8_t *bytes)
{
	uint32_t half;

	memcpy(&half, bytes, sizeof(half));
	return half;
}

/* Returns the start of the text, from the linker's symbol if the word in the table is relocated. */
static uint64_t text_start(struct elf_file *f, const uint8_t *bytes)
{
	static const char symbol[] = "runtime.text";
	const struct elf_func *funcs;
	const struct elf_name *name;
	size_t cnt;

	if (!elf_file_funcs(f, &funcs, &cnt, NULL)) {
		name = elf_file_lookup(f, symbol, strlen(symbol));
		if (name)
			return funcs[name->func].addr;
	}
	return word_at(bytes + TEXT_START_AT);
}

/* Leaves @t.bytes NULL if the version is not known or the table is damaged. */
static void table_read(struct elf_file *f, const uint8_t *bytes, uint64_t size, struct elf_go_table *t)
{
	if (size < HEADER_SIZE)
		return;
	if (half_at(bytes) != MAGIC_1_18 && half_at(bytes) != MAGIC_1_20)
		return;
	t->size = size;
	t->flag_at = half_at(bytes) == MAGIC_1_18 ? FUNC_FLAG_1_18 : FUNC_FLAG_1_20;
	t->cnt = word_at(bytes + FUNC_CNT_AT);
	t->pairs_at = word_at(bytes + PCLN_OFFSET_AT);
	t->text = text_start(f, bytes);
	if (t->text && t->pairs_at <= size && t->cnt <= (size - t->pairs_at) / 8)
		t->bytes = bytes;
}

static const struct elf_go_table *table_of(struct elf_file *f)
{
	static const char *const sections[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	const uint8_t *bytes = NULL;
	GElf_Shdr sh;

	if (f->go.is_read)
		return &f->go;
	f->go.is_read = true;
	for (size_t i = 0; i < ARRAY_SIZE(sections) && !bytes; i++)
		if (elf_mem_section(&f->mem, 0, sections[i], &sh))
			bytes = elf_mem_bytes(&f->mem, &sh);
	if (bytes)
		table_read(f, bytes, sh.sh_size, &f->go);
	return &f->go;
}

/* Reads the flags of the function that starts at @addr. False if the table has none. */
static bool table_flags(const struct elf_go_table *t, uint64_t addr, uint8_t *ret_flags)
{
	const uint8_t *pairs = t->bytes + t->pairs_at;
	size_t i = FIRST_WHERE(t->cnt, k, t->text + half_at(pairs + 8 * k) >= addr);
	uint64_t at;

	if (i == t->cnt || t->text + half_at(pairs + 8 * i) != addr)
		return false;
	at = t->pairs_at + half_at(pairs + 8 * i + 4) + t->flag_at;
	if (at >= t->size)
		return false;
	*ret_flags = t->bytes[at];
	return true;
}

/* True for wrappers for callers in assembly, which pass arguments on the stack, by their name. */
static bool is_abi0(struct elf_file *f, uint64_t addr)
{
	static const char suffix[] = ".abi0";
	const struct elf_func *func = elf_file_func_at(f, addr);

	return func && func->addr == addr && ANY_WHERE(func->name_cnt, i,
		func->names[i].len > sizeof(suffix) - 1 &&
		!strcmp(func->names[i].name + func->names[i].len - (sizeof(suffix) - 1), suffix));
}

enum elf_go elf_file_go(struct elf_file *f, uint64_t addr)
{
	const struct elf_go_table *t;
	uint8_t flags;

	if (!f->info.go)
		return ELF_GO_NOT;
	t = table_of(f);
	if (!t->bytes)
		return ELF_GO_STACK;
	if (!table_flags(t, addr, &flags))
		return ELF_GO_NOT;
	return flags & FLAG_ASM || is_abi0(f, addr) ? ELF_GO_STACK : ELF_GO_REGS;
}

/* Code sections closer than this form one text, because only alignment is between them. */
#define TEXT_GAP 64

/* Collects executable sections that a segment maps at the same address. */
static void section_texts(struct elf_file *f)
{
	Elf_Scn *scn = NULL;
	uint64_t offset;
	GElf_Shdr sh;
	size_t left;

	while ((scn = elf_nextscn(f->mem.elf, scn))) {
		const uint8_t *bytes;

		if (!gelf_getshdr(scn, &sh) || !(sh.sh_flags & SHF_EXECINSTR) ||
			!(sh.sh_flags & SHF_ALLOC) || !elf_mem_bytes(&f->mem, &sh))
			continue;
		if (elf_file_addr_to_offset(f, sh.sh_addr, &offset) ||
			offset != sh.sh_offset)
			continue;
		bytes = elf_file_bytes(f, sh.sh_addr, &left);
		if (bytes != f->mem.bytes + offset)
			continue; /* segments overlap */
		if (left > sh.sh_size)
			left = sh.sh_size;
		*array_add(f->texts, f->text_cnt) = (struct plan_text) { sh.sh_addr, bytes, left };
	}
}

static void segment_texts(struct elf_file *f)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (s->exec)
			*array_add(f->texts, f->text_cnt) = (struct plan_text) {
				s->addr, f->mem.bytes + s->offset, s->size };
	}
}

DEFINE_ORDER(by_addr, struct plan_text, RISING(addr))

/* Sorts the texts, joins neighbours, and cuts overlaps. */
static void tidy_texts(struct elf_file *f)
{
	size_t kept = 0;

	if (f->text_cnt)
		qsort(f->texts, f->text_cnt, sizeof(*f->texts), by_addr);
	for (size_t i = 0; i < f->text_cnt; i++) {
		struct plan_text t = f->texts[i];
		struct plan_text *last = kept ? &f->texts[kept - 1] : NULL;
		uint64_t end = last ? last->addr + last->size : 0;

		if (last && t.addr < end) {
			if (t.addr + t.size <= end)
				continue;
			t.bytes += end - t.addr;
			t.size -= end - t.addr;
			t.addr = end;
		}
		if (last && t.addr - end <= TEXT_GAP &&
			t.bytes - last->bytes == (ptrdiff_t)(t.addr - last->addr)) {
			last->size = t.addr + t.size - last->addr;
			continue;
		}
		f->texts[kept++] = t;
	}
	f->text_cnt = kept;
}


/* True if all names at that address are those of a part of another function. */
static bool is_cold(const struct elf_func *func)
{
	return ALL_WHERE(func->name_cnt, i, plan_name_is_cold(func->names[i].name));
}

/* Functions are already sorted, and nameless starts are few. */
static void collect_starts(struct elf_file *f)
{
	size_t i = 0, j = 0;
	uint64_t addr, offset;

	f->starts = xmalloc((f->func_cnt + f->nameless_cnt + 1) * sizeof(*f->starts));
	if (f->nameless_cnt)
		qsort(f->nameless, f->nameless_cnt, sizeof(*f->nameless), compare_u64);
	while (i < f->func_cnt || j < f->nameless_cnt) {
		if (j >= f->nameless_cnt ||
			(i < f->func_cnt && f->funcs[i].addr <= f->nameless[j])) {
			if (is_cold(&f->funcs[i++]))
				continue;
			addr = f->funcs[i - 1].addr;
		} else {
			addr = f->nameless[j++];
		}
		if (elf_file_addr_to_offset(f, addr, &offset))
			continue;
		if (!f->start_cnt || f->starts[f->start_cnt - 1] != addr)
			f->starts[f->start_cnt++] = addr;
	}
}

static void collect_loaded(struct elf_file *f)
{
	f->loaded = xcalloc(f->segment_cnt + 1, sizeof(*f->loaded));
	for (size_t i = 0; i < f->segment_cnt; i++)
		f->loaded[i] = (struct plan_text) {
			.addr = f->segments[i].addr,
			.bytes = f->mem.bytes + f->segments[i].offset,
			.size = f->segments[i].size,
		};
}

static void image_drop(struct elf_file *f)
{
	free(TAKE_PTR(f->texts));
	free(TAKE_PTR(f->starts));
	free(TAKE_PTR(f->fdes));
	free(TAKE_PTR(f->slots));
	free(TAKE_PTR(f->loaded));
	f->text_cnt = f->start_cnt = f->fde_cnt = f->slot_cnt = 0;
}

static void image_make(struct elf_file *f)
{
	section_texts(f);
	if (!f->text_cnt)
		segment_texts(f);
	collect_starts(f);
	collect_loaded(f);
	tidy_texts(f);
	elf_dynamic_slots(f);
	elf_frame_read(f);
}

int elf_file_image(struct elf_file *f, struct plan_image *ret_image, struct err *err)
{
	const struct elf_func *funcs;
	size_t cnt;
	int ret;

	ret = elf_file_funcs(f, &funcs, &cnt, err);
	if (ret)
		return ret;
	if (!f->has_image) {
		image_make(f);
		ret = elf_file_check(f, err);
		if (ret) {
			image_drop(f);
			return ret;
		}
		f->has_image = true;
	}
	*ret_image = (struct plan_image) {
		.arch = f->info.arch,
		.entry = f->info.executable ? f->info.entry : 0,
		.texts = f->texts,
		.text_cnt = f->text_cnt,
		.starts = f->starts,
		.start_cnt = f->start_cnt,
		.fdes = f->fdes,
		.fde_cnt = f->fde_cnt,
		.slots = f->slots,
		.slot_cnt = f->slot_cnt,
		.segments = f->loaded,
		.segment_cnt = f->segment_cnt,
	};
	return 0;
}

/* True for ".N.M" and so on, to the end. */
static bool only_numbers(const char *s)
{
	while (*s == '.') {
		if (!isdigit((unsigned char)s[1]))
			return false;
		for (s++; isdigit((unsigned char)*s); s++)
			;
	}
	return *s == '\0';
}

bool plan_name_is_cold(const char *name)
{
	static const char *const marks[] = { ".cold", ".__part" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		const char *at = name;

		while ((at = strstr(at, marks[i]))) {
			at += strlen(marks[i]);
			if (only_numbers(at))
				return true;
		}
	}
	return false;
}
