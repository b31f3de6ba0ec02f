// SPDX-License-Identifier: BSD-2-Clause
// Code that leaves its stack: whether a program has any, and functions that are known by name
// for it, for coming back in other ways than a call does, or for none of this.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static void cleanup_decoder(struct insn_decoder **dec)
{
	insn_close(*dec);
}

static size_t zeros(const uint8_t *bytes, size_t len)
{
	size_t cnt = 0;

	while (cnt < len && !bytes[cnt])
		cnt++;
	return cnt;
}

/* Decodes [@addr, @end) of @t; false when an instruction goes elsewhere, or is none. */
static bool part_stays(const struct plan_image *img, struct insn_decoder *dec,
	const struct plan_text *t, uint64_t addr, uint64_t end)
{
	bool goes_on = false;

	while (addr < end) {
		const uint8_t *bytes = t->bytes + (addr - t->addr);
		size_t padding = zeros(bytes, end - addr);
		struct insn insn;

		/* between sections lie zeros; a single one, too, where nothing comes from above */
		if (padding > 1 || (padding && !goes_on)) {
			addr += padding;
			continue;
		}
		if (!insn_decode(dec, bytes, end - addr, addr, &insn) ||
			insn_switches_stack(img->arch, &insn, bytes, end - addr))
			return false;
		goes_on = insn.flow == INSN_PLAIN || insn.flow == INSN_JCC ||
			insn.flow == INSN_CALL;
		addr += insn.len;
	}
	return true;
}

bool plan_stays_on_stack(const struct plan_image *img, size_t max_bytes)
{
	struct insn_decoder *dec __cleanup(cleanup_decoder) = NULL;
	size_t bytes = 0;
	struct err err;

	for (size_t i = 0; i < img->text_cnt; i++)
		bytes += img->texts[i].size;
	if (bytes > max_bytes || insn_open(img->arch, &dec, &err))
		return false;
	for (size_t i = 0; i < img->text_cnt; i++) {
		const struct plan_text *t = &img->texts[i];
		uint64_t addr = t->addr, end = addr + t->size;

		/* what is told of the starts of code keeps the decoder in step */
		while (addr < end) {
			uint64_t next = image_next_start(img, addr);

			if (next > end)
				next = end;
			if (!part_stays(img, dec, t, addr, next))
				return false;
			addr = next;
		}
	}
	return true;
}

static const struct {
	const char *why;
	const char *names[20]; /* whole names */
	const char *prefixes[8];
	const char *suffixes[4];
} groups[] = {
	{
		"it belongs to the unwinder and does not return to its caller",
		{ "__gxx_personality_v0", "__gxx_personality_sj0", "__gcc_personality_v0",
			"__gnat_personality_v0", "__objc_personality_v0",
			"rust_eh_personality", "__gxx_wasm_personality_v0",
			"uw_install_context", "uw_init_context" },
		{ "_Unwind_", "_ULx86_64_", "_Ux86_64_", "_ULaarch64_", "_Uaarch64_",
			"unw_", "__unw_" },
		{ NULL },
	},
	{
		"setjmp and longjmp return to another place, or twice",
		{ "setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "longjmp",
			"_longjmp", "__longjmp", "siglongjmp", "__longjmp_chk",
			"____longjmp_chk", "__libc_longjmp", "__libc_siglongjmp",
			"__sigsetjmp_cancel", "__sigjmp_save", "FPC_SETJMP",
			"FPC_LONGJMP" },
		{ NULL },
		{ NULL },
	},
	{
		"it returns twice on one stack",
		{ "vfork", "__vfork", "__libc_vfork", "__vfork_asm" },
		{ NULL },
		{ NULL },
	},
	{
		"it switches to another stack or context",
		{ "swapcontext", "__swapcontext", "setcontext", "__setcontext",
			"getcontext", "__getcontext", "makecontext", "__makecontext",
			"__start_context", "co_switch", "co_swap", "coctx_swap",
			"__morestack", "swift_task_switch" },
		{ "__push___start_context" },
		{ "jump_fcontext", "make_fcontext", "ontop_fcontext" },
	},
	{
		"it is not entered by a call, and has no return address",
		{ "_start", "_dl_start_user", "__restore_rt", "__restore",
			"__kernel_rt_sigreturn", "_dl_tlsdesc_return",
			"_dl_tlsdesc_undefweak", "_dl_tlsdesc_dynamic" },
		{ "_dl_runtime_resolve", "_dl_runtime_profile", "__switch_to_user" },
		{ NULL },
	},
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

const char *name_not_followed(const char *name)
{
	if (!name)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(groups[i].names) && groups[i].names[k];
			k++)
			if (strcmp(name, groups[i].names[k]) == 0)
				return groups[i].why;
		for (size_t k = 0;
			k < ARRAY_SIZE(groups[i].prefixes) && groups[i].prefixes[k]; k++)
			if (strncmp(name, groups[i].prefixes[k],
				    strlen(groups[i].prefixes[k])) == 0)
				return groups[i].why;
		for (size_t k = 0;
			k < ARRAY_SIZE(groups[i].suffixes) && groups[i].suffixes[k]; k++)
			if (ends_with(name, groups[i].suffixes[k]))
				return groups[i].why;
	}
	return NULL;
}

/* Sorted. */
static const char *const calculates[] = { "__assert_fail", "__chk_fail", "__ctype_b_loc",
	"__ctype_tolower_loc", "__ctype_toupper_loc", "__errno_location", "__memcpy_chk",
	"__memmove_chk", "__memset_chk", "__stack_chk_fail", "__stpcpy_chk", "__strcat_chk",
	"__strcpy_chk", "__strncat_chk", "__strncpy_chk", "abort", "abs", "bcmp", "bzero", "ceil",
	"ceilf", "cos", "cosf", "exp", "expf", "floor", "floorf", "fmod", "fmodf", "labs",
	"ldexp", "log", "log2", "logf", "memccpy", "memchr", "memcmp", "memcpy", "memmem",
	"memmove", "mempcpy", "memrchr", "memset", "pow", "powf", "rawmemchr", "sin", "sinf",
	"sqrt", "sqrtf", "stpcpy", "stpncpy", "strcasecmp", "strcasestr", "strcat", "strchr",
	"strchrnul", "strcmp", "strcpy", "strcspn", "strlen", "strncasecmp", "strncat",
	"strncmp", "strncpy", "strnlen", "strpbrk", "strrchr", "strspn", "strstr", "strtol",
	"strtoll", "strtoul", "strtoull", "tan", "tanf", "tolower", "toupper" };

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, *(const char *const *)b);
}

bool name_only_calculates(const char *name)
{
	return bsearch(name, calculates, ARRAY_SIZE(calculates), sizeof(*calculates),
		compare_names);
}
