// SPDX-License-Identifier: BSD-2-Clause
// The rules for files: whose functions may have return probes, and whose none at all.
#include <string.h>

#include "base/util.h"
#include "code/plan.h"
#include "target/safe.h"

/* glibc's own libraries; what they need is among them. */
static const char *const c_family[] = { "libc.so.", "libm.so.", "libpthread.so.",
	"libdl.so.", "librt.so.", "libutil.so.", "libresolv.so.", "libanl.so.",
	"libmvec.so.", "ld-linux" };

/*
 * What takes frames away or moves to another stack. With dlopen, code that does so may
 * come later.
 */
static const char *const hazards[] = { "_Unwind_*", "__gxx_personality_v0",
	"__gcc_personality_v0", "swapcontext", "makecontext", "setcontext", "sigaltstack",
	"pthread_exit", "pthread_cancel", "dlopen", "dlmopen" };

/* Decoding takes some 50 ms a MB. */
#define MAX_CODE_BYTES (2u << 20)

/*
 * The first symbol of the code that BoringSSL's and AWS-LC's FIPS modules hash when they are
 * loaded, the latter with a prefix; a hash that differs ends the process.
 */
static const char hashed[] = "BORINGSSL_bcm_text_start";

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
	struct plan_image image;
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
	code = elf_file_image(elf, &image, err);
	if (code)
		return code;
	if (plan_stays_on_stack(&image, MAX_CODE_BYTES))
		*ret_why =
			"executable of the C library alone, without unwinding or other stacks";
	return 0;
}

static bool ends_hashed(const struct elf_func *func)
{
	size_t len = strlen(hashed);

	for (size_t i = 0; i < func->name_cnt; i++) {
		const struct elf_name *n = &func->names[i];

		if (n->len >= len && !strcmp(n->name + n->len - len, hashed))
			return true;
	}
	return false;
}

int safe_refused_why(struct elf_file *elf, const char **ret_why, struct err *err)
{
	const struct elf_func *funcs;
	size_t cnt;
	int code;

	*ret_why = NULL;
	code = elf_file_funcs(elf, &funcs, &cnt, err);
	if (code)
		return code;
	for (size_t i = 0; i < cnt && !*ret_why; i++)
		if (ends_hashed(&funcs[i]))
			*ret_why =
				"its file has a FIPS module, which hashes its own code and ends the process";
	return 0;
}
