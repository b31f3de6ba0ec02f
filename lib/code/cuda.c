// SPDX-License-Identifier: BSD-2-Clause
// Reads from machine code what libraries of the GPU keep private.
//
// Kernels: for each one there is a call of __cudaRegisterFunction(module, function, name, name, -1,
// ...). The symbols of both functions may be stripped, and the callee may be in another file. So
// match the arguments of such a call: an address of code, twice the address of a string, and -1.
#include "base/util.h"
#include "code/cuda.h"

#include "internal.h"

#define NONE UINT64_MAX
#define NO_LIMIT 0xffffffffU /* of threads: -1 */

/* Known addresses and numbers in registers on one path through the code. */
struct held {
	uint64_t reg[32];
};

static void forget(struct held *h)
{
	memset(h, 0xff, sizeof(*h));
}

/* --- effects of instructions ------------------------------------------------------------------ */

static uint64_t x86_number(const struct x86 *x)
{
	const uint8_t *imm = x->bytes + x->op_at + 1;
	uint32_t n;

	if (x->map != X86_MAP_1 || x->rex & 8)
		return NONE;
	if ((x->op & 0xf8) == 0xb8 && x->op_at + 5u <= x->len) { /* mov $n, %r32 */
		memcpy(&n, imm, 4);
		return n;
	}
	/* or $-1, %r32 */
	return x->op == 0x83 && x->modrm >> 3 == 0x19 && x->bytes[x->len - 1] == 0xff
		? NO_LIMIT
		: NONE;
}

/* Pushes of stack arguments: they change no register except the stack pointer. */
static bool x86_pushes(const struct x86 *x)
{
	return x->map == X86_MAP_1 && (x->op == 0x6a || x->op == 0x68 || (x->op & 0xf8) == 0x50);
}

static void x86_held(const struct insn *insn, const uint8_t *bytes, struct held *h)
{
	struct insn_effect e;
	uint64_t got = NONE;
	unsigned int to = 0;
	struct x86 x;

	if (!x86_split(bytes, insn->len, &x) || insn->flow != INSN_PLAIN) {
		forget(h);
		return;
	}
	if (x86_pushes(&x))
		return;
	if (!x86_effect(&x, &e)) {
		forget(h);
		return;
	}
	if (insn->has_data && insn->takes_addr) {
		got = insn->data;
		to = x86_reg_no(&x);
	} else if (x.map == X86_MAP_1 && x.rex & 8 && x86_mod(&x) == 3 && x.op == 0x89) {
		got = h->reg[x86_reg_no(&x)];
		to = x86_rm_no(&x);
	} else if (x.map == X86_MAP_1 && x.rex & 8 && x86_mod(&x) == 3 && x.op == 0x8b) {
		got = h->reg[x86_rm_no(&x)];
		to = x86_reg_no(&x);
	} else {
		got = x86_number(&x);
		to = (x.op & 0xf8) == 0xb8 ? (x.op & 7) | (x.rex & 1 ? 8 : 0) : x86_rm_no(&x);
	}
	for (unsigned int reg = 0; reg < 16; reg++)
		if (e.writes >> reg & 1)
			h->reg[reg] = NONE;
	if (got != NONE)
		h->reg[to] = got;
}

static uint64_t a64_got(uint32_t w, uint64_t addr, const struct held *h)
{
	int64_t far = (int64_t)((uint64_t)(w >> 5 & 0x7ffff) << 45) >> 43 | (w >> 29 & 3);
	uint64_t from = h->reg[w >> 5 & 31];

	if ((w & 0x9f000000) == 0x90000000) /* adrp */
		return (addr & ~0xfffULL) + ((uint64_t)far << 12);
	if ((w & 0x9f000000) == 0x10000000) /* adr */
		return addr + (uint64_t)far;
	if ((w & 0xff800000) == 0x91000000 && from != NONE) /* add x, x, #n */
		return from + ((uint64_t)(w >> 10 & 0xfff) << (w >> 22 & 1 ? 12 : 0));
	if ((w & 0xffe0ffe0) == 0xaa0003e0) /* mov x, x */
		return h->reg[w >> 16 & 31];
	if ((w & 0xffffffe0) == 0x12800000) /* mov w, #-1 */
		return NO_LIMIT;
	return NONE;
}

static void a64_held(const struct insn *insn, const uint8_t *bytes, struct held *h)
{
	uint32_t w = a64_word(bytes);

	uint64_t got = a64_got(w, insn->addr, h);

	if (insn->flow != INSN_PLAIN) {
		forget(h);
		return;
	}
	if ((w & 0x0a000000) == 0x08000000) /* a load or store, which may move its base */
		h->reg[w >> 5 & 31] = NONE;
	if ((w & 0x1a000000) == 0x08000000) /* of two */
		h->reg[w >> 10 & 31] = NONE;
	h->reg[w & 31] = got;
}

/* --- walking through code ---------------------------------------------------------------------- */

typedef int (*step_fn)(const struct insn *insn, const struct held *before, void *arg);

/*
 * Calls @step for each instruction in [@addr, @end) until it returns non-zero. Returns that value,
 * or 0.
 */
static int walk(const struct plan_image *img, uint64_t addr, uint64_t end, step_fn step, void *arg,
	struct err *err)
{
	struct insn_decoder *dec;
	struct held held;
	struct insn insn;
	int code = insn_open(img->arch, &dec, err);

	if (code)
		return code;
	forget(&held);
	while (!code && addr < end) {
		size_t len = 0;
		const uint8_t *bytes = image_code(img, addr, &len);

		if (!bytes || !insn_decode(dec, bytes, len, addr, &insn))
			break;
		code = step(&insn, &held, arg);
		if (img->arch == PLAN_ARM64)
			a64_held(&insn, bytes, &held);
		else
			x86_held(&insn, bytes, &held);
		addr += insn.len;
	}
	insn_close(dec);
	return code;
}

/* --- registrations ------------------------------------------------------------------------------- */

struct reading {
	const struct plan_image *img;
	struct kernel_names *to;
};

/*
 * Returns the string at @addr if it can be a name: letters, digits, '_' and characters of
 * compilers. Otherwise returns NULL.
 */
static const char *text_at(const struct plan_image *img, uint64_t addr)
{
	for (size_t i = 0; i < img->segment_cnt; i++) {
		const struct plan_text *s = &img->segments[i];
		const uint8_t *p = s->bytes + (addr - s->addr), *end = s->bytes + s->size;

		if (addr < s->addr || addr - s->addr >= s->size)
			continue;
		for (const uint8_t *q = p; q < end; q++) {
			if (!*q)
				return q > p ? (const char *)p : NULL;
			if (*q <= ' ' || *q >= 0x7f)
				return NULL;
		}
	}
	return NULL;
}

static int take_call(const struct insn *insn, const struct held *held, void *arg)
{
	static const uint8_t x86_at[] = { 6, 2, 1, 8 }, a64_at[] = { 1, 2, 3, 4 };
	struct reading *r = arg;
	const uint8_t *at = r->img->arch == PLAN_ARM64 ? a64_at : x86_at;
	uint64_t host = held->reg[at[0]], text = held->reg[at[1]];
	const char *name;
	size_t len;

	if (insn->flow != INSN_CALL || text == NONE || text != held->reg[at[2]] ||
		held->reg[at[3]] != NO_LIMIT || !image_code(r->img, host, &len))
		return 0;
	name = text_at(r->img, text);
	if (!name)
		return 0;
	*array_add(r->to->names, r->to->cnt) = (struct kernel_name) { host, name };
	return 0;
}

/*
 * Returns the offset, from @at, of an instruction that loads -1 into the register of the thread
 * limit, or the size of @t.
 */
static size_t find_limit(const struct plan_image *img, const struct plan_text *t, size_t at)
{
	static const uint8_t mov[] = { 0x41, 0xb8, 0xff, 0xff, 0xff, 0xff }, or[] = { 0x41, 0x83,
		0xc8, 0xff }, a64[] = { 0x04, 0x00, 0x80, 0x12 };
	const uint8_t *from = t->bytes + at, *x, *y;

	if (img->arch == PLAN_ARM64) {
		x = memmem(from, t->size - at, a64, sizeof(a64));
		return x ? (size_t)(x - t->bytes) : t->size;
	}
	x = memmem(from, t->size - at, mov, sizeof(mov));
	y = memmem(from, x ? (size_t)(x - from) : t->size - at, or, sizeof(or));
	return y ? (size_t)(y - t->bytes) : x ? (size_t)(x - t->bytes) : t->size;
}

static int read_text(struct reading *r, const struct plan_text *t, struct err *err)
{
	int code = 0;

	for (size_t at = find_limit(r->img, t, 0); !code && at < t->size;) {
		const struct plan_fde *fde = image_fde(r->img, t->addr + at);
		size_t next = at + 1;

		if (fde) {
			code = walk(r->img, fde->start, fde->end, take_call, r, err);
			if (fde->end - t->addr > next)
				next = fde->end - t->addr;
		}
		at = next < t->size ? find_limit(r->img, t, next) : t->size;
	}
	return code;
}

DEFINE_ORDER(compare_names, struct kernel_name, RISING(host))

/* Removes duplicates, and all names of a host function that has contradicting ones. */
static void keep_one(struct kernel_names *k)
{
	size_t kept = 0;

	if (k->cnt)
		qsort(k->names, k->cnt, sizeof(*k->names), compare_names);
	for (size_t i = 0, n; i < k->cnt; i = n) {
		bool same = true;

		for (n = i + 1; n < k->cnt && k->names[n].host == k->names[i].host; n++)
			same &= !strcmp(k->names[n].name, k->names[i].name);
		if (same)
			k->names[kept++] = k->names[i];
	}
	k->cnt = kept;
}

int kernel_names_read(struct elf_file *elf, struct kernel_names *ret_names, struct err *err)
{
	struct plan_image img;
	struct reading r = { &img, ret_names };
	int code;

	*ret_names = (struct kernel_names) {};
	code = elf_file_image(elf, &img, err);
	for (size_t i = 0; !code && i < img.text_cnt; i++)
		code = read_text(&r, &img.texts[i], err);
	keep_one(ret_names);
	return code;
}

void kernel_names_done(struct kernel_names *k)
{
	free(k->names);
	*k = (struct kernel_names) {};
}

const struct kernel_name *kernel_names_find(const struct kernel_names *k, uint64_t host)
{
	size_t at = FIRST_WHERE(k->cnt, i, k->names[i].host >= host);

	return at < k->cnt && k->names[at].host == host ? &k->names[at] : NULL;
}

/* --- launches ---------------------------------------------------------------------------------- */

struct around {
	const struct kernel_names *names;
	const struct kernel_name *found;
};

static int take_address(const struct insn *insn, const struct held *before, void *arg)
{
	struct around *a = arg;
	const struct kernel_name *name = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(before->reg) && !name; i++)
		if (before->reg[i] != NONE)
			name = kernel_names_find(a->names, before->reg[i]);
	if (!name && insn->has_data && insn->takes_addr)
		name = kernel_names_find(a->names, insn->data);
	if (name && a->found && a->found != name)
		return -EEXIST;
	if (name)
		a->found = name;
	return 0;
}

const struct kernel_name *kernel_names_around(
	struct elf_file *elf, const struct kernel_names *k, uint64_t addr)
{
	struct around a = { k, NULL };
	const struct plan_fde *fde;
	struct plan_image img;

	if (!k->cnt || elf_file_image(elf, &img, NULL))
		return NULL;
	fde = image_fde(&img, addr);
	if (!fde)
		return NULL;
	a.found = kernel_names_find(k, fde->start);
	return walk(&img, fde->start, fde->end, take_address, &a, NULL) ? NULL : a.found;
}

bool kernel_calls(struct elf_file *elf, uint64_t addr, uint64_t callee)
{
	const struct plan_fde *fde;
	struct plan_image img;
	const uint8_t *bytes;
	size_t len, size;
	int32_t rel;

	if (elf_file_image(elf, &img, NULL))
		return false;
	fde = image_fde(&img, callee);
	size = img.arch == PLAN_ARM64 ? 4 : 5;
	bytes = image_code(&img, addr - size, &len);
	if (!fde || !bytes || len < size)
		return false;
	if (img.arch == PLAN_ARM64) {
		rel = (int32_t)(a64_word(bytes) << 6) >> 4;
		return a64_word(bytes) >> 26 == 0x25 && addr - 4 + (int64_t)rel == fde->start;
	}
	memcpy(&rel, bytes + 1, 4);
	return bytes[0] == 0xe8 && addr + (int64_t)rel == fde->start;
}

/* --- NCCL's communicators ---------------------------------------------------------------------- */

/* Known register contents at one instruction; forgotten at each call. */
struct regs {
	uint64_t member[32]; /* offset that it was loaded from, or */
	uint64_t number[32]; /* a number, or */
	uint64_t beyond[32]; /* a pointer plus this offset */
};

static void forget_reg(struct regs *r, unsigned int reg)
{
	r->member[reg] = r->number[reg] = r->beyond[reg] = NONE;
}

static void forget_all(struct regs *r)
{
	memset(r, 0xff, sizeof(*r));
}

static void hand_out(struct members *m, uint64_t at)
{
	if (at > INT32_MAX)
		return;
	for (size_t i = 0; i < m->cnt; i++)
		if (m->at[i] == at)
			return;
	if (m->cnt < MEMBERS_MAX)
		m->at[m->cnt++] = (uint32_t)at;
}

/* The displacement of a memory operand that has a base and no index. */
static bool x86_disp(const struct x86 *x, int32_t *ret_disp)
{
	const uint8_t *b = x->bytes + x->op_at + 2;
	uint8_t rm = x->modrm & 7, mod = x86_mod(x);
	size_t left = x->len - x->op_at - 2;

	if (mod == 3 || (mod == 0 && rm == 5) || x->op_at + 2u > x->len)
		return false;
	if (rm == 4) {
		if (!left || (*b & 0x38) != 0x20 || x->rex & 2 || (!mod && (*b & 7) == 5))
			return false;
		b++;
		left--;
	}
	if (left < (mod == 2 ? 4 : mod))
		return false;
	*ret_disp = mod == 1 ? (int8_t)*b : 0;
	if (mod == 2)
		memcpy(ret_disp, b, 4);
	return true;
}

static void x86_step(const struct insn *insn, const uint8_t *bytes, struct regs *r, struct members *m)
{
	struct insn_effect e;
	struct x86 x;
	int32_t disp;
	bool plain;

	if (!x86_split(bytes, insn->len, &x)) {
		forget_all(r);
		return;
	}
	plain = x.map == X86_MAP_1 && !(x.rex & 8) && !(x.prefix & ~X86_P_DS);
	if (plain && x.op == 0x89 && x86_disp(&x, &disp) && !disp)
		hand_out(m, r->member[x86_reg_no(&x)]);
	if (insn->flow != INSN_PLAIN || !x86_effect(&x, &e)) {
		forget_all(r);
		return;
	}
	for (unsigned int reg = 0; reg < 16; reg++)
		if (e.writes >> reg & 1)
			forget_reg(r, reg);
	if (plain && x.op == 0x8b && x86_disp(&x, &disp) && disp >= 0)
		r->member[x86_reg_no(&x)] = (uint32_t)disp;
}

/* Offset of a 32-bit load: pointer plus immediate, or pointer plus register. */
static uint64_t a64_member(uint32_t word, const struct regs *r)
{
	unsigned int base = word >> 5 & 31, index = word >> 16 & 31;
	uint64_t beyond = r->beyond[base] == NONE ? 0 : r->beyond[base];

	if ((word & 0xffc00000) == 0xb9400000) /* ldr w, [x, #n] */
		return beyond + (word >> 10 & 0xfff) * 4;
	if ((word & 0xffe0fc00) == 0xb8606800) /* ldr w, [x, x] */
		return r->number[index] == NONE ? NONE : beyond + r->number[index];
	return NONE;
}

/* A number that is assembled from 16-bit pieces. */
static uint64_t a64_number(uint32_t word, const struct regs *r)
{
	unsigned int shift = (word >> 21 & 3) * 16;
	uint64_t piece = (uint64_t)(word >> 5 & 0xffff) << shift, was = r->number[word & 31];

	if ((word & 0x7f800000) == 0x52800000) /* movz */
		return piece;
	if ((word & 0x7f800000) == 0x72800000 && was != NONE) /* movk */
		return (was & ~(0xffffULL << shift)) | piece;
	return NONE;
}

static uint64_t a64_beyond(uint32_t word, const struct regs *r)
{
	if ((word & 0xff800000) == 0x91000000) /* add x, x, #n */
		return (uint64_t)(word >> 10 & 0xfff) << (word >> 22 & 1 ? 12 : 0);
	if ((word & 0xffe0fc00) == 0x8b000000) /* add x, x, x */
		return r->number[word >> 16 & 31];
	return NONE;
}

static void a64_step(const struct insn *insn, const uint8_t *bytes, struct regs *r, struct members *m)
{
	uint32_t word = a64_word(bytes), to = word & 31;
	uint64_t member, number, beyond;

	if ((word & 0xfffffc00) == 0xb9000000) { /* str w, [x] */
		hand_out(m, r->member[to]);
		return;
	}
	if (insn->flow != INSN_PLAIN) {
		forget_all(r);
		return;
	}
	member = a64_member(word, r);
	number = a64_number(word, r);
	beyond = a64_beyond(word, r);
	forget_reg(r, to);
	r->member[to] = member;
	r->number[to] = number;
	r->beyond[to] = beyond;
}

int members_handed_out(const struct plan_image *img, uint64_t addr, uint64_t end,
	struct members *ret_members, struct err *err)
{
	struct insn_decoder *dec;
	struct insn insn;
	struct regs regs;
	int code = insn_open(img->arch, &dec, err);

	*ret_members = (struct members) {};
	if (code)
		return code;
	forget_all(&regs);
	while (addr < end) {
		size_t len = 0;
		const uint8_t *bytes = image_code(img, addr, &len);

		if (!bytes || !insn_decode(dec, bytes, len, addr, &insn))
			break;
		if (img->arch == PLAN_ARM64)
			a64_step(&insn, bytes, &regs, ret_members);
		else
			x86_step(&insn, bytes, &regs, ret_members);
		addr += insn.len;
	}
	insn_close(dec);
	return 0;
}

/* In the order of the members that they return. */
static const char *const accessors[] = { "ncclCommUserRank", "ncclCommCount", "ncclCommCuDevice" };

#define HASH_BYTES 8

static bool has_member(const struct members *m, uint64_t at)
{
	return ANY_WHERE(m->cnt, i, m->at[i] == at);
}

/* Finds the offset on which all accessors agree. Returns the number of such offsets. */
static size_t agree(const struct members *m, uint32_t *ret_at)
{
	size_t cnt = 0;

	for (size_t i = 0; i < m[0].cnt; i++) {
		uint64_t at = m[0].at[i];

		if (at < HASH_BYTES || !has_member(&m[1], at + 4) || !has_member(&m[2], at + 8))
			continue;
		*ret_at = (uint32_t)at - HASH_BYTES;
		cnt++;
	}
	return cnt;
}

int communicator_find(struct elf_file *elf, uint32_t *ret_at, struct err *err)
{
	const char *path = elf_file_info(elf)->path;
	struct members members[ARRAY_SIZE(accessors)];
	const struct elf_func *funcs;
	struct plan_image img;
	size_t func_cnt;
	int code = elf_file_funcs(elf, &funcs, &func_cnt, err);

	if (!code)
		code = elf_file_image(elf, &img, err);
	for (size_t i = 0; !code && i < ARRAY_SIZE(accessors); i++) {
		const struct elf_name *name =
			elf_file_lookup(elf, accessors[i], strlen(accessors[i]));
		const struct elf_func *f = name ? &funcs[name->func] : NULL;

		if (!f || !f->in_code)
			return err_set(err, -ENOENT, "%s has no function '%s'", path, accessors[i]);
		code = members_handed_out(&img, f->addr,
			f->size ? f->addr + f->size : image_next_start(&img, f->addr),
			&members[i], err);
	}
	if (!code && agree(members, ret_at) != 1)
		return err_set(err, -EBADMSG,
			"cannot find the rank in communicators of %s: "
			"ncclCommUserRank, ncclCommCount and ncclCommCuDevice disagree", path);
	return code;
}
