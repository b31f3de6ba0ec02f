// SPDX-License-Identifier: BSD-2-Clause
// Names that groups may have.
#include <errno.h>
#include <string.h>

#include "base/name.h"
#include "base/util.h"

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int group_name_check(const char *name, struct err *err)
{
	static const char *const taken[] = { "functions", "presets", "inflight", "help",
		"all" };
	size_t len = strlen(name);

	if (!len)
		return err_set(err, -EINVAL, "a group needs a name");
	if (len > GROUP_NAME_MAX)
		return err_set(err, -EINVAL,
			"group name '%.64s%s' is longer than %d characters", name,
			len > 64 ? "..." : "", GROUP_NAME_MAX);
	for (const char *p = name; *p; p++)
		if (!is_alnum(*p) && (p == name || (*p != '_' && *p != '-')))
			return err_set(err, -EINVAL,
				"'%s' can't name a group (letters, digits, _ and -, the first a letter or digit)",
				name);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (!strcmp(name, taken[i]))
			return err_set(err, -EINVAL,
				"'%s' can't name a group: it has a meaning of its own",
				name);
	return 0;
}
