// SPDX-License-Identifier: BSD-2-Clause
// Notation of other tracers that is no LIB:func here, answered with the line to type instead.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "kernel/tracefs.h"

/* "profile:hz:99", of which the number is the rate. */
static int hint_rate(const char *func, struct err *err)
{
	const char *last = strrchr(func, ':');
	int rate = last ? atoi(last + 1) : 0;

	return err_hint(err, "run 'funcsnoop run cpu --rate %d'", rate > 0 ? rate : 99);
}

/* "syscalls:sys_enter_read" */
static bool hint_syscall(const char *event, struct err *err)
{
	static const char *const heads[] = { "sys_enter_", "sys_exit_" };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		size_t len = strlen(heads[i]);

		if (strncmp(event, heads[i], len) != 0 || syscall_number(event + len) < 0)
			continue;
		err_hint(err, "did you mean 's:%s'", event + len);
		return true;
	}
	return false;
}

static bool is_tracepoint(const char *category, const char *event)
{
	_cleanup_trace_event_ struct trace_event e = {};
	_cleanup_close_ int tracefs = tracefs_open(NULL);

	return tracefs >= 0 && !tracefs_event(tracefs, category, event, &e, NULL);
}

static bool hint_of(const char *func, struct err *err)
{
	static const char *const words[] = { "p", "r", "u", "uprobe", "uretprobe", "usdt" };
	const char *colon = strchr(func, ':'), *name = colon ? colon + 1 : NULL;
	char head[64];

	/* bcc's "funccount c:malloc 10" */
	if (*func && !func[strspn(func, "0123456789")]) {
		err_hint(err, "a duration is an option of 'funcsnoop run': -d %s", func);
		return true;
	}
	if (!colon || (size_t)(colon - func) >= sizeof(head))
		return false;
	memcpy(head, func, colon - func);
	head[colon - func] = '\0';
	if (!strcmp(head, "profile")) {
		hint_rate(func, err);
		return true;
	}
	/* bcc's "p::vfs_read" */
	if (*name == ':' && (!strcmp(head, "p") || !strcmp(head, "r"))) {
		err_hint(err, "did you mean 'k:%s'", name + 1);
		return true;
	}
	if (!strcmp(head, "syscalls") && hint_syscall(name, err))
		return true;
	if (is_tracepoint(head, name)) {
		err_hint(err, "did you mean 't:%s:%s'", head, name);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcmp(head, words[i])) {
			err_hint(err, "name its library: '%s:LIB:%s'", head, name);
			return true;
		}
	return false;
}

void requests_hint_notation(const struct request *const *reqs, size_t req_cnt, struct err *err)
{
	for (size_t i = 0; err && i < req_cnt; i++)
		if (!reqs[i]->literal && hint_of(reqs[i]->func, err))
			return;
}
