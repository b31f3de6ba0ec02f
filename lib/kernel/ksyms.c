// SPDX-License-Identifier: BSD-2-Clause
// The kernel's symbols, as far as they are needed.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "kernel/ksyms.h"

/* "ffffffff81000000 T name" or "ffffffffc0000000 t name	[module]". */
static bool parse(const char *line, struct ksym *ret)
{
	unsigned long long addr;
	int words = sscanf(line, "%llx %c %255s [%63[^]]]", &addr, &ret->type, ret->name,
		ret->module);

	if (words < 3)
		return false;
	ret->addr = addr;
	ret->of = words == 3                  ? KSYM_KERNEL
		: !strcmp(ret->module, "bpf") ? KSYM_LOADED
					      : KSYM_MODULE;
	return true;
}

int ksyms_each(enum ksym_of last, int (*each)(const struct ksym *sym, void *userdata),
	void *userdata)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	struct ksym sym;
	char line[600];
	int code = 0;

	if (!f)
		return -errno;
	while (!code && fgets(line, sizeof(line), f)) {
		if (!parse(line, &sym))
			continue;
		if (sym.of > last)
			break;
		code = each(&sym, userdata);
	}
	return code;
}
