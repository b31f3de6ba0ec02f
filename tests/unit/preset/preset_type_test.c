// SPDX-License-Identifier: BSD-2-Clause
/* C declarations, and the location of their arguments. */
#include "preset/preset.h"

#include "config.h"

/* The integer argument registers and the words of the stack, as a function finds them. */
uint64_t captured[8 + 24];
void capture(void);

#ifdef __x86_64__
__asm__(".pushsection .text\n"
	".globl capture\n"
	"capture:\n"
	"	lea captured(%rip), %rax\n"
	"	mov %rdi, 0(%rax)\n"
	"	mov %rsi, 8(%rax)\n"
	"	mov %rdx, 16(%rax)\n"
	"	mov %rcx, 24(%rax)\n"
	"	mov %r8, 32(%rax)\n"
	"	mov %r9, 40(%rax)\n"
	"	xor %ecx, %ecx\n"
	"1:	mov 8(%rsp,%rcx,8), %rdx\n"
	"	mov %rdx, 64(%rax,%rcx,8)\n"
	"	inc %ecx\n"
	"	cmp $24, %ecx\n"
	"	jne 1b\n"
	"	ret\n"
	".popsection\n");
#else
__asm__(".pushsection .text\n"
	".globl capture\n"
	"capture:\n"
	"	adrp x9, captured\n"
	"	add x9, x9, :lo12:captured\n"
	"	stp x0, x1, [x9]\n"
	"	stp x2, x3, [x9, 16]\n"
	"	stp x4, x5, [x9, 32]\n"
	"	stp x6, x7, [x9, 48]\n"
	"	mov x10, 0\n"
	"1:	ldr x11, [sp, x10, lsl 3]\n"
	"	add x12, x9, 64\n"
	"	str x11, [x12, x10, lsl 3]\n"
	"	add x10, x10, 1\n"
	"	cmp x10, 24\n"
	"	b.ne 1b\n"
	"	ret\n"
	".popsection\n");
#endif

/* The first 8 bytes at the location of @arg. */
static uint64_t at_place(const struct preset_arg *arg)
{
	uint64_t word = 0;

	if (arg->place.where == PLACE_REG)
		word = captured[arg->place.index];
	else if (arg->place.where == PLACE_STACK)
		word = captured[8 + arg->place.index];
	return arg->place.by_ref ? *(uint64_t *)(uintptr_t)word : word;
}

struct three {
	uint32_t x, y, z;
};
struct large {
	uint64_t words[4];
};
struct two {
	uint64_t a, b;
};

static void test_places(void)
{
	static const char text[] =
		"{ \"types\": { \"three\": { \"base\": \"struct\", \"size\": 12 },\n"
		"  \"large\": { \"base\": \"struct\", \"size\": 32 },\n"
		"  \"two\": { \"base\": \"struct\", \"size\": 16 } },\n"
		"\"p_sym\": {\n"
		" \"launch\": { \"args\": [\"void *f\", \"three g\", \"three b\", \"void **args\", \"size_t n\", \"void *s\"] },\n"
		" \"mixed\": { \"args\": [\"int a\", \"double d\", \"large l\", \"float _Complex c\", \"int b\", \"long double e\", \"char k\"] },\n"
		" \"spill\": { \"args\": [\"int a\", \"int b\", \"int c\", \"int d\", \"int e\", \"two t\", \"int g\", \"int h\", \"int i\", \"two u\", \"int j\"] },\n"
		" \"floats\": { \"args\": [\"double _Complex a\", \"double _Complex b\", \"double _Complex c\", \"double d\", \"double _Complex e\", \"double f\", \"double g\", \"int h\", \"int i\"] },\n"
		" \"odd\": { \"args\": [\"long a\", \"long b\", \"long c\", \"long d\", \"long e\", \"long f\", \"long g\", \"long double h\", \"long i\"] },\n"
		" \"result\": { \"ret\": \"large\", \"args\": [\"int a\"] }\n"
		"} }";
	_cleanup_set_ struct preset_set *set = parse(text);
	const struct three g = { 0x11111111, 0x22222222, 3 };
	const struct three b = { 0x44444444, 0x55555555, 6 };
	const struct large l = { { 0x7777, 8, 9, 10 } };
	const struct two t = { 0x6666, 0x6767 };
	const struct preset_arg *a;
	int x = 0;
	void (*volatile called)(void) = capture;

	if (!ok(set, "the file of signatures is read"))
		return;
	a = func_of(set, "p", "launch")->args;
	((void (*)(void *, struct three, struct three, void **, size_t, void *))called)(
		&x, g, b, (void **)&g, 12345, &set);
	ok(at_place(&a[0]) == (uintptr_t)&x, "a pointer is where it is said to be");
	ok(at_place(&a[1]) == 0x2222222211111111 && a[1].place.words == 2,
		"so is a small structure");
	ok(at_place(&a[2]) == 0x5555555544444444, "and another");
	ok(at_place(&a[3]) == (uintptr_t)&g, "what comes after");
	ok(at_place(&a[4]) == 12345 && at_place(&a[5]) == (uintptr_t)&set,
		"and what is left");

	a = func_of(set, "p", "mixed")->args;
	((void (*)(int, double, struct large, float _Complex, int, long double,
		char))called)(1, 2.0, l, 3.0f, 4, 5.0L, 'k');
	ok((int)at_place(&a[0]) == 1 && a[1].place.where == PLACE_NOWHERE,
		"a double takes no place");
	ok(at_place(&a[2]) == 0x7777, "a large structure is in memory");
	ok((int)at_place(&a[4]) == 4 && a[3].place.where == PLACE_NOWHERE,
		"it and a complex number take no register");
	ok((char)at_place(&a[6]) == 'k', "a long double neither");

	a = func_of(set, "p", "spill")->args;
	((void (*)(int, int, int, int, int, struct two, int, int, int, struct two,
		int))called)(1, 2, 3, 4, 5, t, 6, 7, 8, t, 9);
	ok(at_place(&a[5]) == 0x6666, "a structure that no registers are left for");
	ok((int)at_place(&a[6]) == 6 && (int)at_place(&a[7]) == 7 &&
			(int)at_place(&a[8]) == 8,
		"and the numbers after it");
	ok(at_place(&a[9]) == 0x6666 && (int)at_place(&a[10]) == 9, "to the last");

	a = func_of(set, "p", "floats")->args;
	((void (*)(double _Complex, double _Complex, double _Complex, double,
		double _Complex, double, double, int, int))called)(
		1, 2, 3, 4, 5, 6, 7, 8, 9);
	ok((int)at_place(&a[7]) == 8 && (int)at_place(&a[8]) == 9,
		"many floating point numbers");
	if (a[4].place.where == PLACE_STACK) {
		double first;

		memcpy(&first, &(uint64_t) { at_place(&a[4]) }, sizeof(first));
		ok(first == 5, "the one that found no register is on the stack");
	}
	a = func_of(set, "p", "odd")->args;
	((void (*)(long, long, long, long, long, long, long, long double, long))called)(
		1, 2, 3, 4, 5, 6, 7, 8.0L, 9);
	ok(at_place(&a[6]) == 7 && at_place(&a[8]) == 9,
		"a long double stands at an even word of the stack");

	a = func_of(set, "p", "result")->args;
	((struct large(*)(int))called)(42);
	ok((int)at_place(&a[0]) == 42,
		"a large result's address comes first where it does");
}

static void test_declarations(void)
{
	static const struct {
		const char *text;
		enum type_kind kind;
		uint32_t size;
		bool is_signed;
		const char *name;
	} good[] = {
		{ "int", TYPE_INT, 4, true, "" },
		{ "unsigned", TYPE_INT, 4, false, "" },
		{ "unsigned x", TYPE_INT, 4, false, "x" },
		{ "long unsigned int x", TYPE_INT, 8, false, "x" },
		{ "const unsigned long long mask", TYPE_INT, 8, false, "mask" },
		{ "short", TYPE_INT, 2, true, "" },
		{ "unsigned char c", TYPE_INT, 1, false, "c" },
		{ "bool flag", TYPE_BOOL, 1, false, "flag" },
		{ "double x", TYPE_FLOAT, 8, true, "x" },
		{ "long double", TYPE_FLOAT, 16, true, "" },
		{ "double _Complex z", TYPE_COMPLEX, 16, true, "z" },
		{ "void *p", TYPE_POINTER, 8, false, "p" },
		{ "void *const*p", TYPE_POINTER, 8, false, "p" },
		{ "struct thing *", TYPE_POINTER, 8, false, "" },
		{ "const at::Tensor &self", TYPE_POINTER, 8, false, "self" },
		{ "std::vector<std::pair<int, long>> &&v", TYPE_POINTER, 8, false,
			"v" },
		{ "char *buf", TYPE_POINTER, 8, false, "buf" },
		{ "const char *s", TYPE_STRING, 8, false, "s" },
		{ "char const *s", TYPE_STRING, 8, false, "s" },
		{ "const char **s", TYPE_POINTER, 8, false, "s" },
		{ "const char s[]", TYPE_POINTER, 8, false, "s" },
		{ "int dims[3][4]", TYPE_POINTER, 8, false, "dims" },
		{ "void (*fn)(void *, int)", TYPE_POINTER, 8, false, "fn" },
		{ "void (*)(void)", TYPE_POINTER, 8, false, "" },
	};
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct declaration d;
		const char *why;
		int rc = declaration_parse(good[i].text, true, NULL, NULL, &d, &why);

		snprintf(name, sizeof(name), "%.*s", (int)d.name_len,
			d.name ? d.name : "");
		ok(!rc && d.value.kind == good[i].kind && d.value.size == good[i].size &&
				d.value.is_signed == good[i].is_signed &&
				!strcmp(name, good[i].name),
			"declaration '%s'", good[i].text);
	}
}

/* The convention of the other machine, by its words: AAPCS64, section 6.8.2. */
static void test_arm64(void)
{
	static const char text[] =
		"{ \"types\": { \"three\": { \"base\": \"struct\", \"size\": 12 },\n"
		"  \"large\": { \"base\": \"struct\", \"size\": 32 } },\n"
		"\"p_sym\": { \"f\": { \"ret\": \"large\", \"args\": [\"int a\", \"three t\", \"large l\","
		" \"float _Complex c\", \"long d\", \"long e\", \"long f\", \"three spilled\", \"int last\"] } } }";
	static const struct preset_place want[] = {
		{ PLACE_REG, 0, 1, false },
		{ PLACE_REG, 1, 2, false },
		{ PLACE_REG, 3, 1, true },
		{ PLACE_NOWHERE, 0, 0, false },
		{ PLACE_REG, 4, 1, false },
		{ PLACE_REG, 5, 1, false },
		{ PLACE_REG, 6, 1, false },
		{ PLACE_STACK, 0, 2, false },
		{ PLACE_STACK, 2, 1, false },
	};
	_cleanup_set_ struct preset_set *set = parse(text);
	const struct preset_func *f = func_of(set, "p", "f");

	if (!ok(f && f->arg_cnt == ARRAY_SIZE(want), "the signature for arm64 is read"))
		return;
	args_place((struct preset_arg *)f->args, f->arg_cnt, &f->ret, PRESET_ABI_ARM64);
	for (size_t i = 0; i < f->arg_cnt; i++) {
		const struct preset_place *p = &f->args[i].place;

		ok(p->where == want[i].where && p->index == want[i].index &&
				p->words == want[i].words && p->by_ref == want[i].by_ref,
			"on arm64 '%s' is where the convention puts it", f->args[i].text);
	}
}

int main(void)
{
	test_declarations();
	test_places();
	test_arm64();
	return tap_done();
}
