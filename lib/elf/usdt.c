// SPDX-License-Identifier: BSD-2-Clause
// USDT probes: reads sites from notes, and parses the assembler syntax of their arguments.
#include "elf/elf_file.h"

#include <ctype.h>

#include "internal.h"

#define MAX_SITES 65536u

/* --- arguments ------------------------------------------------------------------------ */

/* Words of struct pt_regs; the names of each width are one register. */
static const struct {
	const char *names[4]; /* 8, 4, 2 and 1 bytes */
	uint8_t word;
} x86_regs[] = {
	{ { "r15", "r15d", "r15w", "r15b" }, 0 },
	{ { "r14", "r14d", "r14w", "r14b" }, 1 },
	{ { "r13", "r13d", "r13w", "r13b" }, 2 },
	{ { "r12", "r12d", "r12w", "r12b" }, 3 },
	{ { "rbp", "ebp", "bp", "bpl" }, 4 },
	{ { "rbx", "ebx", "bx", "bl" }, 5 },
	{ { "r11", "r11d", "r11w", "r11b" }, 6 },
	{ { "r10", "r10d", "r10w", "r10b" }, 7 },
	{ { "r9", "r9d", "r9w", "r9b" }, 8 },
	{ { "r8", "r8d", "r8w", "r8b" }, 9 },
	{ { "rax", "eax", "ax", "al" }, 10 },
	{ { "rcx", "ecx", "cx", "cl" }, 11 },
	{ { "rdx", "edx", "dx", "dl" }, 12 },
	{ { "rsi", "esi", "si", "sil" }, 13 },
	{ { "rdi", "edi", "di", "dil" }, 14 },
	{ { "rip", "eip" }, 16 },
	{ { "rsp", "esp", "sp", "spl" }, 19 },
};

#define ARM64_SP 31

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* A text being parsed; .at does not move if the expected item is missing. */
struct text {
	const char *at;
	enum plan_arch arch;
};

static bool text_take(struct text *t, char c)
{
	if (*t->at != c)
		return false;
	t->at++;
	return true;
}

static bool text_number(struct text *t, int64_t *ret_value)
{
	const char *digits = t->at + (*t->at == '-' || *t->at == '+');
	char *end;

	if (!isdigit((unsigned char)*digits))
		return false;
	*ret_value = (int64_t)strtoll(t->at, &end, 0);
	/* an immediate of 64 bits may be written without its sign */
	if (*ret_value == INT64_MAX && *t->at != '-')
		*ret_value = (int64_t)strtoull(t->at, &end, 0);
	t->at = end;
	return true;
}

static bool x86_reg(const char *name, size_t len, uint8_t *ret_word)
{
	for (size_t i = 0; i < ARRAY_SIZE(x86_regs); i++)
		for (size_t n = 0; n < ARRAY_SIZE(x86_regs[i].names); n++) {
			const char *known = x86_regs[i].names[n];

			if (known && strlen(known) == len && !memcmp(known, name, len)) {
				*ret_word = x86_regs[i].word;
				return true;
			}
		}
	return false;
}

static bool arm64_reg(const char *name, size_t len, uint8_t *ret_word)
{
	unsigned int n = 0;

	if (len == 2 && !memcmp(name, "sp", 2)) {
		*ret_word = ARM64_SP;
		return true;
	}
	if (len < 2 || len > 3 || (name[0] != 'x' && name[0] != 'w'))
		return false;
	for (size_t i = 1; i < len; i++) {
		if (!isdigit((unsigned char)name[i]))
			return false;
		n = n * 10 + (name[i] - '0');
	}
	*ret_word = n;
	return n < ARM64_SP && (len == 2 || name[1] != '0');
}

static bool text_reg(struct text *t, uint8_t *ret_word)
{
	const char *name = t->at;
	size_t len = 0;
	bool known;

	if (t->arch == PLAN_X86_64 && *name++ != '%')
		return false;
	while (is_word(name[len]))
		len++;
	known = t->arch == PLAN_X86_64 ? x86_reg(name, len, ret_word)
				       : arm64_reg(name, len, ret_word);
	if (known)
		t->at = name + len;
	return known;
}

static bool x86_index(struct text *t, struct usdt_arg *arg)
{
	int64_t scale = 1;

	if (!text_reg(t, &arg->index))
		return false;
	if (text_take(t, ',') && !text_number(t, &scale))
		return false;
	if (scale != 1 && scale != 2 && scale != 4 && scale != 8)
		return false;
	arg->shift = __builtin_ctzll(scale);
	return true;
}

/* $5, %rax, -16(%rbp), (%rax,%rcx,8), 8(,%rcx,4) */
static bool x86_operand(struct text *t, struct usdt_arg *arg)
{
	if (text_take(t, '$')) {
		arg->kind = USDT_ARG_CONST;
		return text_number(t, &arg->offset);
	}
	arg->kind = USDT_ARG_REG;
	if (text_reg(t, &arg->reg))
		return true;
	arg->kind = USDT_ARG_MEM;
	text_number(t, &arg->offset);
	if (!text_take(t, '('))
		return false;
	if (*t->at != ',' && !text_reg(t, &arg->reg))
		return false;
	if (text_take(t, ',') && !x86_index(t, arg))
		return false;
	return text_take(t, ')');
}

static void text_blanks(struct text *t)
{
	while (*t->at == ' ')
		t->at++;
}

static bool arm64_displacement(struct text *t, struct usdt_arg *arg)
{
	text_blanks(t);
	text_take(t, '#');
	if (text_number(t, &arg->offset))
		return true;
	/* a 32-bit index register would need a sign or zero extension */
	return *t->at == 'x' && text_reg(t, &arg->index);
}

/* 5, x0, w0, [sp, 16], [x0, x1] */
static bool arm64_operand(struct text *t, struct usdt_arg *arg)
{
	arg->kind = USDT_ARG_CONST;
	if (!strncmp(t->at, "xzr", 3) || !strncmp(t->at, "wzr", 3)) {
		t->at += 3;
		return true;
	}
	text_take(t, '#');
	if (text_number(t, &arg->offset))
		return true;
	arg->kind = USDT_ARG_REG;
	if (text_reg(t, &arg->reg))
		return true;
	arg->kind = USDT_ARG_MEM;
	if (!text_take(t, '[') || !text_reg(t, &arg->reg))
		return false;
	if (text_take(t, ',') && !arm64_displacement(t, arg))
		return false;
	return text_take(t, ']');
}

/* Parses "-4@": the size, negative if signed; it may be missing. */
static bool arg_size(struct text *t, struct usdt_arg *arg)
{
	struct text from = *t;
	int64_t size;

	arg->size = 8;
	if (!text_number(&from, &size) || !text_take(&from, '@'))
		return true;
	*t = from;
	arg->is_signed = size < 0;
	size = size < 0 ? -size : size;
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return false;
	arg->size = size;
	return true;
}

/* Skips to the blank before the next argument. On arm64, operands in brackets contain blanks. */
static void arg_skip(struct text *t)
{
	bool bracket = false;

	for (; *t->at && (*t->at != ' ' || bracket); t->at++)
		if (*t->at == '[' || *t->at == ']')
			bracket = *t->at == '[';
}

unsigned int usdt_args_parse(
	const char *text, enum plan_arch arch, struct usdt_arg ret_args[USDT_MAX_ARGS])
{
	static const struct usdt_arg none = { .reg = USDT_NO_REG, .index = USDT_NO_REG };
	struct text t = { .at = text, .arch = arch };
	unsigned int cnt = 0;

	for (text_blanks(&t); *t.at && cnt < USDT_MAX_ARGS; text_blanks(&t)) {
		struct usdt_arg *arg = &ret_args[cnt++];
		const char *start = t.at;
		bool good;

		*arg = none;
		good = arg_size(&t, arg) &&
			(arch == PLAN_X86_64 ? x86_operand(&t, arg) : arm64_operand(&t, arg));
		if (good && (!*t.at || *t.at == ' '))
			continue;
		arg->kind = USDT_ARG_UNKNOWN;
		t.at = start;
		arg_skip(&t);
	}
	return cnt;
}

/* --- notes ---------------------------------------------------------------------------- */

/* A note has three words and three strings (sys/sdt.h of SystemTap). */
struct note {
	uint64_t pc, base, semaphore;
	const char *provider, *name, *args;
};

static const char *note_string(const char **at, const char *end)
{
	const char *str = *at, *zero = memchr(str, '\0', end - str);

	if (!zero)
		return NULL;
	*at = zero + 1;
	return str;
}

static bool note_read(const uint8_t *desc, size_t size, struct note *ret_note)
{
	const char *at = (const char *)desc, *end = at + size;
	uint64_t words[3];

	if (size < sizeof(words))
		return false;
	memcpy(words, desc, sizeof(words));
	at += sizeof(words);
	*ret_note = (struct note) { .pc = words[0], .base = words[1], .semaphore = words[2] };
	ret_note->provider = note_string(&at, end);
	ret_note->name = ret_note->provider ? note_string(&at, end) : NULL;
	ret_note->args = ret_note->name ? note_string(&at, end) : NULL;
	return ret_note->args && elf_name_is_clean(ret_note->name, strlen(ret_note->name)) &&
		elf_name_is_clean(ret_note->provider, strlen(ret_note->provider));
}

static uint64_t file_offset(const struct elf_file *f, uint64_t addr, bool exec)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (addr >= s->addr && addr - s->addr < s->size && (!exec || s->exec))
			return addr - s->addr + s->offset;
	}
	return 0;
}

/*
 * Converts a note to a site. prelink moves the section .stapsdt.base, but does not update its
 * address in the note, so the difference corrects the other addresses. Returns false if the site is
 * not in code, or its semaphore not in a segment.
 */
static bool site_of(const struct elf_file *f, const struct note *n, uint64_t base,
	struct usdt_site *ret_site)
{
	uint64_t moved = base && n->base ? base - n->base : 0;
	struct usdt_site site = { .provider = n->provider, .name = n->name };

	site.addr = n->pc + moved;
	site.offset = file_offset(f, site.addr, true);
	if (!site.offset)
		return false;
	if (n->semaphore) {
		site.semaphore = file_offset(f, n->semaphore + moved, false);
		if (!site.semaphore)
			return false;
	}
	site.arg_cnt = usdt_args_parse(n->args, f->info.arch, site.args);
	*ret_site = site;
	return true;
}

DEFINE_ORDER(site_compare, struct usdt_site,
	strcmp(x->provider, y->provider) ?: strcmp(x->name, y->name) ?: RISING(addr))

static void sites_sort(struct usdt_sites *s)
{
	size_t cnt = 0;

	if (!s->cnt)
		return;
	qsort(s->sites, s->cnt, sizeof(*s->sites), site_compare);
	for (size_t i = 1; i < s->cnt; i++)
		if (site_compare(&s->sites[i], &s->sites[cnt]))
			s->sites[++cnt] = s->sites[i];
	s->cnt = cnt + 1;
}

static void sites_add(const struct elf_file *f, Elf_Data *data, uint64_t base,
	struct usdt_sites *s)
{
	size_t at = 0, name, desc;
	struct note note;
	GElf_Nhdr nh;

	while ((at = gelf_getnote(data, at, &nh, &name, &desc)) > 0 && s->cnt < MAX_SITES) {
		const char *bytes = data->d_buf;

		if (nh.n_type != 3 || nh.n_namesz != sizeof("stapsdt") ||
			memcmp(bytes + name, "stapsdt", sizeof("stapsdt")))
			continue;
		s->sites = array_grow(s->sites, s->cnt, sizeof(*s->sites));
		if (note_read((const uint8_t *)bytes + desc, nh.n_descsz, &note) &&
			site_of(f, &note, base, &s->sites[s->cnt]))
			s->cnt++;
		else
			s->refused++;
	}
}

void usdt_sites_read(const struct elf_file *f, struct usdt_sites *ret)
{
	struct usdt_sites s = { 0 };
	Elf_Data data = { .d_type = ELF_T_NHDR, .d_version = EV_CURRENT };
	const uint8_t *bytes;
	uint64_t base = 0;
	GElf_Shdr sh;

	if (elf_mem_section(&f->mem, 0, ".stapsdt.base", &sh))
		base = sh.sh_addr;
	if (!elf_mem_section(&f->mem, SHT_NOTE, ".note.stapsdt", &sh)) {
		*ret = s;
		return;
	}
	bytes = elf_mem_bytes(&f->mem, &sh);
	if (!bytes || sh.sh_size > ELF_MAX_NOTES) {
		*ret = (struct usdt_sites) { .refused = 1 };
		return;
	}
	/*
	 * A copy, because another process may write the mapped file: a string must not change its
	 * length while it is read.
	 */
	s.names = xmalloc(sh.sh_size);
	memcpy(s.names, bytes, sh.sh_size);
	data.d_buf = s.names;
	data.d_size = sh.sh_size;
	data.d_align = sh.sh_addralign == 8 ? 8 : 4;
	sites_add(f, &data, base, &s);
	sites_sort(&s);
	*ret = s;
}

void usdt_sites_done(struct usdt_sites *s)
{
	free(s->sites);
	free(s->names);
	*s = (struct usdt_sites) { 0 };
}
