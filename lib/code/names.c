// SPDX-License-Identifier: BSD-2-Clause
// Functions that are known by name: those whose calls are never followed, and cold parts.
#include <string.h>

#include "internal.h"

static const struct {
	const char *why;
	const char *names[20]; /* whole names */
	const char *prefixes[8];
	const char *suffixes[4];
} groups[] = {
	{
		"it is the unwinder's own: it leaves by other ways than a return",
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
		"it is entered without a return address of its own",
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
