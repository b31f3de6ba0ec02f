// SPDX-License-Identifier: BSD-2-Clause
// The kinds of targets that there are.
#include <string.h>

#include "target/kind.h"

const struct target_kind *const target_kinds[TARGET_CNT] = {
	[TARGET_USER] = &target_user,
};

const struct target_kind *target_kind(unsigned int number)
{
	return target_kinds[number < TARGET_CNT ? number : TARGET_USER];
}

const struct target_kind *target_kind_of(const char *func)
{
	for (size_t i = 0; i < TARGET_CNT; i++) {
		size_t len = strlen(target_kinds[i]->prefix);

		if (strncmp(func, target_kinds[i]->prefix, len) == 0 && func[len] == ':')
			return target_kinds[i];
	}
	return &target_user;
}
