// SPDX-License-Identifier: BSD-2-Clause
// Fuzzing what is read of debug information: hostile files must end in sound types, or in none.
#include "target/types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "elf/dwarf.h"
#include "target/kind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_FUNCS   256
#define MOST_MEMBERS 4 /* each looks through the file again */

static void check(bool good)
{
	if (!good)
		abort();
}

static int make_file(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);

	check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	return TAKE_FD(fd);
}

/* Each function that the file has, asked for by its address. */
static void want(struct targets *targets, const struct object *object)
{
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(object->elf, &funcs, &cnt, NULL))
		return;
	for (size_t i = 0; i < cnt && i < MOST_FUNCS; i++) {
		const struct target t = { .kind = &target_user, .object = object,
			.name = funcs[i].names->name, .symbol = funcs[i].names->name,
			.func = &funcs[i], .addr = funcs[i].addr };

		targets_add(targets, &t);
	}
}

/* Reads the lines of each function, and of functions inlined there. */
static size_t touch_lines(const struct object *object)
{
	struct elf_line line[ELF_LINES_MAX];
	const struct elf_func *funcs;
	size_t cnt, sum = 0;

	if (elf_file_funcs(object->elf, &funcs, &cnt, NULL))
		return 0;
	for (size_t i = 0; i < cnt && i < MOST_FUNCS; i++)
		for (uint64_t at = 0; at < funcs[i].size && at < 64; at += 8) {
			size_t n = elf_lines_at(object->elf, funcs[i].addr + at, line);

			check(n <= ELF_LINES_MAX && (!n || !line[n - 1].inlined));
			for (size_t k = 0; k < n; k++)
				sum += (line[k].function ? strlen(line[k].function) : 0) +
					(line[k].source ? strlen(line[k].source) : 0) +
					(line[k].folder ? strlen(line[k].folder) : 0);
		}
	return sum;
}

static bool any(void *arg, const char *name)
{
	*(size_t *)arg += strlen(name);
	return true;
}

/* Finds the copies of a function where others have it. */
static size_t touch_inlined(const struct object *object, const char *symbol)
{
	struct elf_inlined inlined;
	size_t sum = 0;

	elf_inlined_find(object->elf, symbol, any, &sum, &inlined);
	check(inlined.into_cnt <= inlined.copy_cnt && !(inlined.copy_cnt && inlined.copies_gone));
	for (size_t i = 0; i < inlined.into_cnt; i++)
		check(!i || inlined.into[i] > inlined.into[i - 1]);
	elf_inlined_done(&inlined);
	return sum;
}

static size_t touch(const struct preset_func *known)
{
	size_t sum = known->types_why ? strlen(known->types_why) : 0;
	char *text = types_prototype("f", known);

	check(text && (known->has_args || !known->arg_cnt) && known->arg_cnt <= TYPES_ARGS);
	for (size_t i = 0; i < known->arg_cnt; i++) {
		const struct preset_arg *a = &known->args[i];
		const struct preset_type *type = a->value.type;

		check(a->name && a->text && a->value.kind <= TYPE_CLASS &&
			a->place.where <= PLACE_STACK && preset_value_fits_word(&a->value));
		for (size_t k = 0; type && k < type->code_cnt; k++) {
			check(!k || type->codes[k - 1].code < type->codes[k].code);
			sum += strlen(type->codes[k].name);
		}
	}
	for (const char *p = text; *p; p++)
		check(*p >= 0x20 && *p < 0x7f);
	sum += strlen(text);
	free(text);
	return sum;
}

/* Reads the members that arguments point to, by the names in the seeds. */
static size_t touch_members(const struct target *t)
{
	static const char *const paths[] = { "shape.rows", "dims[3]", "next", "y" };
	struct member_at m;
	const char *why;
	size_t sum = 0;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(paths); i++) {
		int code = types_member(t, i % 2, paths[i / 2], &m, &why);

		check(!code || code == -EINVAL);
		if (code)
			sum += strlen(why);
		else
			check(m.bytes && m.bytes <= 8 && !(m.bytes & (m.bytes - 1)) &&
				m.at <= 1U << 30);
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct targets targets = { 0 };
	struct object object = { .kind = OBJECT_FILE, .path = "fuzz" };
	size_t sum = 0;

	if (elf_file_open_fd(make_file(data, size), "fuzz", -1, NULL, &object.elf, NULL))
		return 0;
	want(&targets, &object);
	types_of_files(&targets, true);
	for (size_t i = 0; i < targets.cnt; i++)
		sum += targets.target[i].known ? touch(targets.target[i].known) : 0;
	for (size_t i = 0; i < targets.cnt && i < MOST_MEMBERS; i++)
		sum += touch_members(&targets.target[i]) +
			touch_inlined(&object, targets.target[i].symbol);
	sum += touch_lines(&object);
	targets_done(&targets);
	elf_file_free(object.elf);
	return sum == SIZE_MAX;
}
