// SPDX-License-Identifier: BSD-2-Clause
// Prototypes from BTF, and the location of arguments next to those in other registers.
#include <bpf/btf.h>
#include <stdlib.h>
#include <string.h>

#include "preset/preset.h"
#include "tap.h"
#include "target/types.h"

static void prototype_is(const struct preset_func *func, const char *want)
{
	char *text = types_prototype(func ? func->name : "", func);

	is_str(text, want, want);
	free(text);
}

/* const char, *, enum, struct, and functions of them. */
static struct btf *make(int *ret_func, int *ret_print, int *ret_long)
{
	struct btf *btf = btf__new_empty();
	int c, number, bytes, text, mode, file, done, proto;

	number = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	bytes = btf__add_typedef(btf, "size_t", btf__add_int(btf, "long unsigned int", 8, 0));
	c = btf__add_int(btf, "char", 1, BTF_INT_SIGNED);
	text = btf__add_ptr(btf, btf__add_const(btf, c));
	mode = btf__add_enum(btf, "mode", 4);
	btf__add_enum_value(btf, "WRITE", 2);
	btf__add_enum_value(btf, "READ", 1);
	btf__add_enum_value(btf, "READ_TOO", 1);
	file = btf__add_ptr(btf, btf__add_struct(btf, "file", 24));

	proto = btf__add_func_proto(btf, number);
	btf__add_func_param(btf, NULL, text);
	btf__add_func_param(btf, NULL, bytes);
	done = btf__add_ptr(btf, proto);

	proto = btf__add_func_proto(btf, number);
	btf__add_func_param(btf, "path", text);
	btf__add_func_param(btf, "mode", mode);
	btf__add_func_param(btf, "file", file);
	btf__add_func_param(btf, "size", bytes);
	btf__add_func_param(btf, "done", done);
	*ret_func = btf__add_func(btf, "do_open", BTF_FUNC_GLOBAL, proto);

	proto = btf__add_func_proto(btf, 0);
	btf__add_func_param(btf, "format", text);
	btf__add_func_param(btf, NULL, 0);
	*ret_print = btf__add_func(btf, "print", BTF_FUNC_GLOBAL, proto);

	proto = btf__add_func_proto(btf, number);
	for (int i = 0; i <= TYPES_ARGS; i++)
		btf__add_func_param(btf, "same", number);
	*ret_long = btf__add_func(btf, "endless", BTF_FUNC_GLOBAL, proto);
	return btf;
}

static void test_btf(void)
{
	struct targets targets = { 0 };
	struct btf_types *types = btf_types_new(&targets);
	int func, print, endless;
	struct btf *btf = make(&func, &print, &endless);
	const struct preset_func *f;

	f = types_of_btf(types, btf, func);
	prototype_is(f, "do_open(const char *path, enum mode mode, struct file *file, size_t size, "
			"int (*done)(const char *, size_t)) -> int");
	ok(f->args[0].value.kind == TYPE_STRING && f->args[4].value.kind == TYPE_POINTER,
		"text and pointers are told apart");
	ok(f->args[1].value.type->code_cnt == 2 && f->args[1].value.type->codes[0].code == 1 &&
			!strcmp(f->args[1].value.type->codes[1].name, "WRITE"),
		"values are sorted, each once");
	ok(f->args[4].place.where == PLACE_REG && f->args[4].place.index == 4,
		"arguments are in registers, in their order");
	prototype_is(types_of_btf(types, btf, print), "print(const char *format, ...) -> void");
	prototype_is(types_of_btf(types, btf, endless), "endless");
	prototype_is(types_of_btf(types, btf, 1), "");
	prototype_is(types_of_btf(types, btf, 100000), "");
	btf_types_free(types);
	targets_done(&targets);
	btf__free(btf);
}

/* "r0 s1 -": registers, stack, nowhere. */
static void places_are(struct preset_arg *args, size_t cnt, enum preset_abi abi, const char *want)
{
	const struct preset_value none = { .kind = TYPE_VOID };
	char text[256] = "";

	args_place(args, cnt, &none, abi);
	for (size_t i = 0; i < cnt; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c%u", i ? " " : "",
			args[i].place.where == PLACE_REG             ? 'r'
				: args[i].place.where == PLACE_STACK ? 's'
								     : '-',
			args[i].place.index);
	is_str(text, want, want);
}

static void test_places(void)
{
	const struct preset_value word = { .kind = TYPE_INT, .size = 8 },
				  mixed = { .kind = TYPE_STRUCT, .size = 16,
					  .passing = PASS_FLOATS, .floats = 1, .words = 1 },
				  reals = { .kind = TYPE_STRUCT, .size = 32,
					  .passing = PASS_FLOATS, .floats = 4 },
				  empty = { .kind = TYPE_STRUCT, .size = 1, .passing = PASS_NOT },
				  on_stack = { .kind = TYPE_STRUCT, .size = 16,
					  .passing = PASS_STACK, .is_even = true },
				  wide = { .kind = TYPE_STRUCT, .size = 16, .is_even = true };
	struct preset_arg args[] = { { .value = word }, { .value = mixed }, { .value = word },
		{ .value = empty }, { .value = word }, { .value = on_stack }, { .value = word } };
	struct preset_arg more[] = { { .value = reals }, { .value = reals }, { .value = reals },
		{ .value = word }, { .value = wide }, { .value = word } };

	places_are(args, ARRAY_SIZE(args), PRESET_ABI_X86_64, "r0 -0 r2 -0 r3 s0 r4");
	places_are(more, ARRAY_SIZE(more), PRESET_ABI_ARM64, "-0 -0 s0 r0 r2 r4");
}

int main(void)
{
	test_btf();
	test_places();
	return tap_done();
}
