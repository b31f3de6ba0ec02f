// SPDX-License-Identifier: BSD-2-Clause
// The rule for executables whose functions may have return probes.
#include <string.h>

#include "base/util.h"
#include "target/safe.h"

/* glibc's own libraries; what they need is among them. */
static const char *const c_family[] = { "libc.so.", "libm.so.", "libpthread.so.", "libdl.so.",
	"librt.so.", "libutil.so.", "libresolv.so.", "libanl.so.", "libmvec.so.", "ld-linux" };

/*
 * What takes frames away or moves to another stack. With dlopen, code that does so may
 * come later.
 */
static const char *const hazards[] = { "_Unwind_*", "__gxx_personality_v0",
	"__gcc_personality_v0", "swapcontext", "makecontext", "setcontext", "sigaltstack",
	"pthread_exit", "pthread_cancel", "dlopen", "dlmopen" };

static bool is_c_family(const char *soname)
{
	for (size_t i = 0; i < ARRAY_SIZE(c_family); i++)
		if (!strncmp(soname, c_family[i], strlen(c_family[i])))
			return true;
	return false;
}

int safe_return_why(struct elf_file *elf, const char **ret_why, struct err *err)
{
	const struct elf_info *info = elf_file_info(elf);
	const struct elf_func *funcs;
	size_t cnt;
	int code;

	*ret_why = NULL;
	if (!info->executable || info->go)
		return 0;
	for (size_t i = 0; i < info->needed_cnt; i++)
		if (!is_c_family(info->needed[i]))
			return 0;
	code = elf_file_funcs(elf, &funcs, &cnt, err);
	if (code)
		return code;
	if (!elf_file_names_known(elf))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(hazards); i++) {
		code = elf_file_names_symbol(elf, hazards[i], err);
		if (code)
			return code < 0 ? code : 0;
	}
	*ret_why = "executable of the C library alone, without unwinding or other stacks";
	return 0;
}
